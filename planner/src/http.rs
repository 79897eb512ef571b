//! HTTP endpoints: plans for the proxies and the status for people, both with a key; health and metrics
//! without. No decisions are made here. Every route is described ([`operation`]), every error is a problem document
//! ([`problem`]), and every answer has the id of its request ([`request_id`]).
//!
//! - `GET /v1/plans/{service}?after=…` waits for a newer plan ([`plans`])
//! - `GET /v1/services` lists the services ([`list`])
//! - `GET /v1/services/{service}?cycles=…` returns the status ([`services`])
//! - `GET`, `PUT` and `DELETE /v1/services/{service}/specification` show the service file, create or replace it, and delete it
//!   ([`specification`])
//! - `GET /v1/services/{service}/plans` and `…/plans/{revision}` return plans, of the past too ([`history`])
//! - `GET /v1/services/{service}/decisions` returns decisions and their reasons ([`decisions`])
//! - `GET /v1/services/{service}/forecast` and `…/profiles` return what is planned with ([`forecasts`], [`profiles`])
//! - `GET` and `PUT /v1/services/{service}/mode` show and change the mode ([`modes`])
//! - `GET /v1/services/{service}/events` streams cycles and plans ([`events`])
//! - `POST /v1/solve` solves a problem of any formulation ([`solve`])
//! - `POST /v1/replay` plays a small scenario ([`replay`])
//! - `GET /v1/openapi.json` describes all of these ([`openapi`])
//! - `GET /` and `GET /console/{file}` return the page of the [`console`], without a key
//! - `GET /healthz` cycles come back in time · `GET /readyz` polls are answered · `GET /metrics` ([`health`])
//!
//! The [`server`] accepts every connection and gives it one of the [`places`]; [`authentication`] comes before
//! any body is read. [`leadership`] says whether polls are answered here, and [`probe`] whether the leader is
//! reached.

mod server;

mod places;
mod tls;
mod write_limit;

mod problem;
mod request_id;

mod authentication;
mod body;
mod extract;
mod operation;

pub mod console;
mod decisions;
mod etag;
mod events;
mod forecasts;
mod health;
mod history;
mod list;
mod modes;
mod openapi;
mod plans;
mod poll_query;
mod profiles;
pub mod replay;
mod services;
pub mod solve;
mod specification;

mod api_client;
mod forward;
mod leader_client;
mod leadership;
mod probe;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use tokio::sync::{Semaphore, watch};

use extract::unknown;
use operation::Routes;
use problem::{Problem, ProblemKind};
use replay::ReplayRunner;

pub use api_client::{API_BYTES_MAX, API_TIME_MAX, ApiAnswer, ApiClient, Trust};
pub use body::{BODIES_MAX, BODY_TIME_MAX};
pub use events::{EVENTS_KEEP_ALIVE, EVENTS_MAX};
pub use health::{METRICS_TEXTS_MAX, MetricsTexts};
pub use leader_client::{CONNECT_MAX, LeaderClient};
pub use leadership::{Leader, LeaderLink, Leadership, Term};
pub use openapi::ApiDocument;
pub use places::{KEYED_MAX, KEYLESS_MAX, KEYLESS_TIME, PlaceLimits};
pub use probe::{PROBE_EVERY, PROBE_FAILURES, PROBE_TIMEOUT, run_probes};
pub use request_id::REQUEST_ID_MAX;
pub use server::{Endpoint, GRACE, HEAD_BYTES_MAX, HEAD_MAX, REQUEST_MAX, ServerLimits};
pub use services::CYCLES_SHOWN;
pub use tls::{HANDSHAKE_MAX, TLS_BYTES_MAX, TlsError, TlsFiles, TlsState};
pub use write_limit::ANSWER_MAX;

use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::file_reload::Reloaded;
use crate::key::Keys;
use crate::registry::{ServiceHandle, ServiceRegistry};
use crate::telemetry::metrics::Metrics;

/// Time for which a poll is held: less than the 25 s timeout of the proxies' call. While proxies share
/// slots it is [`crate::distribution::slot_allocation::HOLD_SHARED`].
pub const HOLD: Duration = Duration::from_secs(20);
/// Maximum number of polls held at once: one for each remembered proxy, and as many for their restarts.
pub const POLLS_MAX: usize = 2 * crate::distribution::slot_allocation::PROXIES_MAX;
/// Maximum request body of a route that reads none; [`solve::BODY_MAX`] is the other limit.
pub const BODY_MAX: usize = 1024;

