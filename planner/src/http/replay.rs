//! `POST /v1/replay`: plays a small scenario with the real filter and planner, as `weir replay` does.
//!
//! 200 and the report · 400 invalid or too large a scenario, by field · 401 wrong or no key · 408 not received in time ·
//! 413 larger than [`REPLAY_BODY_MAX`] · 429 if [`REPLAYS_MAX`] replays are running · 501 without a [`ReplayRunner`]: the
//! replay is made of this crate, so the program provides it. The services that are planned for are not affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::App;
use super::body::receive;
use super::operation::{Access, Answer, Content, Operation, OperationMethod, RequestBody};
use super::problem::{Problem, ProblemKind};
use crate::clock::stopwatch;

/// Maximum size of a scenario, in bytes.
pub const REPLAY_BODY_MAX: usize = 512 * 1024;
/// Maximum number of replays at once.
pub const REPLAYS_MAX: usize = 1;
/// Maximum time of a replay.
pub const REPLAY_TIME_MAX: Duration = Duration::from_secs(15);
/// Limits of a scenario.
pub const REPLAY_LIMITS: ReplayLimits = ReplayLimits {
    seconds_max: 3600,
    requests_max: 200_000,
    workers_max: 256,
};

const _: () = assert!(
    super::server::REQUEST_MAX.as_secs()
        > super::BODY_TIME_MAX.as_secs() + REPLAY_TIME_MAX.as_secs()
);

pub(super) const REPLAY: Operation = Operation {
    method: OperationMethod::Post,
    path: "/v1/replay",
    id: "replay",
    summary: "Replay a small scenario",
    description: "The body is a scenario of at most an hour and 200,000 requests over all contenders, which names no \
                  file. The services that are planned for are not affected.",
    access: Access::AnyKey,
    query: None,
    headers: &[],
    body: Some(RequestBody {
        description: "The scenario in JSON, at most 512 KiB. YAML is taken too.",
        schema: SchemaGenerator::subschema_for::<Map<String, Value>>,
    }),
    answers: &[Answer {
        status: 200,
        description: "The report, as of `weir replay --json`, without bounds.",
        content: Content::Json(SchemaGenerator::subschema_for::<Map<String, Value>>),
    }],
    problems: &[
        (
            400,
            "The scenario is not valid, or too long; the pointer names the field, the detail the value and a valid one.",
        ),
        (408, "The scenario was not received in time."),
        (413, "The body is too large."),
        (
            429,
            "Too many scenarios are being played or received; retry after `retry-after` seconds.",
        ),
        (500, "The replay broke, which is a defect."),
        (501, "This planner was built without the replay."),
    ],
};

/// Limits of a replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplayLimits {
    /// Maximum number of simulated seconds.
    pub seconds_max: u64,
    /// Maximum number of requests, over all contenders.
    pub requests_max: usize,
    /// Maximum number of workers, over all proxies and stages.
    pub workers_max: usize,
}

/// Reason why there is no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayError {
    /// A field is not valid.
    Invalid {
        /// Path of the field, such as `load.rates`.
        path: String,
        /// The field, its value, and a valid one.
        message: String,
    },
    /// It was stopped.
    Stopped,
    /// It broke, which is a defect.
    Broken(String),
}

/// Plays a scenario within limits, and returns the report as JSON; stops once its last argument returns false.
pub type PlayScenario =
    fn(&str, ReplayLimits, &mut dyn FnMut() -> bool) -> Result<String, ReplayError>;

/// The replay, provided by the program that serves.
#[derive(Debug, Clone, Copy)]
pub struct ReplayRunner {
    /// Plays a scenario.
    pub play: PlayScenario,
    /// Schema of a scenario.
    pub scenario: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of a report.
    pub report: fn(&mut SchemaGenerator) -> Schema,
}

/// Stops the replay of a client that has disconnected.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) async fn replay(State(app): State<Arc<App>>, body: Body) -> Result<Response, Problem> {
    let runner = app.replay_runner.ok_or_else(|| {
        let message = "this planner was built without the replay; run `weir replay`";
        Problem::new(ProblemKind::NotBuilt, message)
    })?;
    let body = receive(&app, body, REPLAY_BODY_MAX).await?;
    let text = String::from_utf8(body.into());
    let text = text.map_err(|_| Problem::body("the body must be UTF-8"))?;
    let permit = Arc::clone(&app.replays).try_acquire_owned().map_err(|_| {
        let message = format!("{REPLAYS_MAX} scenario is played already, no more at once");
        Problem::new(ProblemKind::Busy, message)
    })?;
    let stop = StopOnDrop(Arc::default());
    let stopped = Arc::clone(&stop.0);
    let playing = tokio::task::spawn_blocking(move || {
        // Held to the end, even if the client has disconnected.
        let _permit = permit;
        let elapsed = stopwatch();
        let mut goes_on = || !stopped.load(Ordering::Relaxed) && elapsed() < REPLAY_TIME_MAX;
        (runner.play)(&text, REPLAY_LIMITS, &mut goes_on)
    });
    let too_long = || {
        let message = format!(
            "load: the replay did not end within {REPLAY_TIME_MAX:?}; play a shorter or lower load, or run `weir replay`"
        );
        Problem::body_at("load", message)
    };
    let played = timeout(REPLAY_TIME_MAX, playing).await;
    let played = played.map_err(|_| too_long())?;
    let played = played.unwrap_or_else(|error| Err(ReplayError::Broken(error.to_string())));
    let report = played.map_err(|error| match error {
        ReplayError::Invalid { path, message } => Problem::body_at(&path, message),
        ReplayError::Stopped => too_long(),
        ReplayError::Broken(why) => {
            tracing::error!("a replay broke: {why}");
            Problem::new(ProblemKind::Internal, "the replay broke")
        }
    })?;
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, report).into_response())
}
