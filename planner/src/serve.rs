//! The planner as a service: the cycle on its clock, the doors on theirs, and their common end.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::actuate::{Actuate, Backend, Local};
use crate::clock::Clock;
use crate::config::{Mode, Replicas, Service, Variant};
use crate::cycle::{Aside, Planner, Ports};
use crate::http::solve::SOLVES_MAX;
use crate::http::{App, CONNECTIONS_MAX, HOLD, POLLS_MAX, answer, router};
use crate::key::Key;
use crate::metrics::Metrics;
use crate::observe::{Observe, Scraper, Targets};
use crate::publish::Publishers;
use crate::sharing::SETTLE;
use crate::status::Status;

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
    let app = Arc::new(App {
        publishers: Publishers::listening(&service, SETTLE),
        status: Arc::new(Status::default()),
        metrics: Arc::new(Metrics::new()?),
        service: Arc::new(service),
        key,
        clock,
        hold: HOLD,
        polls: Semaphore::new(POLLS_MAX),
        polls_max: POLLS_MAX,
        solves: Arc::new(Semaphore::new(SOLVES_MAX)),
        stop: stop.clone(),
    });
    let service = &app.service;
    // Proxies and backends are asked directly, whatever proxy the environment names.
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()?;
    let stages: Vec<&str> = service
        .stages
        .iter()
        .map(|stage| stage.name.as_str())
        .collect();
    let scraper = Scraper::new(
        http.clone(),
        clock,
        &stages,
        Targets::Fixed(service.stats.clone()),
        service.scrape_timeout,
    );
    let backend = |variant: &Variant| Backend {
        address: variant.resize.clone(),
        replicated: variant.replicas != Replicas::ONE,
    };
    let backends = service.variants.iter().map(backend).collect();
    let local = Local::new(http, backends, service.resize_timeout);
    let mut cycle = match service.mode {
        Mode::Active => tokio::spawn(cycle(Arc::clone(&app), scraper, local)),
        Mode::Advisory => tokio::spawn(cycle(Arc::clone(&app), scraper, local.advisory())),
    };
    let answering = answer(listener, router(Arc::clone(&app)), CONNECTIONS_MAX, stop);
    let ended = tokio::select! {
        () = answering => Ok(()),
        () = app.publishers.keep_time(clock) => Ok(()),
        // It turns for ever; without it the plans would silently grow old.
        broken = &mut cycle => Err(ServeError::Cycle(broken.err())),
    };
    cycle.abort();
    ended
}

/// Turns until the planner is to end.
async fn cycle<O: Observe, A: Actuate>(app: Arc<App>, observe: O, actuate: A) {
    let mut planner = Planner::new(Arc::clone(&app.service));
    let mut ticks = interval(app.service.cycle);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let ports = Ports {
        observe: &observe,
        actuate: &actuate,
        publish: &app.publishers,
        solver: &Aside,
        stopwatch: &|| app.clock.now().at,
    };
    loop {
        ticks.tick().await;
        let report = planner.turn(&ports, app.clock.now()).await;
        app.metrics.record(&report);
        app.status.push(report);
    }
}
