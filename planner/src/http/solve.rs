//! `POST /v1/solve`: solves a problem of any formulation, as `weir solve` does.
//!
//! 200 and the answer, also for an infeasible problem · 400 invalid problem or query, by field · 401 wrong
//! or no key · 408 not received within [`super::BODY_TIME_MAX`] · 413 larger than [`BODY_MAX`] · 429 with retry-after if
//! [`SOLVES_MAX`] solves are running, or [`super::BODIES_MAX`] problems are being received. The services that are planned
//! for are not affected.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;

use super::body::receive;
use super::extract::Fields;
use super::operation::{self, Access, Content, Operation, OperationMethod, RequestBody};
use super::poll_query::{display, number};
use super::problem::{Problem, ProblemKind};
use super::{App, openapi};
use crate::clock::stopwatch;
use crate::solve::problem::{self, Answer, By, Document, Formulation};
use crate::solve::{InputError, TimeLimit};

/// Maximum size of a problem, in bytes: INFaaS' 100 models of 8 variants take a tenth.
pub const BODY_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of solves at once, so that the control loop's own always has a core.
pub const SOLVES_MAX: usize = 1;
/// Default time limit of a solve.
pub const LIMIT: Duration = Duration::from_secs(1);
/// Maximum time limit of a solve.
pub const LIMIT_MAX: Duration = Duration::from_secs(10);

pub(super) const SOLVE: Operation = Operation {
    method: OperationMethod::Post,
    path: "/v1/solve",
    id: "solve",
    summary: "Solve a problem of any formulation",
    description: "The body is a problem; `formulation` names its kind. The services that are planned for are not \
                  affected.",
    access: Access::AnyKey,
    query: Some(openapi::query::<SolveQuery>),
    headers: &[],
    body: Some(RequestBody {
        description: "The problem, at most 4 MiB.",
        schema: SchemaGenerator::subschema_for::<Document>,
    }),
    answers: &[operation::Answer {
        status: 200,
        description: "The answer, also for an infeasible problem.",
        content: Content::Json(SchemaGenerator::subschema_for::<Answer>),
    }],
    problems: &[
        (
            400,
            "The problem is not valid; the pointer names the field, the detail the value and a valid one.",
        ),
        (408, "The problem was not received in time."),
        (413, "The body is too large."),
        (
            429,
            "Too many problems are being solved or received; retry after `retry-after` seconds.",
        ),
        (500, "The solve broke, which is a defect."),
    ],
};

/// Query of a solve.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SolveQuery {
    /// Formulation of the problem, if the body does not name it.
    #[schemars(with = "Formulation")]
    formulation: Option<String>,
    /// Time limit of the solve, in ms; 1,000 if left out.
    #[schemars(with = "u64", range(min = 1, max = 10_000))]
    time_limit_ms: Option<String>,
    /// Solver, `own`, `highs` or `microlp`: the formulation's own exact algorithm, or the same problem as an integer
    /// program.
    #[schemars(with = "String")]
    solver: Option<String>,
}

pub(super) async fn solve(
    State(app): State<Arc<App>>,
    Fields(query): Fields<SolveQuery>,
    body: Body,
) -> Result<Json<Answer>, Problem> {
    let (formulation, by, limit) = query.validate()?;
    let body = receive(&app, body, BODY_MAX).await?;
    let permit = Arc::clone(&app.solves).try_acquire_owned().map_err(|_| {
        let message = format!("{SOLVES_MAX} problem is solved already, no more at once");
        Problem::new(ProblemKind::Busy, message)
    })?;
    let solving = tokio::task::spawn_blocking(move || {
        // Held to the end, even if the client has disconnected.
        let _permit = permit;
        let document = serde_json::from_slice(&body);
        let document = document.map_err(|error| Problem::body(format!("JSON: {error}")))?;
        let problem = problem::Problem::read(document, formulation)
            .map_err(|refused| Problem::body_field(&refused))?;
        let elapsed = stopwatch();
        let answer = problem.solve(by, &TimeLimit::new(limit, &elapsed));
        answer.map_err(|refused| Problem::body_field(&refused))
    });
    let solved = solving.await.map_err(|error| {
        tracing::error!("a solve broke: {error}");
        Problem::new(ProblemKind::Internal, "the solve broke")
    })?;
    solved.map(Json)
}

impl SolveQuery {
    fn validate(self) -> Result<(Option<Formulation>, By, Duration), Problem> {
        let refused = |error: InputError| Problem::parameter(error.to_string());
        let formulation = self.formulation.as_deref().map(str::parse).transpose();
        let formulation = formulation.map_err(refused)?;
        let by = match self.solver.as_deref() {
            None => By::Own,
            Some(name) => name.parse().map_err(refused)?,
        };
        let limit = match self.time_limit_ms {
            None => LIMIT,
            Some(ms) => limit(ms)?,
        };
        Ok((formulation, by, limit))
    }
}

fn limit(ms: String) -> Result<Duration, Problem> {
    let refused = |_| {
        let right = format!("must be 1 to {} ms", LIMIT_MAX.as_millis());
        Problem::parameter(format!("time_limit_ms: {} {right}", display(&ms)))
    };
    let most = u64::try_from(LIMIT_MAX.as_millis()).unwrap_or(u64::MAX);
    let limit = number("time_limit_ms", Some(ms.clone()), most).map_err(refused)?;
    match limit {
        0 => Err(refused(String::new())),
        limit => Ok(Duration::from_millis(limit)),
    }
}
