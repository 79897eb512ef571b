//! Decision of the planner for a changed service and a steady rate: the cores and shares that it would plan, their
//! cost and accuracy, the predicted on-time part, and the reason.
//!
//! It is the planner's own [`policy::decide`] with the rate as a demand that has lasted. The current cores are not
//! preferred (tolerance 0), so that the answer depends on the inputs alone; a running planner keeps near optima.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_api::{Cores, Rps};
use weir_planner::capacity::{Actual, Allocation, Target};
use weir_planner::plan::{Draft, Expected, capacities, drafts, expected};
use weir_planner::policy;
use weir_planner::service::{Inputs, Service, SolveStatus, Stage, Variant};

use crate::ConsoleError;
use crate::change::{self, Changes};
use crate::document;
use crate::on_time::Load;

/// Maximum rate, in requests/s.
pub const RATE_MAX_RPS: f64 = 1e6;

/// Request for the plan of a changed service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// Service file, YAML or JSON. Addresses and keys may be left out.
    pub service: String,
    /// Rate of the requests, without headroom.
    pub rate_rps: f64,
    /// Changes to the service.
    #[serde(default)]
    pub changes: Changes,
    /// Actual allocations by variant; the initial ones of the file by default.
    #[serde(default)]
    pub actual: BTreeMap<String, ActualCores>,
}

/// Actual allocation of a variant.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActualCores {
    /// Cores of all replicas.
    pub cores: f64,
    /// Replicas.
    pub replicas: u32,
}

/// Plan of a changed service, with its consequences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// Result of the solve.
    pub outcome: SolveStatus,
    /// Reason, in one sentence.
    pub why: String,
    /// Objective of the plan.
    pub objective: Option<f64>,
    /// SLO, in ms.
    pub slo_ms: f64,
    /// Demand: the rate with headroom.
    pub demand_rps: f64,
    /// Cores of all variants.
    pub cores: f64,
    /// Budget.
    pub budget_cores: f64,
    /// Cores times prices.
    pub cost: f64,
    /// Mean accuracy of the answers, in percent; the product over stages.
    pub accuracy_percent: f64,
    /// Predicted part of the requests that are on time, in percent.
    pub on_time_percent: f64,
    /// Variants, in the order of the service.
    pub variants: Vec<PlannedVariant>,
    /// The changed service file, with the planned cores as its initial ones.
    pub service: String,
}

/// One variant of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedVariant {
    /// Stage.
    pub stage: String,
    /// Name.
    pub name: String,
    /// Accuracy, in percent.
    pub accuracy_percent: f64,
    /// Cores of all replicas.
    pub cores: f64,
    /// Replicas.
    pub replicas: u32,
    /// Share of the traffic, 0 to 1.
    pub share: f64,
    /// Slots.
    pub slots: u32,
    /// Batch.
    pub batch: u32,
    /// Rate that it can be planned with.
    pub capacity_rps: f64,
    /// Service time that the proxies plan with, in ms.
    pub service_ms: f64,
    /// Predicted part of its requests that are on time, in percent; `null` without a share.
    pub on_time_percent: Option<f64>,
}

/// Decides for a changed service.
///
/// # Errors
/// The first invalid value, by its path.
pub fn what_if(request: &WhatIf) -> Result<Planned, ConsoleError> {
    if !(0.0..=RATE_MAX_RPS).contains(&request.rate_rps) {
        let right = format!("0 to {RATE_MAX_RPS} requests/s");
        return Err(ConsoleError::value("rate_rps", request.rate_rps, right));
    }
    let mut file = document::parse("service file", &request.service)?;
    request.changes.apply(&mut file)?;
    let initial = change::initial(&mut file)?;
    let mut complete = file.clone();
    change::fill_in(&mut complete)?;
    let service = Service::from_yaml(&complete.to_string())?;
    if let Some(without) = service.variants.iter().find(|one| !one.has_profile()) {
        let path = format!("variants.{}.latency", without.name);
        let right = "given, or profile, for a what-if: nothing is known of other loads and cores; `weir profile` measures it";
        return Err(ConsoleError::value(path, "missing", right));
    }
    let actual = actual(&service, &request.actual, &initial)?;
    let inputs = inputs(&service, request.rate_rps);
    let decision = policy::decide(&service, &actual, Some(inputs));
    let allocations: Vec<Allocation> = decision
        .targets
        .iter()
        .map(|target: &Target| Allocation::new(target.replicas, target.each))
        .collect();
    let plans = drafts(&service, &allocations, Some(inputs)).unwrap_or_default();
    let variants = planned(&service, &allocations, inputs, &plans, request.rate_rps);
    let each = service.variants.iter().zip(&allocations);
    let cost = each.map(|(variant, allocation)| variant.price * allocation.cores().as_f64());
    let cost = cost.sum();
    Ok(Planned {
        outcome: decision.status,
        why: decision.why,
        objective: decision.objective,
        // Exact for whole milliseconds, as seconds are not.
        slo_ms: service.slo.as_nanos() as f64 / 1e6,
        demand_rps: inputs.forecast.demand.0,
        cores: variants.iter().map(|variant| variant.cores).sum(),
        budget_cores: service.budget_cores().as_f64(),
        cost,
        accuracy_percent: accuracy_percent(&service, &variants),
        on_time_percent: on_time_percent(&service, &variants),
        service: changed(file, &service, &allocations)?,
        variants,
    })
}

/// A rate that has lasted, with the headroom of the service.
fn inputs(service: &Service, rate_rps: f64) -> Inputs {
    let (rate, demand) = (Rps(rate_rps), Rps(rate_rps * service.demand.headroom));
    let mut inputs = Inputs::steady(demand);
    (inputs.forecast.mean, inputs.forecast.arriving) = (rate, rate);
    inputs.forecast.lasted = Some(demand);
    inputs
}

