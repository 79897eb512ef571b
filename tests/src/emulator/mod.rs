//! The variant emulator: a model server without a model, named one wherever it shows.
//!
//! It speaks the Open Inference Protocol v2 over HTTP (1.1 and 2) on a free port of 127.0.0.1, takes
//! as long as a [`Law`] says, executes a bounded number of batches at once from a FIFO queue, and, like
//! most real servers, goes on executing what a client has abandoned. It decides nothing about
//! deadlines: it records the headers it was sent and answers late if it is late.
//!
//! What it does when is [`weir_model::server`]'s to say; `server` runs that on the clock, `http` is the
//! door; this file is the handle.

mod http;
mod journal;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::AbortHandle;

pub use http::{BODY_MAX, InferAnswer, Output, Resources};
pub use journal::{EXECUTIONS_MAX, Execution};
pub use weir_model::server::{
    CORES_MAX, Law, Noise, Parallelism, QUEUE_MAX, SERVICE_MAX, ServerConfig,
};

/// A running emulator; it stops when dropped.
#[derive(Debug)]
pub struct Emulator {
    server: Arc<server::Server>,
    addr: SocketAddr,
    clockwork: AbortHandle,
    accepting: Option<AbortHandle>,
}

impl Emulator {
    /// Starts on a free port.
    ///
    /// # Errors
    /// A configuration value out of its range, by name, or no port.
    pub async fn start(config: ServerConfig) -> anyhow::Result<Emulator> {
        config.check()?;
        let server = Arc::new(server::Server::new(config)?);
        let clockwork = tokio::spawn(server::run_clockwork(Arc::clone(&server))).abort_handle();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (addr, accepting) = server::listen(Arc::clone(&server), any).await?;
        Ok(Emulator {
            server,
            addr,
            clockwork,
            accepting: Some(accepting),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:port`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        self.server.model()
    }

    /// All executions started so far, in that order (the latest [`EXECUTIONS_MAX`]).
    pub fn executions(&self) -> Vec<Execution> {
        self.server.executions(0)
    }

    /// Executions that were forgotten because there were more than [`EXECUTIONS_MAX`].
    pub fn forgotten(&self) -> u64 {
        self.server.forgotten()
    }

    /// Requests that wait in its queue, and requests it executes.
    pub fn load(&self) -> (usize, usize) {
        self.server.load()
    }

    /// Cores now.
    pub fn cores(&self) -> f64 {
        self.server.resources().cores
    }

    /// Gives it other cores; executions that start afterwards run on them.
    ///
    /// # Errors
    /// Cores that are not 0 to [`CORES_MAX`].
    pub fn set_cores(&self, cores: f64) -> anyhow::Result<()> {
        self.server
            .set_resources(Some(cores), None)
            .map(drop)
            .map_err(anyhow::Error::msg)
    }

    /// Cores × seconds since the start or the last [`Emulator::reset`].
    pub fn core_seconds(&self) -> f64 {
        self.server.core_seconds()
    }

    /// Forgets executions and core-seconds; what waits and runs goes on.
    pub fn reset(&self) {
        self.server.reset();
    }

    /// The next `n` requests for inference are answered 500 without being executed.
    pub fn fail_next(&self, n: u32) {
        self.server.fail_next(n);
    }

    /// Executions that start from now on take `factor` times as long.
    ///
    /// # Errors
    /// A factor that is no number, or not above 0.
    pub fn slow_by(&self, factor: f64) -> anyhow::Result<()> {
        anyhow::ensure!(
            factor.is_finite() && factor > 0.0,
            "factor: {factor} must be above 0"
        );
        self.server.slow_by(factor);
        Ok(())
    }

    /// Closes every open connection; work goes on and new connections are accepted.
    pub fn hang_up(&self) {
        self.server.hang_up();
    }

    /// Crashes: refuses connections, closes the open ones, forgets what waited and ran.
    pub fn crash(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
        self.server.hang_up();
        self.server.crash();
    }

    /// Listens again on the same port after a [`Emulator::crash`].
    ///
    /// # Errors
    /// Somebody else has taken the port.
    pub async fn come_back(&mut self) -> anyhow::Result<()> {
        if self.accepting.is_none() {
            let (_, accepting) = server::listen(Arc::clone(&self.server), self.addr).await?;
            self.accepting = Some(accepting);
        }
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.crash();
        self.clockwork.abort();
    }
}
