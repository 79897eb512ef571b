//! `GET /v1/services/{service}/decisions`: the latest decisions with their inputs, the limits that bind them, and the
//! alternatives that were passed over. Those that must be solved for are computed for the latest decision alone, aside,
//! and only if no problem is being solved.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use weir_api::{Cores, Revision, Rps};

use super::extract::{Fields, Planned};
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use super::problem::Problem;
use super::services::StatusQuery;
use super::{App, openapi};
use crate::backends::Blocker;
use crate::policy::Alternative;
use crate::registry::ServiceHandle;
use crate::service::{Service, SolveStatus};
use crate::spec::RawCpu;
use crate::telemetry::status::CycleReport;

pub(super) const DECISIONS: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}/decisions",
    id: "decisions",
    summary: "Latest decisions: inputs, reasons, binding limits, alternatives",
    description: "One decision for each of the latest cycles, oldest first. Alternatives that are solved for are those of \
                  the latest decision, and left out while a problem is being solved.",
    access: Access::Service,
    query: Some(openapi::query::<StatusQuery>),
    headers: &[],
    body: None,
    answers: &[Answer {
        status: 200,
        description: "The decisions, oldest first.",
        content: Content::Json(SchemaGenerator::subschema_for::<Decisions<'static>>),
    }],
    problems: &[],
};

/// Latest decisions.
#[derive(Debug, Serialize, JsonSchema)]
struct Decisions<'a> {
    /// Name of the policy that decides.
    policy: &'a str,
    /// Decisions, oldest first.
    decisions: Vec<Decision<'a>>,
}

/// Decision of one cycle.
#[derive(Debug, Serialize, JsonSchema)]
struct Decision<'a> {
    /// Start of the cycle, Unix time in ms.
    at_ms: u64,
    /// Revision of the plan that followed; `null` without one.
    revision: Option<Revision>,
    /// Inputs of the decision.
    inputs: DecisionInputs,
    /// Result of the solve.
    outcome: SolveStatus,
    /// Reason, in one sentence.
    why: &'a str,
    /// Objective of the target.
    objective: Option<f64>,
    /// Target and actual capacity of each variant, by name.
    variants: BTreeMap<&'a str, VariantDecision<'a>>,
    /// Limits that the target has reached.
    binding: Vec<BindingLimit<'a>>,
    /// Solutions that were considered and passed over.
    alternatives: Vec<Alternative>,
}

/// Inputs of a decision.
#[derive(Debug, Serialize, JsonSchema)]
struct DecisionInputs {
    /// Arrivals since the cycle before; `null` if unknown.
    measured_rps: Option<Rps>,
    /// Forecast of the demand with headroom; `null` if unknown. `why` names the rate that was planned for.
    demand_rps: Option<Rps>,
    /// Latency objective, in ms.
    slo_ms: u64,
    /// Maximum cores of all variants together.
    budget_cores: RawCpu,
    /// Proxies that were scraped.
    scrapes_answered: usize,
    /// Proxies that could not be scraped.
    scrapes_failed: usize,
    /// Proxies that have answered without any metric of Weir for 60 s.
    proxies_without_weir: usize,
}

/// Capacity of one variant.
#[derive(Debug, Serialize, JsonSchema)]
struct VariantDecision<'a> {
    /// Target cores, over all replicas.
    cores_target: Cores,
    /// Target number of replicas.
    replicas_target: u32,
    /// Cores that serve.
    cores_actual: Cores,
    /// Factor on the profile's time that was planned with.
    correction: f64,
    /// Reason why actual is not the target; `null` if nothing is in the way.
    blocker: Option<&'a Blocker>,
}

/// A limit that the target has reached.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct BindingLimit<'a> {
    /// Key of the limit in the service file: `budget.cores`, `budget.shared`, `budget.resources` or
    /// `variants[].maxCores`.
    limit: &'a str,
    /// Shared budget, resource or variant that it is of; `null` for the cores of all variants.
    of: Option<&'a str>,
    /// Amount of the target.
    used: f64,
    /// Limit.
    max: f64,
}

