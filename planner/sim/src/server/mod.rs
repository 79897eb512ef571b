//! A model server without a model: a latency law, a FIFO queue, batching, and so many executions at
//! once. It goes on executing what a client has abandoned, like most real servers.
//!
//! Pure: time comes in as an argument. The emulator runs it on the clock, replay in virtual time.

mod model;

use std::num::NonZeroU32;
use std::time::Duration;

pub use model::{QUEUE_MAX, Run, SERVICE_MAX, ServerModel, Witness};
pub use weir_solve::law::{Law, Parallelism};

/// Most cores a server can be given.
pub const CORES_MAX: f64 = 1024.0;

/// What a modelled server is like.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The model's name, in its paths and answers.
    pub model: String,
    /// Other names it answers to, so that a client need not name the variant.
    pub aliases: Vec<String>,
    /// The service time of a batch.
    pub law: Law,
    /// Cores at the start, 0 to [`CORES_MAX`].
    pub cores: f64,
    /// How many batches are executed at once.
    pub parallelism: Parallelism,
    /// Most requests executed together.
    pub batch_max: NonZeroU32,
    /// How long a batch that is not full waits for more.
    pub batch_delay: Duration,
    /// How long after its start the server is ready; until then it answers 503.
    pub ready_after: Duration,
    /// Multiplicative noise on the service time.
    pub noise: Option<Noise>,
}

/// A log-normal factor with mean 1 on each batch's service time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of the factor's logarithm.
    pub sigma: f64,
    /// The same seed gives the same factors in the same order.
    pub seed: u64,
}

impl ServerConfig {
    /// One core, one execution per core, no batching, no noise, ready at once.
    pub fn new(model: &str, law: Law) -> ServerConfig {
        ServerConfig {
            model: model.to_owned(),
            aliases: Vec::new(),
            law,
            cores: 1.0,
            parallelism: Parallelism::PerCore,
            batch_max: NonZeroU32::MIN,
            batch_delay: Duration::ZERO,
            ready_after: Duration::ZERO,
            noise: None,
        }
    }

    /// Refuses what is out of range.
    ///
    /// # Errors
    /// The first such value, by name.
    pub fn check(&self) -> anyhow::Result<()> {
        self.law.check("law")?;
        check_cores(self.cores).map_err(anyhow::Error::msg)?;
        if let Some(noise) = self.noise {
            let sigma = noise.sigma;
            anyhow::ensure!(
                (0.0..=1.0).contains(&sigma),
                "noise.sigma: {sigma} must be 0 to 1"
            );
        }
        Ok(())
    }
}

/// Cores that a server can run on.
///
/// # Errors
/// What is wrong with them.
pub fn check_cores(cores: f64) -> Result<f64, String> {
    if (0.0..=CORES_MAX).contains(&cores) {
        return Ok(cores);
    }
    Err(format!(
        "cores: {cores} must be a number from 0 to {CORES_MAX}"
    ))
}
