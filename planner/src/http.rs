//! HTTP endpoints: plans for the proxies and the status for people, both with the key; health and metrics
//! without. No decisions are made here. Every error is JSON, `{"error": "…"}`.
//!
//! - `GET /v1/plans/{service}?after=…` waits for a newer plan ([`plans`])
//! - `GET /v1/services/{service}?cycles=…` returns the status ([`services`])
//! - `POST /v1/solve` solves a problem of any formulation ([`solve`])
//! - `GET /v1/openapi.json` describes all of these ([`openapi`])
//! - `GET /healthz` the process responds · `GET /readyz` a plan is published · `GET /metrics`

mod forward;
pub mod openapi;
mod plans;
mod poll_query;
mod server;
mod services;
pub mod solve;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::sync::{Semaphore, watch};

pub use forward::CONNECT_MAX;
pub use server::{CONNECTIONS_MAX, GRACE, HEAD_BYTES_MAX, HEAD_MAX, answer};
pub use services::CYCLES_SHOWN;

use crate::clock::Clock;
use crate::key::Key;
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
    /// Key that polls must carry.
    pub key: Key,
    /// Metrics of the endpoints.
    pub metrics: Metrics,
    /// Planner that leads.
    pub leader: watch::Receiver<Leader>,
    /// Client for forwarding polls to the leader.
    pub http: reqwest::Client,
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
    /// True once the planner is shutting down.
    pub stop: watch::Receiver<bool>,
}

/// The leader among several planners for the same services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// This planner leads.
    Us,
    /// Another planner leads and is reachable at this address. It allocates the slots, so it must get the
    /// proxies' polls.
    At(String),
    /// No leader is known: the last plan stays in use, and this planner allocates its slots.
    Nobody,
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
    Router::new()
        .route("/v1/plans/{service}", get(plans::poll))
        .route("/v1/services/{service}", get(services::status))
        .route(
            "/v1/solve",
            post(solve::solve).layer(DefaultBodyLimit::max(solve::BODY_MAX)),
        )
        .route("/v1/openapi.json", get(openapi::openapi))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
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
        key: Key,
        clock: Clock,
        http: reqwest::Client,
        stop: watch::Receiver<bool>,
    ) -> prometheus::Result<App> {
        Ok(App {
            services,
            key,
            metrics: Metrics::new()?,
            leader: watch::channel(Leader::Us).1,
            http,
            clock,
            hold: HOLD,
            polls: Semaphore::new(POLLS_MAX),
            polls_max: POLLS_MAX,
            solves: Arc::new(Semaphore::new(solve::SOLVES_MAX)),
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

/// Refuses requests without the key.
fn check_key(app: &App, headers: &HeaderMap) -> Result<(), Refusal> {
    if carries_key(app, headers) {
        return Ok(());
    }
    let right = "authorization: Bearer <key> is missing or wrong";
    Err(Refusal(StatusCode::UNAUTHORIZED, right.to_owned()))
}

fn carries_key(app: &App, headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = value
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    bearer.is_some_and(|(_, key)| app.key.matches(key.trim()))
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// Succeeds once any service has a plan. A planner without services is ready: it waits for some.
async fn readyz(State(app): State<Arc<App>>) -> Result<&'static str, Refusal> {
    // A cycle publishes plans for all stages or for none.
    let services = app.services.all();
    let published = |handle: &Arc<ServiceHandle>| handle.publishers.entry().newest().is_some();
    match services.is_empty() || services.iter().any(published) {
        true => Ok("ready\n"),
        false => Err(Refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "no plan is published yet".to_owned(),
        )),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let services = app.services.all();
    let each = services.iter().map(|handle| handle.gather(app.clock));
    let text = app.metrics.text(app.waiting(), each);
    let text =
        text.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}
