//! Standalone planner of one or more service files: runs their control loops and the endpoints until these end.

mod files;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::app::{client, http_backends, run_cycles, scraper};
use crate::backends::SwitchedBackends;
use crate::clock::Clock;
use crate::http::{App, Endpoint, ServerLimits};
use crate::observe::{Fetches, ScrapeTargets};
use crate::registry::{ServiceHandle, ServiceRegistry};
use crate::service::Service;
use crate::shared_budget::SharedBudgets;
use crate::state::StateFile;
pub use files::{ServedFileError, ServedFiles};

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

/// Time in which a cycle may end, and what is known be written, when the planner ends.
const SERVE_END_MAX: Duration = Duration::from_secs(2);

/// Maximum number of services of one planner; a filter has as many.
pub const SERVED_MAX: usize = 64;

/// Plans for `services` and answers at `endpoint` until `stop` is set. Services that share a budget have been added to
/// `budgets`. What is known of the loads is kept in the folder `state`.
///
/// # Errors
/// Fails if something cannot be set up, or if a cycle panicked, which would be a bug. Nothing that proxies,
/// backends or clients do ends the planner.
pub async fn serve(
    services: Vec<Service>,
    budgets: SharedBudgets,
    endpoint: Endpoint,
    state: Option<&Path>,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let registry = Arc::new(ServiceRegistry::default());
    let http = client()?;
    let fetches = Fetches::new(http.clone(), clock);
    let memory = Arc::default();
    let (ends, ended) = watch::channel(false);
    let mut cycles = JoinSet::new();
    for service in services {
        let handle = Arc::new(ServiceHandle::new(service, clock)?);
        handle.mode.allow_changes();
        registry.insert(Arc::clone(&handle));
        let service = Arc::clone(&handle.service);
        let targets = ScrapeTargets::of(&service, clock);
        let scraper = scraper(&service, &fetches, targets);
        let local = http_backends(&service, &http, &memory);
        let state = state.map(|folder| StateFile::new(folder, &service.name));
        // One planner, one term.
        let seat = budgets.seat(&service, Duration::ZERO);
        let ended = ended.clone();
        cycles.spawn(async move {
            let backends = SwitchedBackends::new(local, &handle.mode);
            let ports = (&scraper, &backends);
            let cycles = run_cycles(&handle, clock, ports, (state, seat), ended, |_| {});
            tokio::select! {
                () = cycles => {}
                () = handle.publishers.run_ticks(clock) => {}
            }
        });
    }
    let app = App::new(registry, Arc::clone(&endpoint.keys), clock, stop.clone())?;
    let answering = endpoint.answer(Arc::new(app), ServerLimits::default(), stop);
    let ended = tokio::select! {
        () = answering => Ok(()),
        // No control loop ends; without it the plans would silently become stale.
        Some(broken) = cycles.join_next() => Err(ServeError::Cycle(broken.err())),
    };
    ends.send_replace(true);
    // Without a state, cycles that are running when the endpoints close are not waited for.
    if state.is_some() && ended.is_ok() {
        let all_ended = async { while cycles.join_next().await.is_some() {} };
        if timeout(SERVE_END_MAX, all_ended).await.is_err() {
            tracing::warn!(
                "a cycle was still running after {SERVE_END_MAX:?}; the history is that of the last write"
            );
        }
    }
    cycles.abort_all();
    ended
}
