//! The variant emulator: a model server without a model. Every response names it as emulated.
//!
//! It speaks the Open Inference Protocol v2 over HTTP (1.1 and 2) and gRPC, TF Serving's REST, plain HTTP,
//! server-sent events and websockets on one free port of 127.0.0.1. Service times follow a [`LatencyModel`]. It executes a
//! bounded number of batches at once from a FIFO queue. Like most real servers it goes on executing abandoned
//! requests. It ignores deadlines: it records the headers it receives, and answers late if it is late.
//!
//! The timing is computed by [`weir_sim::server`]. `server` runs that on the real clock, `work` admits requests from
//! the endpoints (`http`, `grpc`, `tfserving`, `plain`), and this file is the handle.

mod grpc;
mod http;
mod journal;
mod padding;
mod plain;
mod replicas;
mod server;
mod tfserving;
mod work;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::HeaderValue;
use axum::response::Response;
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub use http::{BODY_MAX, InferAnswer, Output, Resources};
pub use journal::{Door, EXECUTIONS_MAX, Execution};
pub use padding::{ANSWER_BYTES, ANSWER_MAX};
pub use plain::EVENTS_MAX;
pub use replicas::{Endpoints, Replicas, ReplicasConfig};
pub use weir_sim::server::{
    CORES_MAX, LatencyModel, Noise, Parallelism, QUEUE_MAX, SERVICE_MAX, ServerConfig,
};

/// Header with the name of the emulated model, on every response of every protocol.
pub const EMULATED: &str = "x-emulated";

/// The routes of all protocols on one port.
fn doors(server: Arc<server::Server>) -> Router {
    let named = axum::middleware::map_response_with_state(Arc::clone(&server), name_it);
    http::routes()
        .merge(grpc::routes())
        .merge(plain::routes())
        .merge(tfserving::routes())
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(named)
        .with_state(server)
}

async fn name_it(State(server): State<Arc<server::Server>>, mut answer: Response) -> Response {
    if let Ok(model) = HeaderValue::from_str(server.model()) {
        answer.headers_mut().insert(EMULATED, model);
    }
    answer
}

/// A running emulator; it stops when dropped.
#[derive(Debug)]
pub struct Emulator {
    server: Arc<server::Server>,
    addr: SocketAddr,
    timer: AbortHandle,
    accepting: Mutex<Option<AbortHandle>>,
}

impl Emulator {
    /// Starts on a free port.
    ///
    /// # Errors
    /// A configuration value out of its range, by name, or no port.
    pub async fn start(config: ServerConfig) -> anyhow::Result<Emulator> {
        config.check()?;
        let server = Arc::new(server::Server::new(config)?);
        let timer = tokio::spawn(server::run_timer(Arc::clone(&server))).abort_handle();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (addr, accepting) = server::listen(Arc::clone(&server), any).await?;
        Ok(Emulator {
            server,
            addr,
            timer,
            accepting: Mutex::new(Some(accepting)),
        })
    }

    /// The listening address.
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

    /// All executions started so far, in start order (the latest [`EXECUTIONS_MAX`]).
    pub fn executions(&self) -> Vec<Execution> {
        self.server.executions(0)
    }

    /// Executions dropped from the journal because there were more than [`EXECUTIONS_MAX`].
    pub fn forgotten(&self) -> u64 {
        self.server.forgotten()
    }

    /// Number of queued requests and number of executing requests.
    pub fn load(&self) -> (usize, usize) {
        self.server.load()
    }

    /// Current cores.
    pub fn cores(&self) -> f64 {
        self.server.resources().cores
    }

    /// Sets the cores; executions that start afterwards use them.
    ///
    /// # Errors
    ///
    /// `cores` is not 0 to [`CORES_MAX`].
    pub fn set_cores(&self, cores: f64) -> anyhow::Result<()> {
        self.server
            .set_resources(Some(cores), None)
            .map(drop)
            .map_err(anyhow::Error::msg)
    }

    /// Sets the cores and the parallelism; executions that start afterwards use them.
    ///
    /// # Errors
    ///
    /// `cores` is not 0 to [`CORES_MAX`].
    pub fn set_resources(&self, cores: f64, parallelism: Parallelism) -> anyhow::Result<()> {
        self.server
            .set_resources(Some(cores), Some(parallelism))
            .map(drop)
            .map_err(anyhow::Error::msg)
    }

    /// Maximum requests in one batch.
    pub fn batch(&self) -> NonZeroU32 {
        self.server.resources().batch
    }

    /// Sets the maximum requests in one batch.
    pub fn set_batch(&self, batch: NonZeroU32) {
        self.server.set_batch(batch);
    }

    /// Cores × seconds since the start or the last [`Emulator::reset`].
    pub fn core_seconds(&self) -> f64 {
        self.server.core_seconds()
    }

    /// Clears the journal and the core-seconds; queued and executing requests are not affected.
    pub fn reset(&self) {
        self.server.reset();
    }

    /// Answers the next `n` inference requests with 500, without executing them.
    pub fn fail_next(&self, n: u32) {
        self.server.fail_next(n);
    }

    /// Removes the model or restores it. While it is removed, every inference request is answered 404.
    pub fn unload(&self, unloaded: bool) {
        self.server.unload(unloaded);
    }

    /// Multiplies the service time of executions that start from now on by `factor`.
    ///
    /// # Errors
    ///
    /// `factor` is not a finite number above 0.
    pub fn slow_by(&self, factor: f64) -> anyhow::Result<()> {
        anyhow::ensure!(
            factor.is_finite() && factor > 0.0,
            "factor: {factor} must be above 0"
        );
        self.server.slow_by(factor);
        Ok(())
    }

    /// Forwards each request executed here to `url` (over gRPC: to its host and port) with its `x-slo-*`,
    /// `grpc-timeout` and `x-request-id`, and answers after the next stage has. An unsuccessful response is passed
    /// on. `None` ends the forwarding.
    ///
    /// # Errors
    ///
    /// `url` is invalid.
    pub fn then(&self, url: Option<&str>) -> anyhow::Result<()> {
        self.server.set_next(url.map(work::Next::new).transpose()?);
        Ok(())
    }

    /// Adds a one-way network delay. A request over HTTP enters the queue one `hop` after its last byte arrived, and
    /// its response leaves one `hop` after the execution ended. Connections are made without delay.
    pub fn away_by(&self, hop: Duration) {
        self.server.set_hop(hop);
    }

    /// The instant `ms` after the server's start, the time base of [`Execution`].
    pub fn instant(&self, ms: f64) -> Instant {
        self.server.instant(ms)
    }

    /// Closes every open connection; executions go on and new connections are accepted.
    pub fn hang_up(&self) {
        self.server.hang_up();
    }

    /// Crashes: refuses connections, closes the open ones, drops queued and executing requests.
    pub fn crash(&self) {
        if let Some(accepting) = self.accepting().take() {
            accepting.abort();
        }
        self.server.hang_up();
        self.server.crash();
    }

    /// Listens again on the same port after a [`Emulator::crash`].
    ///
    /// # Errors
    ///
    /// The port is taken by another process.
    pub async fn come_back(&self) -> anyhow::Result<()> {
        if self.accepting().is_none() {
            let (_, accepting) = server::listen(Arc::clone(&self.server), self.addr).await?;
            *self.accepting() = Some(accepting);
        }
        Ok(())
    }

    fn accepting(&self) -> std::sync::MutexGuard<'_, Option<AbortHandle>> {
        self.accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.crash();
        self.timer.abort();
    }
}