fn actual(
    service: &Service,
    given: &BTreeMap<String, ActualCores>,
    initial: &BTreeMap<String, (f64, u32)>,
) -> Result<Vec<Actual>, ConsoleError> {
    let one = |variant: &Variant| {
        let (each, replicas) = match given.get(&variant.name) {
            Some(given) => (
                given.cores / f64::from(given.replicas.max(1)),
                given.replicas,
            ),
            None => initial.get(&variant.name).copied().unwrap_or((0.0, 0)),
        };
        let right = |right| {
            let path = format!("actual.{}.cores", variant.name);
            ConsoleError::value(path, each, right)
        };
        let cores = Cores::try_from(each).map_err(right)?;
        Ok(Actual::certain(Allocation::new(replicas, cores)))
    };
    service.variants.iter().map(one).collect()
}

fn planned(
    service: &Service,
    allocations: &[Allocation],
    inputs: Inputs,
    plans: &[Draft],
    rate_rps: f64,
) -> Vec<PlannedVariant> {
    let capacities = capacities(service, allocations, Some(inputs), &[]);
    let expected = expected(service, allocations, Some(inputs), &[]);
    let batches = policy::batches(service, allocations, Some(inputs));
    let mut all = Vec::new();
    let mut stages = Vec::new();
    for (index, stage) in service.stages.iter().enumerate() {
        let parts = plans.get(index).map(|plan| plan.variants.as_slice());
        let parts = parts.unwrap_or_default();
        let each = expected.iter().zip(&batches).map(|(expected, batch)| {
            let expected = expected.as_ref();
            expected.map_or(0.0, |expected| mean_ms(expected, *batch))
        });
        let each = each.skip(stage.variants.start).zip(parts);
        stages.push(each.map(|(ms, part)| ms * part.share.0).sum());
        for (place, variant) in stage.variants.clone().enumerate() {
            let Some(known) = service.variants.get(variant) else {
                continue;
            };
            let allocation = allocations.get(variant).copied().unwrap_or_default();
            let part = parts.get(place);
            all.push(PlannedVariant {
                stage: stage.name.clone(),
                name: known.name.clone(),
                accuracy_percent: known.accuracy,
                cores: allocation.cores().as_f64(),
                replicas: allocation.replicas(),
                share: part.map_or(0.0, |part| part.share.0),
                slots: part.map_or(0, |part| part.slots),
                batch: part.map_or(0, |_| batches.get(variant).copied().unwrap_or_default()),
                capacity_rps: capacities.get(variant).copied().unwrap_or_default(),
                service_ms: part.map_or(0.0, |part| part.service_ms),
                on_time_percent: None,
            });
        }
    }
    let total_ms: f64 = stages.iter().sum();
    for (index, stage) in service.stages.iter().enumerate() {
        let others_ms = total_ms - stages.get(index).copied().unwrap_or_default();
        let deadline_ms = service.own_slo_ms() - others_ms;
        for variant in stage.variants.clone() {
            let expected = expected.get(variant).copied().flatten();
            let known = service.variants.get(variant);
            if let (Some(planned), Some(expected), Some(known)) =
                (all.get_mut(variant), expected, known)
            {
                predict(planned, &expected, known, rate_rps, deadline_ms);
            }
        }
    }
    all
}

/// Mean time of a planned batch. Servers that make batches may make larger ones, but only while they are late.
fn mean_ms(expected: &Expected, batch: u32) -> f64 {
    let others = f64::from(batch.clamp(1, expected.largest.max(1)) - 1);
    expected.single_ms + others * expected.per_request_ms + expected.delay_ms
}

fn predict(
    planned: &mut PlannedVariant,
    expected: &Expected,
    variant: &Variant,
    rate_rps: f64,
    deadline_ms: f64,
) {
    if planned.share <= 0.0 {
        return;
    }
    let load = Load {
        rate_rps: rate_rps * planned.share,
        slots: expected.slots / expected.largest.max(1) * planned.batch.max(1),
        mean_ms: mean_ms(expected, planned.batch),
        tail: variant.profile.latency.tail,
        deadline_ms,
    };
    planned.on_time_percent = Some(100.0 * load.on_time());
}

fn accuracy_percent(service: &Service, variants: &[PlannedVariant]) -> f64 {
    let part = |variant: &PlannedVariant| variant.share * variant.accuracy_percent / 100.0;
    100.0 * over_stages(service, variants, part)
}

fn on_time_percent(service: &Service, variants: &[PlannedVariant]) -> f64 {
    let part = |variant: &PlannedVariant| {
        variant.share * variant.on_time_percent.unwrap_or_default() / 100.0
    };
    100.0 * over_stages(service, variants, part)
}

fn over_stages(
    service: &Service,
    variants: &[PlannedVariant],
    part: impl Fn(&PlannedVariant) -> f64,
) -> f64 {
    let of_stage = |stage: &Stage| -> f64 {
        let variants = variants.get(stage.variants.clone()).unwrap_or_default();
        variants.iter().map(&part).sum()
    };
    service.stages.iter().map(of_stage).product()
}

/// Writes the changed file with the planned cores as its initial ones.
fn changed(
    mut file: Value,
    service: &Service,
    allocations: &[Allocation],
) -> Result<String, ConsoleError> {
    for (variant, allocation) in service.variants.iter().zip(allocations) {
        let (each, replicas) = (allocation.each().as_f64(), allocation.replicas());
        change::set_initial(&mut file, &variant.name, each, replicas)?;
    }
    document::yaml(&file)
}

#[cfg(test)]
mod tests;
