//! HTTP endpoints: plans for the proxies and the status for people, both with a key; health and metrics
//! without. No decisions are made here. Every error is JSON, `{"error": "…"}`.
//!
//! - `GET /v1/plans/{service}?after=…` waits for a newer plan ([`plans`])
//! - `GET /v1/services/{service}?cycles=…` returns the status ([`services`])
//! - `POST /v1/solve` solves a problem of any formulation ([`solve`])
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

mod authentication;
pub mod console;
mod health;
pub mod openapi;
mod plans;
mod poll_query;
mod services;
pub mod solve;

mod forward;
mod leader_client;
mod leadership;
mod probe;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::sync::{Semaphore, watch};

pub use health::{METRICS_TEXTS_MAX, MetricsTexts};
pub use leader_client::{CONNECT_MAX, LeaderClient};
pub use leadership::{Leader, LeaderLink, Leadership, Term};
pub use places::{KEYED_MAX, KEYLESS_MAX, KEYLESS_TIME, PlaceLimits};
pub use probe::{PROBE_EVERY, PROBE_FAILURES, PROBE_TIMEOUT, run_probes};
pub use server::{Endpoint, GRACE, HEAD_BYTES_MAX, HEAD_MAX, REQUEST_MAX, ServerLimits};
pub use services::CYCLES_SHOWN;
pub use tls::{HANDSHAKE_MAX, TLS_BYTES_MAX, TlsError, TlsFiles, TlsState};
pub use write_limit::ANSWER_MAX;

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
    /// Permits of the problems that may be received at once.
    pub bodies: Semaphore,
    /// Texts of metrics that are being read.
    pub texts: MetricsTexts,
    /// True once the planner is shutting down.
    pub stop: watch::Receiver<bool>,
}

/// A refused request: status and message.
#[derive(Debug)]
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.1 }))).into_response()
    }
}

/// Builds the routes.
pub fn router(app: Arc<App>) -> Router {
    let polls = get(plans::poll).layer(from_fn_with_state(
        Arc::clone(&app),
        authentication::stage_key,
    ));
    let status = get(services::status).layer(from_fn_with_state(
        Arc::clone(&app),
        authentication::service_key,
    ));
    let solves = post(solve::solve).layer(from_fn_with_state(
        Arc::clone(&app),
        authentication::any_key,
    ));
    Router::new()
        .route("/v1/plans/{service}", polls)
        .route("/v1/services/{service}", status)
        .route("/v1/solve", solves)
        .route("/v1/openapi.json", get(openapi::openapi))
        .route("/", get(console::page))
        .route("/console/{file}", get(console::part))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .fallback(|| async { Refusal(StatusCode::NOT_FOUND, "no such path".to_owned()) })
        .method_not_allowed_fallback(|| async {
            Refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path takes GET, /v1/solve takes POST".to_owned(),
            )
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
            bodies: Semaphore::new(solve::BODIES_MAX),
            texts: MetricsTexts::default(),
            stop,
        })
    }

    /// Returns the service with that name.
    fn service(&self, name: &str) -> Result<Arc<ServiceHandle>, Refusal> {
        self.services.get(name).ok_or_else(|| unknown(name))
    }

    /// Returns the service with a stage of that name.
    fn stage(&self, name: &str) -> Result<Arc<ServiceHandle>, Refusal> {
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

fn unknown(name: &str) -> Refusal {
    let shown: String = name.chars().take(weir_api::plan::NAME_MAX).collect();
    let message = format!("service: '{shown}' is not planned for here");
    Refusal(StatusCode::NOT_FOUND, message)
}