/// State shared by the routes.
#[derive(Debug)]
pub struct App {
    /// Services that are planned for.
    pub services: Arc<ServiceRegistry>,
    /// Catalog by which services are created, replaced and deleted.
    pub catalog: Arc<Catalog>,
    /// Keys that polls, status requests and solves must carry.
    pub keys: Arc<Reloaded<Keys>>,
    /// Metrics of the endpoints.
    pub metrics: Metrics,
    /// Planner that leads.
    pub leadership: Leadership,
    /// Connection to the leader, if another planner leads.
    pub link: watch::Sender<LeaderLink>,
    /// Client for the leader.
    pub leader_client: LeaderClient,
    /// Clock of the process.
    pub clock: Clock,
    /// Time for which a poll is held; [`HOLD`] except in tests.
    pub hold: Duration,
    /// Permits of the polls that may be held.
    pub polls: Semaphore,
    /// Total number of these permits.
    pub polls_max: usize,
    /// Permits of the solves that may run at once.
    pub solves: Arc<Semaphore>,
    /// The replay, if the program provides it.
    pub replay_runner: Option<ReplayRunner>,
    /// Permits of the replays that may run at once.
    pub replays: Arc<Semaphore>,
    /// Permits of the bodies that may be received at once.
    pub bodies: Semaphore,
    /// Permits of the event streams that may be open.
    pub events: Arc<Semaphore>,
    /// Description of the API.
    pub document: ApiDocument,
    /// Texts of metrics that are being read.
    pub texts: MetricsTexts,
    /// True once the planner is shutting down.
    pub stop: watch::Receiver<bool>,
}

/// Builds the routes.
pub fn router(app: Arc<App>) -> Router {
    let routes = Routes::new(&app)
        .add(&plans::POLL, plans::poll)
        .add(&list::SERVICES, list::services)
        .add(&services::STATUS, services::status)
        .add(&specification::SPECIFICATION, specification::specification)
        .add(
            &specification::SET_SPECIFICATION,
            specification::set_specification,
        )
        .add(
            &specification::DELETE_SPECIFICATION,
            specification::delete_specification,
        )
        .add(&history::PLANS, history::plans)
        .add(&history::PLAN, history::plan)
        .add(&decisions::DECISIONS, decisions::decisions)
        .add(&events::EVENTS, events::events)
        .add(&forecasts::FORECAST, forecasts::forecast)
        .add(&profiles::PROFILES, profiles::profiles)
        .add(&modes::MODE, modes::mode)
        .add(&modes::SET_MODE, modes::set_mode)
        .add(&solve::SOLVE, solve::solve)
        .add(&replay::REPLAY, replay::replay)
        .add(&openapi::OPENAPI, openapi::openapi)
        .add(&health::HEALTHZ, health::healthz)
        .add(&health::READYZ, health::readyz)
        .add(&health::METRICS, health::metrics);
    let (router, operations) = routes.finish();
    app.document.describe(operations, app.replay_runner);
    router
        .route("/", get(console::page))
        .route("/console/{file}", get(console::part))
        .fallback(|| async { Problem::new(ProblemKind::UnknownPath, "no such path") })
        .method_not_allowed_fallback(|| async {
            let why = "this path takes another method; /v1/openapi.json lists them";
            Problem::new(ProblemKind::Method, why)
        })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(app)
}

impl App {
    /// Creates the endpoints for these services, for a standalone planner.
    ///
    /// # Errors
    /// Fails if the metrics registry refuses a name, which would be a bug.
    pub fn new(
        services: Arc<ServiceRegistry>,
        keys: Arc<Reloaded<Keys>>,
        clock: Clock,
        stop: watch::Receiver<bool>,
    ) -> prometheus::Result<App> {
        Ok(App {
            catalog: Arc::new(Catalog::of_resources(Arc::clone(&services), clock)),
            services,
            keys,
            metrics: Metrics::new()?,
            leadership: Leadership::alone(),
            link: watch::Sender::default(),
            leader_client: LeaderClient::new(None),
            clock,
            hold: HOLD,
            polls: Semaphore::new(POLLS_MAX),
            polls_max: POLLS_MAX,
            solves: Arc::new(Semaphore::new(solve::SOLVES_MAX)),
            replay_runner: None,
            replays: Arc::new(Semaphore::new(replay::REPLAYS_MAX)),
            bodies: Semaphore::new(BODIES_MAX),
            events: Arc::new(Semaphore::new(EVENTS_MAX)),
            document: ApiDocument::default(),
            texts: MetricsTexts::default(),
            stop,
        })
    }

    /// Returns the service with that name.
    fn service(&self, name: &str) -> Result<Arc<ServiceHandle>, Problem> {
        self.services.get(name).ok_or_else(|| unknown(name))
    }

    /// Returns the service with a stage of that name.
    fn stage(&self, name: &str) -> Result<Arc<ServiceHandle>, Problem> {
        self.services
            .get_by_stage(name)
            .ok_or_else(|| unknown(name))
    }

    /// Returns the way of a poll.
    fn route(&self) -> leadership::Route {
        let link = self.link.borrow();
        self.leadership.route(&link, self.clock.now().at)
    }

    fn waiting(&self) -> usize {
        self.polls_max
            .saturating_sub(self.polls.available_permits())
    }
}
