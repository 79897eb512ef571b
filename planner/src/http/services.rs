//! Status of a service: the published plans, the latest cycles, and the polling proxies. For a pipeline,
//! the top-level plan and proxies are those of the first stage.
//!
//! 200 and the status · 400 invalid query · 401 wrong or no key · 404 unknown service.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use weir_api::{Plan, Revision};

use super::etag::{EntityTag, IF_NONE_MATCH};
use super::extract::{Fields, Planned};
use super::leadership::LeaderView;
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use super::poll_query::number;
use super::problem::{Problem, ProblemKind};
use super::{App, openapi};
use crate::distribution::Publisher;
use crate::distribution::slot_allocation::ProxyView;
use crate::mode::RunMode;
use crate::registry::ServiceHandle;
use crate::spec::RawCpu;
use crate::telemetry::metrics::Counters;
use crate::telemetry::requests::RequestStatus;
use crate::telemetry::status::{CYCLES_MAX, CycleReport};

/// Default number of cycles shown. One cycle of three variants takes some 1.3 KB.
pub const CYCLES_SHOWN: usize = 10;
const _: () = assert!(CYCLES_SHOWN <= CYCLES_MAX);

pub(super) const STATUS: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}",
    id: "status",
    summary: "Current plan, latest cycles with their reasons, and proxies",
    description: "The status of a service. For a pipeline, `plan` and `proxies` are those of the first stage.",
    access: Access::Service,
    query: Some(openapi::query::<StatusQuery>),
    headers: &[IF_NONE_MATCH],
    body: None,
    answers: &[
        Answer {
            status: 200,
            description: "The status. Its entity tag leaves out when proxies last polled.",
            content: Content::Json(SchemaGenerator::subschema_for::<ServiceStatus<'static>>),
        },
        Answer {
            status: 304,
            description: "The client has this status.",
            content: Content::None,
        },
    ],
    problems: &[(500, "The status cannot be written, which is a defect.")],
};

/// Query of the status.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusQuery {
    /// Number of the latest cycles to show; 10 if left out, at most 1,024.
    #[schemars(with = "usize", range(max = CYCLES_MAX))]
    cycles: Option<String>,
}

impl StatusQuery {
    pub(super) fn validate(self) -> Result<usize, String> {
        if self.cycles.is_none() {
            return Ok(CYCLES_SHOWN);
        }
        let cycles = number("cycles", self.cycles, CYCLES_MAX as u64)?;
        Ok(usize::try_from(cycles).unwrap_or(CYCLES_MAX))
    }
}

/// Status of a service.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ServiceStatus<'a> {
    /// Name of the service.
    service: &'a str,
    /// Whether cores are changed.
    mode: RunMode,
    /// Latency objective, in ms.
    slo_ms: u64,
    /// Maximum cores of all variants together.
    budget_cores: RawCpu,
    /// Revision of the plan; `null` without one.
    revision: Option<Revision>,
    /// Plan in force, of all proxies together.
    plan: Option<&'a Plan>,
    /// Totals since the start.
    counters: Counters,
    /// Planner that leads.
    leader: LeaderView,
    /// Polling proxies, by node id.
    proxies: BTreeMap<String, ProxyView>,
    /// Stages, by name; empty for a service without stages.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stages: BTreeMap<&'a str, StageView>,
    /// Requests by outcome, of the latest cycle and of longer windows.
    requests: RequestStatus,
    /// Latest cycle.
    latest: Option<&'a CycleReport>,
    /// Latest cycles, oldest first.
    cycles: Vec<&'a CycleReport>,
}

/// Plan and proxies of one stage.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct StageView {
    /// Plan in force.
    plan: Option<Plan>,
    /// Polling proxies, by node id.
    proxies: BTreeMap<String, ProxyView>,
}

impl ServiceStatus<'_> {
    /// Returns the tag of the status without the times of polls.
    fn tag(&self) -> Result<EntityTag, Problem> {
        let mut steady = self.clone();
        let of_stages = steady
            .stages
            .values_mut()
            .flat_map(|stage| stage.proxies.values_mut());
        for proxy in steady.proxies.values_mut().chain(of_stages) {
            (proxy.polled_ms, proxy.age_ms, proxy.waiting) = (0, 0, false);
        }
        let text = serde_json::to_vec(&steady);
        let text = text.map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))?;
        Ok(EntityTag::weak(&text))
    }
}

pub(super) async fn status(
    State(app): State<Arc<App>>,
    Planned(handle): Planned,
    Fields(query): Fields<StatusQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let service = &handle.service;
    let most = query.validate().map_err(Problem::parameter)?;
    let cycles = handle.status.latest(most.max(1));
    let entry = handle.publishers.entry();
    let newest = entry.newest();
    let plan = newest.as_ref().map(|newest| &newest.plan);
    // Each lock is released before the next is taken.
    let proxies = entry.allocation().view(app.clock.now());
    let status = ServiceStatus {
        service: &service.name,
        mode: handle.mode.current().mode,
        slo_ms: u64::try_from(service.slo.as_millis()).unwrap_or(u64::MAX),
        budget_cores: RawCpu(service.budget_cores()),
        revision: plan.map(|plan| plan.revision),
        plan,
        counters: handle.metrics.counters(),
        leader: app.route().view(),
        proxies,
        stages: stages(&app, &handle),
        requests: requests(&app, &handle),
        latest: cycles.last().map(AsRef::as_ref),
        cycles: cycles
            .iter()
            .skip(cycles.len().saturating_sub(most))
            .map(AsRef::as_ref)
            .collect(),
    };
    let tag = status.tag()?;
    Ok(tag.tag(&headers, Json(status).into_response()))
}

/// Requests by outcome, beside the service times of the plans in force.
fn requests(app: &App, handle: &ServiceHandle) -> RequestStatus {
    let newest = handle.publishers.all().filter_map(Publisher::newest);
    let variants = newest.flat_map(|newest| newest.plan.variants.clone());
    let predicted_ms = variants.map(|variant| (variant.name, variant.service_ms));
    let (at, predicted_ms) = (app.clock.now().at, predicted_ms.collect());
    handle
        .status
        .request_status(at, &handle.service, &predicted_ms)
}

fn stages<'a>(app: &App, handle: &'a ServiceHandle) -> BTreeMap<&'a str, StageView> {
    let view = |stage: &Publisher| StageView {
        plan: stage.newest().map(|newest| newest.plan.clone()),
        proxies: stage.allocation().view(app.clock.now()),
    };
    let of_pipeline = handle
        .publishers
        .all()
        .filter(|_| handle.service.stages.len() > 1);
    of_pipeline
        .map(|stage| (stage.stage(), view(stage)))
        .collect()
}
