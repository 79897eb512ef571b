//! The planner as a service: the cycle on its clock, the doors on theirs, and their common end.

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
use crate::served::{Served, Services};
use crate::service::{Mode, Replicas, Service, Variant};
use crate::telemetry::status::CycleReport;

/// Why the planner cannot run.
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

/// Plans for `service` and answers on `listener` until `stop` says so.
///
/// # Errors
/// Something could not be set up, or a turn panicked (a mistake of ours). Nothing that proxies,
/// backends or clients do ends the planner.
pub async fn serve(
    service: Service,
    key: Key,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let served = Arc::new(Served::new(service, clock)?);
    let services = Arc::new(Services::one(Arc::clone(&served)));
    let http = client()?;
    let app = App::new(services, key, clock, http.clone(), stop.clone())?;
    let service = Arc::clone(&served.service);
    let targets = ScrapeTargets::Fixed(service.stats.clone());
    let scraper = scraper(&service, &http, clock, targets);
    let local = local(&service, &http);
    let turning = Arc::clone(&served);
    // A turn that is under way when the doors close is not waited for.
    let (_going, never) = watch::channel(false);
    let mut cycle = tokio::spawn(async move {
        match service.mode {
            Mode::Active => cycle(&turning, clock, &scraper, &local, never, |_| {}).await,
            Mode::Advisory => {
                let advisory = local.advisory();
                cycle(&turning, clock, &scraper, &advisory, never, |_| {}).await;
            }
        }
    });
    let answering = answer(listener, router(Arc::new(app)), CONNECTIONS_MAX, stop);
    let ended = tokio::select! {
        () = answering => Ok(()),
        () = served.publishers.keep_time(clock) => Ok(()),
        // It turns for ever; without it the plans would silently grow old.
        broken = &mut cycle => Err(ServeError::Cycle(broken.err())),
    };
    cycle.abort();
    ended
}

/// Asks proxies and backends directly, whatever proxy the environment names.
///
/// # Errors
/// TLS cannot be set up.
pub fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_MAX)
        .build()
}

/// The variants' backends that are reached over HTTP.
pub(crate) fn local(service: &Service, http: &reqwest::Client) -> HttpBackends {
    let backend = |variant: &Variant| Backend {
        address: variant.resize.clone(),
        replicated: variant.replicas != Replicas::ONE,
        tell_batch: variant.tell_batch,
    };
    let backends = service.variants.iter().map(backend).collect();
    HttpBackends::new(http.clone(), backends, service.resize_timeout)
}

/// Looks at the proxies that are there.
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

/// Turns until `stop` says so, between two turns; each is told of.
pub(crate) async fn cycle(
    served: &Served,
    clock: Clock,
    observe: &impl Observe,
    actuate: &impl Actuate,
    mut stop: watch::Receiver<bool>,
    mut tell: impl FnMut(&CycleReport),
) {
    let mut planner = Planner::new(Arc::clone(&served.service));
    let mut ticks = interval(served.service.scrape_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let ports = Ports {
        observe,
        actuate,
        publish: &*served.publishers,
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
        served.metrics.record(&report);
        tell(&report);
        served.status.push(report);
    }
}
