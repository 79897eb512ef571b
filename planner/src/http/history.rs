//! Plans of a service for people: the current one, one by its revision, and the latest of the past by cursor. A plan
//! here is that of all proxies together.
//!
//! 200 and the plan or plans · 304 the client has it · 400 invalid path or query · 401 wrong or no key · 404 unknown
//! service, stage or revision.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use weir_api::{Plan, Revision};

use super::etag::{EntityTag, IF_NONE_MATCH};
use super::extract::{Fields, Planned, path_problem, unknown};
use super::openapi;
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use super::poll_query::{display, number};
use super::problem::{Problem, ProblemKind};
use crate::distribution::{PLANS_KEPT, Published, Publisher};
use crate::registry::ServiceHandle;

/// Word in place of a revision.
const CURRENT: &str = "current";

pub(super) const PLANS: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}/plans",
    id: "plans",
    summary: "Latest plans, newest first",
    description: "Plans of the past, of which the latest 32 of each stage are kept. `next` is the cursor of older ones.",
    access: Access::Service,
    query: Some(openapi::query::<PlansQuery>),
    headers: &[],
    body: None,
    answers: &[Answer {
        status: 200,
        description: "The plans, newest first.",
        content: Content::Json(SchemaGenerator::subschema_for::<PlanHistory<'static>>),
    }],
    problems: &[(404, "No such stage.")],
};

pub(super) const PLAN: Operation = Operation {
    path: "/v1/services/{service}/plans/{revision}",
    id: "plan_by_revision",
    summary: "The current plan, or one by its revision",
    description: "The whole plan, of all proxies together. Its entity tag is its revision.",
    query: Some(openapi::query::<StageQuery>),
    headers: &[IF_NONE_MATCH],
    answers: &[
        Answer {
            status: 200,
            description: "The plan.",
            content: Content::Json(SchemaGenerator::subschema_for::<Plan>),
        },
        Answer {
            status: 304,
            description: "The client has this plan.",
            content: Content::None,
        },
    ],
    problems: &[(404, "No such stage, or no such plan is kept.")],
    ..PLANS
};

/// Query of a plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StageQuery {
    /// Stage of a pipeline; the first if left out.
    #[schemars(with = "String")]
    stage: Option<String>,
}

/// Query of the latest plans.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlansQuery {
    /// Stage of a pipeline; the first if left out.
    #[schemars(with = "String")]
    stage: Option<String>,
    /// Cursor: only plans of a lower revision.
    #[schemars(with = "u64", range(max = Revision::MAX.0))]
    before: Option<String>,
    /// Number of plans; all that are kept if left out.
    #[schemars(with = "usize", range(max = PLANS_KEPT))]
    limit: Option<String>,
}

/// Latest plans.
#[derive(Debug, Serialize, JsonSchema)]
struct PlanHistory<'a> {
    /// Plans, newest first.
    plans: Vec<&'a Plan>,
    /// Cursor of older plans, for `before`; `null` if none is kept.
    next: Option<Revision>,
}

/// Revision in the path.
#[derive(Debug, Deserialize)]
struct RevisionPath {
    revision: String,
}

/// Revision of a path, or `None` for the current plan.
pub(super) struct PlanRevision(Option<Revision>);

impl<S: Send + Sync> FromRequestParts<S> for PlanRevision {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PlanRevision, Problem> {
        let path = Path::<RevisionPath>::from_request_parts(parts, state).await;
        let refused = |shown: &str| {
            let right = "must be 'current' or a whole number";
            Problem::parameter(format!("revision: '{}' {right}", display(shown)))
        };
        let Path(RevisionPath { revision }) = path.map_err(|rejection| path_problem(&rejection))?;
        if revision == CURRENT {
            return Ok(PlanRevision(None));
        }
        let read = number("revision", Some(revision.clone()), Revision::MAX.0);
        let number = read.map_err(|_| refused(&revision))?;
        Ok(PlanRevision(Some(Revision(number))))
    }
}

pub(super) async fn plan(
    Planned(handle): Planned,
    PlanRevision(revision): PlanRevision,
    Fields(query): Fields<StageQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let stage = stage(&handle, query.stage.as_deref())?;
    let published = match revision {
        None => stage.newest(),
        Some(revision) => stage
            .kept()
            .into_iter()
            .find(|kept| kept.plan.revision == revision),
    };
    let published = published.ok_or_else(|| match revision {
        None => not_kept("revision: 'current': no plan is published yet".to_owned()),
        Some(revision) => not_kept(format!(
            "revision: {revision} is none of the latest {PLANS_KEPT} plans"
        )),
    })?;
    let json = [(header::CONTENT_TYPE, "application/json")];
    let response = (json, published.json.to_vec()).into_response();
    Ok(EntityTag::strong(published.plan.revision).tag(&headers, response))
}

pub(super) async fn plans(
    Planned(handle): Planned,
    Fields(query): Fields<PlansQuery>,
) -> Result<Response, Problem> {
    let stage = stage(&handle, query.stage.as_deref())?;
    let before = match query.before {
        None => Revision::MAX.0,
        before => number("before", before, Revision::MAX.0).map_err(Problem::parameter)?,
    };
    let limit = match query.limit {
        None => PLANS_KEPT,
        limit => {
            let limit = number("limit", limit, PLANS_KEPT as u64).map_err(Problem::parameter)?;
            usize::try_from(limit).unwrap_or(PLANS_KEPT)
        }
    };
    let kept = stage.kept();
    let mut older = kept
        .iter()
        .rev()
        .filter(|kept| kept.plan.revision.0 < before);
    let page: Vec<&Arc<Published>> = older.by_ref().take(limit).collect();
    let plans: Vec<&Plan> = page.iter().map(|published| &published.plan).collect();
    let last = plans.last().map(|plan| plan.revision);
    let next = older.next().and(last);
    Ok(Json(PlanHistory { plans, next }).into_response())
}

/// Returns the publisher of that stage, or of the first.
fn stage<'a>(handle: &'a ServiceHandle, stage: Option<&str>) -> Result<&'a Publisher, Problem> {
    let Some(name) = stage else {
        return Ok(handle.publishers.entry());
    };
    handle.publishers.of(name).ok_or_else(|| {
        let mut problem = Problem::parameter(unknown(name).detail.replacen("service", "stage", 1));
        problem.kind = ProblemKind::UnknownService;
        problem
    })
}

fn not_kept(message: String) -> Problem {
    let mut problem = Problem::parameter(message);
    problem.kind = ProblemKind::UnknownPlan;
    problem
}
