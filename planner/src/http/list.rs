//! `GET /v1/services`: the services that the request's key opens, in short.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use weir_api::{Revision, Rps};

use super::App;
use super::authentication::bearer;
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use crate::key::Right;
use crate::mode::RunMode;
use crate::registry::ServiceHandle;
use crate::service::SolveStatus;
use crate::spec::RawCpu;

pub(super) const SERVICES: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services",
    id: "services",
    summary: "All services that the key opens",
    description: "The services that are planned for here, by name, without those that the key does not open.",
    access: Access::AnyKey,
    query: None,
    headers: &[],
    body: None,
    answers: &[Answer {
        status: 200,
        description: "The services.",
        content: Content::Json(SchemaGenerator::subschema_for::<ServiceList>),
    }],
    problems: &[],
};

/// Services that are planned for.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServiceList {
    /// Services, by name.
    services: Vec<ServiceSummary>,
}

/// A service, in short.
#[derive(Debug, Serialize, JsonSchema)]
struct ServiceSummary {
    /// Name.
    name: String,
    /// Whether cores are changed.
    mode: RunMode,
    /// Name of the policy.
    policy: &'static str,
    /// Latency objective, in ms.
    slo_ms: u64,
    /// Maximum cores of all variants together.
    budget_cores: RawCpu,
    /// Names of the stages; one of the service's own name without a pipeline.
    stages: Vec<String>,
    /// Revision of the plan of the first stage; `null` without one.
    revision: Option<Revision>,
    /// Whether its cycles come back in time.
    healthy: bool,
    /// Reason why it is not healthy; `null` if it is.
    unhealthy_why: Option<String>,
    /// Start of the latest cycle, Unix time in ms; `null` before the first.
    cycle_at_ms: Option<u64>,
    /// Forecast of the demand with headroom, of the latest cycle; `null` if unknown.
    demand_rps: Option<Rps>,
    /// Result of the latest solve; `null` before the first.
    outcome: Option<SolveStatus>,
}

pub(super) async fn services(State(app): State<Arc<App>>, headers: HeaderMap) -> Json<ServiceList> {
    let keys = app.keys.current();
    let key = bearer(&headers).unwrap_or_default();
    let services = app.services.all();
    let opened = services.iter().filter(|handle| {
        let opens = keys.open(&[&handle.service.name], key);
        opens.is_some_and(|scope| scope.permits(Right::Read))
    });
    let services = opened.map(|handle| summary(&app, handle)).collect();
    Json(ServiceList { services })
}

fn summary(app: &App, handle: &ServiceHandle) -> ServiceSummary {
    let service = &handle.service;
    let latest = handle.status.latest(1).pop();
    let late = handle.heartbeat.late(service.cycle, app.clock.now().at);
    let newest = handle.publishers.entry().newest();
    ServiceSummary {
        name: service.name.clone(),
        mode: handle.mode.current().mode,
        policy: service.policy.name(),
        slo_ms: u64::try_from(service.slo.as_millis()).unwrap_or(u64::MAX),
        budget_cores: RawCpu(service.budget_cores()),
        stages: service
            .stages
            .iter()
            .map(|stage| stage.name.clone())
            .collect(),
        revision: newest.map(|newest| newest.plan.revision),
        healthy: late.is_none(),
        unhealthy_why: late.map(|late| late.to_string()),
        cycle_at_ms: latest.as_ref().map(|latest| latest.at_ms),
        demand_rps: latest.as_ref().and_then(|latest| latest.demand_rps),
        outcome: latest.map(|latest| latest.outcome),
    }
}
