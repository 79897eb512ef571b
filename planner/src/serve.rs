//! Standalone planner: runs the control loop and the endpoints until both end. A service that is replaced over the
//! endpoints ([`crate::specification`]) has a control loop of its own from the end of the running cycle on.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::app::{client, http_backends, run_cycles, scraper};
use crate::backends::SwitchedBackends;
use crate::clock::Clock;
use crate::http::replay::ReplayRunner;
use crate::http::{App, Endpoint, ServerLimits};
use crate::observe::{Fetches, ScrapeTargets};
use crate::registry::{ServiceHandle, ServiceRegistry};
use crate::service::Service;
use crate::specification::Specification;
use crate::state::StateFile;

/// Reason why the planner cannot run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ServeError {
    #[error("HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("the cycle broke: {0:?}")]
    Cycle(Option<tokio::task::JoinError>),
}

/// Time in which a cycle may end, and what is known be written, when the planner ends or the service is replaced.
const SERVE_END_MAX: Duration = Duration::from_secs(2);

/// Service of a standalone planner.
#[derive(Debug)]
pub struct ServedService {
    /// The service.
    pub service: Service,
    /// Specification that it was read of.
    pub specification: Specification,
    /// The replay for `POST /v1/replay`, if the program provides it.
    pub replay: Option<ReplayRunner>,
    /// Folder in which what is known of the load is kept.
    pub state: Option<PathBuf>,
}

/// Plans for `served` and answers at `endpoint` until `stop` is set.
///
/// # Errors
/// Fails if something cannot be set up, or if a cycle panicked, which would be a bug. Nothing that proxies,
/// backends or clients do ends the planner.
pub async fn serve(
    served: ServedService,
    endpoint: Endpoint,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let ServedService {
        service,
        specification,
        replay,
        state,
    } = served;
    let name = service.name.clone();
    let handle = ServiceHandle::new(service, clock)?.with_specification(specification);
    handle.mode.allow_changes();
    let services = Arc::new(ServiceRegistry::single(Arc::new(handle)));
    let http = client()?;
    let app = App {
        replay_runner: replay,
        ..App::new(
            Arc::clone(&services),
            Arc::clone(&endpoint.keys),
            clock,
            stop.clone(),
        )?
    };
    let keeps = state.is_some();
    let (ends, ended) = watch::channel(false);
    let control = Control {
        services,
        name,
        http,
        clock,
        state,
    };
    let mut cycles = tokio::spawn(control.run(ended));
    let answering = endpoint.answer(Arc::new(app), ServerLimits::default(), stop);
    let ended = tokio::select! {
        () = answering => Ok(()),
        // The control loop never ends; without it the plans would silently become stale.
        broken = &mut cycles => Err(ServeError::Cycle(broken.err())),
    };
    ends.send_replace(true);
    // Without a state, a cycle that is running when the endpoints close is not waited for.
    if keeps && ended.is_ok() && timeout(SERVE_END_MAX, &mut cycles).await.is_err() {
        tracing::warn!(
            "a cycle was still running after {SERVE_END_MAX:?}; the history is that of the last write"
        );
    }
    cycles.abort();
    ended
}

/// Control loop of one service, and of those that replace it.
struct Control {
    services: Arc<ServiceRegistry>,
    name: String,
    http: reqwest::Client,
    clock: Clock,
    state: Option<PathBuf>,
}

impl Control {
    /// Runs cycles until `stop` is set.
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let (fetches, memory) = (
            Fetches::new(self.http.clone(), self.clock),
            // It outlives a service that is replaced.
            Arc::default(),
        );
        while let Some(handle) = self.services.get(&self.name) {
            let service = Arc::clone(&handle.service);
            let targets = ScrapeTargets::of(&service, self.clock);
            let scraper = scraper(&service, &fetches, targets);
            let backends = http_backends(&service, &self.http, &memory);
            let backends = SwitchedBackends::new(backends, &handle.mode);
            let state = self.state.as_deref();
            let state = state.map(|folder| StateFile::new(folder, &service.name));
            let (ends, ended) = watch::channel(false);
            let ports = (&scraper, &backends);
            let mut cycles = pin!(run_cycles(&handle, self.clock, ports, state, ended, |_| {}));
            let is_replaced = tokio::select! {
                () = &mut cycles => return,
                () = handle.publishers.run_ticks(self.clock) => return,
                _ = stop.wait_for(|stop| *stop) => false,
                () = handle.wait_replaced() => true,
            };
            ends.send_replace(true);
            if !is_replaced {
                return cycles.await;
            }
            if timeout(SERVE_END_MAX, cycles).await.is_err() {
                tracing::warn!(
                    "{}: a cycle of the service before was still running after {SERVE_END_MAX:?}",
                    self.name
                );
            }
        }
    }
}
