//! Simulated model server: a latency model, a FIFO queue, batching, and a bounded number of
//! parallel executions. Like most real servers, it goes on executing requests that their client has
//! abandoned.
//!
//! Pure: time is an argument. The emulator runs it in real time, replay in virtual time.

mod curve;
mod model;

use std::num::NonZeroU32;
use std::time::Duration;

pub use model::{QUEUE_MAX, Run, SERVICE_MAX, ServerModel, Witness, service_time};
pub use weir_solve::latency_model::{Latency, LatencyModel, Parallelism};

/// Maximum number of cores of a server.
pub const CORES_MAX: f64 = 1024.0;

/// Configuration of a simulated server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Name of the model, in its paths and answers.
    pub model: String,
    /// Other names it answers to, so that a client need not name the variant.
    pub aliases: Vec<String>,
    /// Service time of a batch.
    pub latency: Latency,
    /// Cores at the start, 0 to [`CORES_MAX`].
    pub cores: f64,
    /// Number of batches executed at the same time.
    pub parallelism: Parallelism,
    /// Maximum number of requests executed together.
    pub batch_max: NonZeroU32,
    /// Batch window: maximum wait of an incomplete batch for more requests.
    pub batch_delay: Duration,
    /// Begin of that window.
    pub batch_window: BatchWindow,
    /// Time from its start until the server is ready; until then it answers 503.
    pub ready_after: Duration,
    /// Multiplicative noise on the service time.
    pub noise: Option<Noise>,
}

/// Begin of a batch window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchWindow {
    /// At the arrival of its first request, whether the server is busy or not: what has waited that long is executed
    /// as soon as the server is idle, with all that has come meanwhile.
    #[default]
    Arrival,
    /// The same, but the batch is closed at the end of its window, as in Triton (`model/closed.rs`).
    Closed,
    /// Not before the server is idle, as in mosec and Ray Serve, whose worker collects its batch then.
    Idle,
}

/// Maximum standard deviation of the factor's logarithm: its 99th percentile is then 14 times its mean. Under a CPU
/// quota that is used up, service times have 99th percentiles of 5 to 8 times their mean.
pub const NOISE_SIGMA_MAX: f64 = 2.0;

/// Log-normal factor with mean 1 on each batch's service time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of the factor's logarithm.
    pub sigma: f64,
    /// Seed; the same seed gives the same factors in the same order.
    pub seed: u64,
}

impl ServerConfig {
    /// One core, one execution per core, no batching, no noise, ready at once.
    pub fn new(model: &str, latency: impl Into<Latency>) -> ServerConfig {
        ServerConfig {
            model: model.to_owned(),
            aliases: Vec::new(),
            latency: latency.into(),
            cores: 1.0,
            parallelism: Parallelism::PerCore,
            batch_max: NonZeroU32::MIN,
            batch_delay: Duration::ZERO,
            batch_window: BatchWindow::default(),
            ready_after: Duration::ZERO,
            noise: None,
        }
    }

    /// Checks all values against their ranges.
    ///
    /// # Errors
    /// The first value out of range, by name.
    pub fn check(&self) -> anyhow::Result<()> {
        match &self.latency {
            // A model of zeros is valid here: such a server answers at once.
            Latency::Sponge(model) => model.check("latency")?,
            latency => latency.check("latency")?,
        }
        check_cores(self.cores).map_err(anyhow::Error::msg)?;
        if let Some(noise) = self.noise {
            let sigma = noise.sigma;
            anyhow::ensure!(
                (0.0..=NOISE_SIGMA_MAX).contains(&sigma),
                "noise.sigma: {sigma} must be 0 to {NOISE_SIGMA_MAX}"
            );
        }
        Ok(())
    }
}

/// Checks that a server can run on `cores`.
///
/// # Errors
/// The value and the valid range.
pub fn check_cores(cores: f64) -> Result<f64, String> {
    if (0.0..=CORES_MAX).contains(&cores) {
        return Ok(cores);
    }
    Err(format!(
        "cores: {cores} must be a number from 0 to {CORES_MAX}"
    ))
}
