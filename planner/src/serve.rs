//! Standalone planner: runs the control loop and the endpoints until both end.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::backends::{Actuate, Backend, HttpBackends};
use crate::clock::Clock;
use crate::control_loop::{Aside, Planner, Ports};
use crate::http::{App, CONNECT_MAX, CONNECTIONS_MAX, answer, router};
use crate::key::Key;
use crate::observe::{Observe, ScrapeTargets, Scraper};
use crate::registry::{ServiceHandle, ServiceRegistry};
use crate::service::{Mode, Replicas, Service, Variant};
use crate::telemetry::status::CycleReport;

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

/// Plans for `service` and serves `listener` until `stop` is set.
///
/// # Errors
/// Fails if something cannot be set up, or if a cycle panicked, which would be a bug. Nothing that proxies,
/// backends or clients do ends the planner.
pub async fn serve(
    service: Service,
    key: Key,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let handle = Arc::new(ServiceHandle::new(service, clock)?);
    let services = Arc::new(ServiceRegistry::single(Arc::clone(&handle)));
    let http = client()?;
    let app = App::new(services, key, clock, http.clone(), stop.clone())?;
    let service = Arc::clone(&handle.service);
    let targets = ScrapeTargets::Fixed(service.stats.clone());
    let scraper = scraper(&service, &http, clock, targets);
    let local = http_backends(&service, &http);
    let running = Arc::clone(&handle);
    // A cycle that is running when the endpoints close is not waited for.
    let (_going, never) = watch::channel(false);
    let mut cycle = tokio::spawn(async move {
        match service.mode {
            Mode::Active => run_cycles(&running, clock, &scraper, &local, never, |_| {}).await,
            Mode::Advisory => {
                let advisory = local.advisory();
                run_cycles(&running, clock, &scraper, &advisory, never, |_| {}).await;
            }
        }
    });
    let answering = answer(listener, router(Arc::new(app)), CONNECTIONS_MAX, stop);
    let ended = tokio::select! {
        () = answering => Ok(()),
        () = handle.publishers.run_ticks(clock) => Ok(()),
        // The control loop never ends; without it the plans would silently become stale.
        broken = &mut cycle => Err(ServeError::Cycle(broken.err())),
    };
    cycle.abort();
    ended
}

/// Creates the client for proxies and backends; it ignores proxy settings of the environment.
///
/// # Errors
/// Fails if TLS cannot be set up.
pub fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_MAX)
        .build()
}

/// Returns the backends that are reached over HTTP.
pub(crate) fn http_backends(service: &Service, http: &reqwest::Client) -> HttpBackends {
    let backend = |variant: &Variant| Backend {
        address: variant.resize.clone(),
        replicated: variant.replicas != Replicas::ONE,
        tell_batch: variant.tell_batch,
    };
    let backends = service.variants.iter().map(backend).collect();
    HttpBackends::new(http.clone(), backends, service.resize_timeout)
}

/// Returns the scraper of the proxies.
pub(crate) fn scraper(
    service: &Service,
    http: &reqwest::Client,
    clock: Clock,
    targets: ScrapeTargets,
) -> Scraper {
    let stages = service.stages.iter().map(|stage| stage.name.as_str());
    let stages: Vec<&str> = stages.collect();
    let timeout = service.scrape_timeout;
    Scraper::new(http.clone(), clock, &stages, targets, timeout)
}

/// Runs cycles until `stop` is set, checked between two cycles; calls `on_report` with each report.
pub(crate) async fn run_cycles(
    handle: &ServiceHandle,
    clock: Clock,
    observe: &impl Observe,
    actuate: &impl Actuate,
    mut stop: watch::Receiver<bool>,
    mut on_report: impl FnMut(&CycleReport),
) {
    let mut planner = Planner::new(Arc::clone(&handle.service));
    let mut ticks = interval(handle.service.scrape_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let ports = Ports {
        observe,
        actuate,
        publish: &*handle.publishers,
        solver: &Aside,
        stopwatch: &|| clock.now().at,
    };
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        let Some(report) = planner.tick(&ports, clock.now()).await else {
            continue;
        };
        handle.metrics.record(&report);
        on_report(&report);
        handle.status.push(report);
    }
}
