//! State shared by the emulator's handlers, timer and handle, and its connections.
//!
//! One lock around the engine, never held across an await. Each connection has a task of its own,
//! so that a broken one does not affect the others.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::ServerConfig;
use super::http::Resources;
use super::journal::{Execution, Journal, PendingRequest, RequestInfo};
use super::work::Next;
use weir_sim::server::Parallelism;
use weir_sim::server::{Run, ServerModel, check_cores};

/// The simulated server, with the emulator's data for each request.
type Model = ServerModel<PendingRequest, Journal>;

/// State shared by the handlers, the timer task and the handle.
pub(super) struct Server {
    names: Vec<String>,
    ready_after: Duration,
    started: Instant,
    engine: Mutex<Model>,
    /// Wakes the timer task: something arrived or changed.
    changed: Notify,
    /// A new value closes every connection.
    hang_up: watch::Sender<u64>,
    fail_next: AtomicU32,
    unloaded: AtomicBool,
    next: Mutex<Option<Next>>,
    /// One-way network delay between a client and the queue.
    hop: Mutex<Duration>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("model", &self.model())
            .finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(config: ServerConfig) -> anyhow::Result<Server> {
        let mut names = vec![config.model.clone()];
        names.extend(config.aliases.iter().cloned());
        Ok(Server {
            names,
            ready_after: config.ready_after,
            started: Instant::now(),
            engine: Mutex::new(ServerModel::new(config)?),
            changed: Notify::new(),
            hang_up: watch::Sender::new(0),
            fail_next: AtomicU32::new(0),
            unloaded: AtomicBool::new(false),
            next: Mutex::default(),
            hop: Mutex::default(),
        })
    }

