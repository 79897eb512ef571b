//! The variant emulator: a model server without a model, named one wherever it shows.
//!
//! It speaks the Open Inference Protocol v2 over HTTP (1.1 and 2) and gRPC, TF Serving's REST, plain
//! HTTP, server-sent events and websockets on one free port of 127.0.0.1, takes as long as a [`Law`] says, executes a bounded number of batches at once from a FIFO queue, and, like
//! most real servers, goes on executing what a client has abandoned. It decides nothing about
//! deadlines: it records the headers it was sent and answers late if it is late.
//!
//! What it does when is [`weir_sim::server`]'s to say; `server` runs that on the clock, `work` lets
//! requests in from the doors (`http`, `grpc`, `tfserving`, `plain`); this file is the handle.

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
    CORES_MAX, Law, Noise, Parallelism, QUEUE_MAX, SERVICE_MAX, ServerConfig,
};

/// Which emulated model answered; on every answer, whatever the protocol.
pub const EMULATED: &str = "x-emulated";

/// All doors behind one port.
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
    clockwork: AbortHandle,
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
        let clockwork = tokio::spawn(server::run_clockwork(Arc::clone(&server))).abort_handle();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (addr, accepting) = server::listen(Arc::clone(&server), any).await?;
        Ok(Emulator {
            server,
            addr,
            clockwork,
            accepting: Mutex::new(Some(accepting)),
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

    /// Gives it other cores and executions at once; executions that start afterwards run on them.
    ///
    /// # Errors
    /// Cores that are not 0 to [`CORES_MAX`].
    pub fn set_resources(&self, cores: f64, parallelism: Parallelism) -> anyhow::Result<()> {
        self.server
            .set_resources(Some(cores), Some(parallelism))
            .map(drop)
            .map_err(anyhow::Error::msg)
    }

    /// Most requests that it executes together.
    pub fn batch(&self) -> NonZeroU32 {
        self.server.resources().batch
    }

    /// From now on it executes so many requests together at most.
    pub fn set_batch(&self, batch: NonZeroU32) {
        self.server.set_batch(batch);
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

    /// Takes the model away, or gives it back: without it every request for inference is answered 404.
    pub fn unload(&self, unloaded: bool) {
        self.server.unload(unloaded);
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

    /// From now on each request executed here is sent on to `url` (over gRPC: to whoever is there), with
    /// its `x-slo-*`, `grpc-timeout` and `x-request-id`, and answered when the answer has come; an
    /// answer that is no success is passed on. `None`: no more.
    ///
    /// # Errors
    /// It is no URL.
    pub fn then(&self, url: Option<&str>) -> anyhow::Result<()> {
        self.server.set_next(url.map(work::Next::new).transpose()?);
        Ok(())
    }

    /// Puts the server so far away: from now on a request over HTTP is in the queue one `hop` after its last byte, and
    /// its answer leaves one after its end. Connections are made at once.
    pub fn away_by(&self, hop: Duration) {
        self.server.set_hop(hop);
    }

    /// Returns the instant that is so many ms after its start, as [`Execution`] counts them.
    pub fn instant(&self, ms: f64) -> Instant {
        self.server.instant(ms)
    }

    /// Closes every open connection; work goes on and new connections are accepted.
    pub fn hang_up(&self) {
        self.server.hang_up();
    }

    /// Crashes: refuses connections, closes the open ones, forgets what waited and ran.
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
    /// Somebody else has taken the port.
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
        self.clockwork.abort();
    }
}