pub(super) async fn decisions(
    State(app): State<Arc<App>>,
    Planned(handle): Planned,
    Fields(query): Fields<StatusQuery>,
) -> Result<Response, Problem> {
    let most = query.validate().map_err(Problem::parameter)?;
    let cycles = handle.status.latest(most);
    let service = &handle.service;
    let decisions = cycles.iter().map(|report| decision(service, report));
    let mut decisions = Decisions {
        policy: service.policy.name(),
        decisions: decisions.collect(),
    };
    if let Some(latest) = decisions.decisions.last_mut()
        && let Some(solved) = solved(&app, &handle, latest.at_ms).await
    {
        latest.alternatives.extend(solved.iter().cloned());
    }
    Ok(Json(decisions).into_response())
}

/// Returns the alternatives to the latest decision, if that is the one at `at_ms`; `None` while a problem is being solved.
async fn solved(app: &App, handle: &ServiceHandle, at_ms: u64) -> Option<Arc<Vec<Alternative>>> {
    if let Some(known) = handle.alternatives.known(at_ms) {
        return Some(known);
    }
    let basis = handle
        .alternatives
        .basis()
        .filter(|basis| basis.at_ms == at_ms)?;
    let permit = Arc::clone(&app.solves).try_acquire_owned().ok()?;
    let read = Arc::clone(&basis);
    let solving = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        read.alternatives()
    });
    let solved = Arc::new(solving.await.ok()?);
    handle.alternatives.remember(&basis, Arc::clone(&solved));
    Some(solved)
}

fn decision<'a>(service: &'a Service, report: &'a CycleReport) -> Decision<'a> {
    let variants = report.variants.iter().map(|(name, variant)| {
        let decision = VariantDecision {
            cores_target: variant.cores_target,
            replicas_target: variant.replicas_target,
            cores_actual: variant.cores_actual,
            correction: variant.service_time.correction,
            blocker: variant.blocker.as_ref(),
        };
        (name.as_str(), decision)
    });
    Decision {
        at_ms: report.at_ms,
        revision: report.revision,
        inputs: DecisionInputs {
            measured_rps: report.measured_rps,
            demand_rps: report.demand_rps,
            slo_ms: u64::try_from(service.slo.as_millis()).unwrap_or(u64::MAX),
            budget_cores: RawCpu(service.budget_cores()),
            scrapes_answered: report.scrapes_answered,
            scrapes_failed: report.scrapes_failed,
            proxies_without_weir: report.proxies_without_weir,
        },
        outcome: report.outcome,
        why: &report.why,
        objective: report.objective,
        variants: variants.collect(),
        binding: binding(service, report),
        alternatives: alternatives(report),
    }
}

/// Returns the limits that the target has reached, to within one step.
fn binding<'a>(service: &'a Service, report: &'a CycleReport) -> Vec<BindingLimit<'a>> {
    let mut binding = Vec::new();
    let target: Cores = report.variants.values().map(|one| one.cores_target).sum();
    let budget = service.budget_cores();
    if target + service.step > budget {
        binding.push(BindingLimit {
            limit: "budget.cores",
            of: None,
            used: target.as_f64(),
            max: budget.as_f64(),
        });
    }
    let shared = report.shared_budget.as_ref();
    let part = shared.and_then(|shared| Some((shared, shared.part?)));
    if let Some((shared, part)) = part.filter(|(_, part)| target + service.step > *part) {
        binding.push(BindingLimit {
            limit: "budget.shared",
            of: Some(&shared.name),
            used: target.as_f64(),
            max: part.as_f64(),
        });
    }
    for (name, resource) in &report.resources {
        if resource.used >= resource.budget {
            binding.push(BindingLimit {
                limit: "budget.resources",
                of: Some(name),
                used: resource.used as f64,
                max: resource.budget as f64,
            });
        }
    }
    for variant in &service.variants {
        let target = report.variants.get(&variant.name);
        let target = target.map_or(Cores::ZERO, |report| report.cores_target);
        let max = variant.cores(variant.max).times(variant.replicas.max);
        if target >= max && variant.max > variant.min {
            binding.push(BindingLimit {
                limit: "variants[].maxCores",
                of: Some(&variant.name),
                used: target.as_f64(),
                max: max.as_f64(),
            });
        }
    }
    binding
}

/// Returns what the solver had beside the target: its optimum, where the actual cores were kept instead.
fn alternatives(report: &CycleReport) -> Vec<Alternative> {
    let optimum = report.optimum.filter(|_| report.kept);
    let alternative = |objective| Alternative {
        solution: "optimum",
        cores: None,
        objective: Some(objective),
        why: "the actual cores carry the demand, and their objective is within the tolerance of it"
            .to_owned(),
    };
    optimum.map(alternative).into_iter().collect()
}
