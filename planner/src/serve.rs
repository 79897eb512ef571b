//! Standalone planner: runs the control loop and the endpoints until both end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::app::{client, http_backends, run_cycles, scraper};
use crate::backends::SwitchedBackends;
use crate::clock::Clock;
use crate::http::{App, Endpoint, ServerLimits};
use crate::observe::{Fetches, ScrapeTargets};
use crate::registry::{ServiceHandle, ServiceRegistry};
use crate::service::Service;
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

/// Time in which a cycle may end, and what is known be written, when the planner ends.
const SERVE_END_MAX: Duration = Duration::from_secs(2);

/// Plans for `service` and answers at `endpoint` until `stop` is set. What is known of the load is kept in the folder
/// `state`.
///
/// # Errors
/// Fails if something cannot be set up, or if a cycle panicked, which would be a bug. Nothing that proxies,
/// backends or clients do ends the planner.
pub async fn serve(
    service: Service,
    endpoint: Endpoint,
    state: Option<&Path>,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let handle = Arc::new(ServiceHandle::new(service, clock)?);
    let services = Arc::new(ServiceRegistry::single(Arc::clone(&handle)));
    let http = client()?;
    let app = App::new(services, Arc::clone(&endpoint.keys), clock, stop.clone())?;
    handle.mode.allow_changes();
    let service = Arc::clone(&handle.service);
    let targets = ScrapeTargets::of(&service, clock);
    let fetches = Fetches::new(http.clone(), clock);
    let scraper = scraper(&service, &fetches, targets);
    let local = http_backends(&service, &http, &Arc::default());
    let running = Arc::clone(&handle);
    let state = state.map(|folder| StateFile::new(folder, &service.name));
    let keeps = state.is_some();
    let (ends, ended) = watch::channel(false);
    let mut cycle = tokio::spawn(async move {
        let backends = SwitchedBackends::new(local, &running.mode);
        let ports = (&scraper, &backends);
        run_cycles(&running, clock, ports, state, ended, |_| {}).await;
    });
    let answering = endpoint.answer(Arc::new(app), ServerLimits::default(), stop);
    let ended = tokio::select! {
        () = answering => Ok(()),
        () = handle.publishers.run_ticks(clock) => Ok(()),
        // The control loop never ends; without it the plans would silently become stale.
        broken = &mut cycle => Err(ServeError::Cycle(broken.err())),
    };
    ends.send_replace(true);
    // Without a state, a cycle that is running when the endpoints close is not waited for.
    if keeps && ended.is_ok() && timeout(SERVE_END_MAX, &mut cycle).await.is_err() {
        tracing::warn!(
            "a cycle was still running after {SERVE_END_MAX:?}; the history is that of the last write"
        );
    }
    cycle.abort();
    ended
}