    pub(super) fn model(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    pub(super) fn executions(&self, after: u64) -> Vec<Execution> {
        let engine = self.lock();
        let all = &engine.witness().executions;
        all.iter()
            .filter(|done| done.order > after)
            .cloned()
            .collect()
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.lock().witness().forgotten
    }

    pub(super) fn load(&self) -> (usize, usize) {
        self.lock().load()
    }

    pub(super) fn resources(&self) -> Resources {
        let engine = self.lock();
        let (cores, parallelism) = engine.resources();
        Resources {
            cores,
            parallelism,
            batch: engine.batch(),
        }
    }

    pub(super) fn set_resources(
        &self,
        cores: Option<f64>,
        parallelism: Option<Parallelism>,
    ) -> Result<Resources, String> {
        let cores = cores.map(check_cores).transpose()?;
        self.advance_then(|engine, now| {
            let (old_cores, old_parallelism) = engine.resources();
            let cores = cores.unwrap_or(old_cores);
            let parallelism = parallelism.unwrap_or(old_parallelism);
            engine.set_resources(now, cores, parallelism);
        });
        Ok(self.resources())
    }

    pub(super) fn set_batch(&self, batch: NonZeroU32) {
        self.advance_then(|engine, _| engine.set_batch(batch));
    }

    pub(super) fn core_seconds(&self) -> f64 {
        self.lock().core_seconds(self.started.elapsed())
    }

    pub(super) fn reset(&self) {
        self.advance_then(|engine, now| {
            engine.reset(now);
            engine.witness_mut().clear();
        });
    }

    pub(super) fn slow_by(&self, factor: f64) {
        self.advance_then(|engine, _| engine.slow_by(factor));
    }

    pub(super) fn fail_next(&self, n: u32) {
        self.fail_next.store(n, Ordering::SeqCst);
    }

    pub(super) fn unload(&self, unloaded: bool) {
        self.unloaded.store(unloaded, Ordering::SeqCst);
    }

    pub(super) fn is_unloaded(&self) -> bool {
        self.unloaded.load(Ordering::SeqCst)
    }

    pub(super) fn hang_up(&self) {
        self.hang_up.send_modify(|times| *times += 1);
    }

    pub(super) fn crash(&self) {
        self.lock().crash();
    }

    fn lock(&self) -> MutexGuard<'_, Model> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the engine to now, applies `change`, and starts the executions it allows.
    fn advance_then<R>(&self, change: impl FnOnce(&mut Model, Duration) -> R) -> R {
        let (result, ended) = {
            let mut engine = self.lock();
            let now = self.started.elapsed();
            let mut ended = Vec::new();
            engine.advance(now, &mut ended);
            let result = change(&mut engine, now);
            engine.advance(now, &mut ended);
            (result, ended)
        };
        answer(ended);
        self.changed.notify_one();
        result
    }

    /// Queues a request. The receiver gets its record after its execution, or an error if the
    /// server crashes. `None` if the queue is full.
    pub(super) fn execute(
        &self,
        info: RequestInfo,
        begun: Option<mpsc::UnboundedSender<Execution>>,
    ) -> Option<oneshot::Receiver<Execution>> {
        let (reply, execution) = oneshot::channel();
        let pending = PendingRequest { info, begun, reply };
        let taken = self.advance_then(|engine, now| engine.arrive(now, pending));
        taken.is_ok().then_some(execution)
    }

    /// The instant `ms` after the start, the time base of the records.
    pub(super) fn instant(&self, ms: f64) -> Instant {
        self.started + Duration::from_secs_f64(ms.max(0.0) / 1e3)
    }

    /// Receiver that changes when every connection is to be closed.
    pub(super) fn watch_hang_up(&self) -> watch::Receiver<u64> {
        self.hang_up.subscribe()
    }

    pub(super) fn next(&self) -> Option<Next> {
        self.next
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_next(&self, next: Option<Next>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    pub(super) fn hop(&self) -> Duration {
        *self.hop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_hop(&self, hop: Duration) {
        *self.hop.lock().unwrap_or_else(PoisonError::into_inner) = hop;
    }

    pub(super) fn serves(&self, model: &str) -> bool {
        self.names.iter().any(|name| name == model)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.started.elapsed() >= self.ready_after
    }

    pub(super) fn takes_failure(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.fail_next
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .is_ok()
    }
}

/// Ends executions at their time, for as long as the emulator lives.
pub(super) async fn run_timer(server: Arc<Server>) {
    loop {
        let (ended, next) = {
            let mut engine = server.lock();
            let mut ended = Vec::new();
            engine.advance(server.started.elapsed(), &mut ended);
            (ended, engine.next_event())
        };
        answer(ended);
        match next {
            Some(at) => {
                let _ =
                    tokio::time::timeout_at(server.started + at, server.changed.notified()).await;
            }
            None => server.changed.notified().await,
        }
    }
}

/// Sends the records to the handlers that still wait. Work for disconnected clients was done all
/// the same.
fn answer(ended: Vec<(PendingRequest, Run)>) {
    for (pending, run) in ended {
        pending.answer(&run);
    }
}

/// Listens at `addr` and serves every connection until it is told to close them.
pub(super) async fn listen(
    server: Arc<Server>,
    addr: SocketAddr,
) -> io::Result<(SocketAddr, AbortHandle)> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    let routes = super::doors(Arc::clone(&server));
    let accepting = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let hung_up = server.hang_up.subscribe();
                    tokio::spawn(serve(stream, routes.clone(), hung_up));
                }
                // Most likely out of file descriptors: wait until others have closed theirs.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    });
    Ok((addr, accepting.abort_handle()))
}

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

async fn serve(stream: TcpStream, routes: Router, mut hung_up: watch::Receiver<u64>) {
    let _ = stream.set_nodelay(true);
    let connection = auto::Builder::new(TokioExecutor::new());
    let service = TowerToHyperService::new(routes);
    tokio::select! {
        _ = connection.serve_connection_with_upgrades(TokioIo::new(stream), service) => {}
        _ = hung_up.changed() => {}
    }
}
