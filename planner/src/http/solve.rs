//! `POST /v1/solve`: solves a problem of any formulation, as `weir solve` does.
//!
//! 200 and the answer, also for an infeasible problem · 400 invalid problem or query, by field · 401 wrong
//! or no key · 408 not received within [`BODY_TIME_MAX`] · 413 larger than [`BODY_MAX`] · 429 with retry-after if
//! [`SOLVES_MAX`] solves are running, or [`BODIES_MAX`] problems are being received. The services that are planned
//! for are not affected.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::time::timeout;

use super::{App, Refusal};
use crate::clock::stopwatch;
use crate::solve::problem::{Answer, By, Formulation, Problem};
use crate::solve::{InputError, TimeLimit};

/// Maximum size of a problem, in bytes: INFaaS' 100 models of 8 variants take a tenth.
pub const BODY_MAX: usize = 4 * 1024 * 1024;
/// Maximum time in which a problem is received.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of problems that are received at once.
pub const BODIES_MAX: usize = 4;
/// Maximum number of solves at once, so that the control loop's own always has a core.
pub const SOLVES_MAX: usize = 1;
/// Default time limit of a solve.
pub const LIMIT: Duration = Duration::from_secs(1);
/// Maximum time limit of a solve.
pub const LIMIT_MAX: Duration = Duration::from_secs(10);
/// Seconds after which a client retries when too many solves are running.
const RETRY_AFTER_S: &str = "1";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SolveQuery {
    formulation: Option<String>,
    time_limit_ms: Option<u64>,
    solver: Option<String>,
}

pub(super) async fn solve(
    State(app): State<Arc<App>>,
    query: Result<Query<SolveQuery>, QueryRejection>,
    body: Body,
) -> Response {
    match answer(&app, query, body).await {
        Ok(answer) => Json(answer).into_response(),
        Err(refusal) if refusal.0 == StatusCode::TOO_MANY_REQUESTS => {
            ([(header::RETRY_AFTER, RETRY_AFTER_S)], refusal).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn answer(
    app: &App,
    query: Result<Query<SolveQuery>, QueryRejection>,
    body: Body,
) -> Result<Answer, Refusal> {
    let bad = |message: String| Refusal(StatusCode::BAD_REQUEST, message);
    let Query(query) = query.map_err(|error| bad(error.body_text()))?;
    let (formulation, by, limit) = query
        .validate()
        .map_err(|refused| bad(refused.to_string()))?;
    let body = receive(app, body).await?;
    let permit = Arc::clone(&app.solves).try_acquire_owned().map_err(|_| {
        let message = format!("{SOLVES_MAX} problem is solved already, no more at once");
        Refusal(StatusCode::TOO_MANY_REQUESTS, message)
    })?;
    let solving = tokio::task::spawn_blocking(move || {
        // Held to the end, even if the client has disconnected.
        let _permit = permit;
        let document = serde_json::from_slice(&body).map_err(|error| format!("JSON: {error}"))?;
        let problem =
            Problem::read(document, formulation).map_err(|refused| refused.to_string())?;
        let elapsed = stopwatch();
        let answer = problem.solve(by, &TimeLimit::new(limit, &elapsed));
        answer.map_err(|refused| refused.to_string())
    });
    let solved = solving.await.map_err(|error| {
        tracing::error!("a solve broke: {error}");
        Refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the solve broke".to_owned(),
        )
    })?;
    solved.map_err(bad)
}

/// Receives a problem: in time, in size, and only a few at once.
async fn receive(app: &App, body: Body) -> Result<Bytes, Refusal> {
    let too_large = || {
        let message = format!("the problem is larger than {BODY_MAX} bytes");
        Refusal(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    let _permit = app.bodies.try_acquire().map_err(|_| {
        let message = format!("{BODIES_MAX} problems are being received already, no more at once");
        Refusal(StatusCode::TOO_MANY_REQUESTS, message)
    })?;
    match timeout(BODY_TIME_MAX, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(body)) => Ok(body),
        // A client that breaks off gets no answer.
        Ok(Err(_)) => Err(too_large()),
        Err(_) => {
            let message = format!("the problem was not received within {BODY_TIME_MAX:?}");
            Err(Refusal(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

impl SolveQuery {
    fn validate(&self) -> Result<(Option<Formulation>, By, Duration), InputError> {
        let formulation = self.formulation.as_deref().map(str::parse).transpose()?;
        let by = match self.solver.as_deref() {
            None => By::Own,
            Some(name) => name.parse()?,
        };
        let limit = match self.time_limit_ms {
            None => LIMIT,
            Some(ms) => limit(ms)?,
        };
        Ok((formulation, by, limit))
    }
}

fn limit(ms: u64) -> Result<Duration, InputError> {
    let limit = Duration::from_millis(ms);
    if ms > 0 && limit <= LIMIT_MAX {
        return Ok(limit);
    }
    Err(InputError {
        field: "time_limit_ms".to_owned(),
        value: ms.to_string(),
        right: format!("1 to {} ms", LIMIT_MAX.as_millis()),
    })
}
