//! Policy infaas (ATC '21, §4.2.1): replicas of each variant to start and to stop, at minimum cost for the load and a
//! minimum accuracy. A replica executes one batch at a time ([`replica`]) and costs its cores, at the variant's price.
//!
//! INFaaS limits a variant's replicas only by its resources. If it would exceed a variant's maximum, the replicas
//! themselves become a resource with that limit.
//!
//! INFaaS users give the SLO and the minimum accuracy per request. Here the SLO belongs to the service, and so does a
//! minimum accuracy. What requests require beyond it is known by its shares of the demand ([`AccuracyMix`]): for each
//! accuracy, the variants that have it carry the demand that requires it, so cheaper ones may carry the rest. An accuracy
//! that no variant in time has counts as none: nobody can carry it.
//!
//! A variant that takes longer than `latencyBudget` allows has no capacity. Before the window is full, replicas are
//! started, never stopped.
//!
//! Replicas that start now serve later. A rise is planned for as it will be then ([`Forecast::growth`],
//! [`Forecast::extrapolated`]). Replicas that start already count as running ones, which cost no further loading.

mod solved;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_api::{Cores, Rps};

use super::{DEMAND_MIN, Detail, Solved, keep, replica, stay};
use crate::capacity::{Actual, ResourceLimit, Target};
use crate::clock::stopwatch;
use crate::forecast::Forecast;
use crate::service::rule::{rule, within};
use crate::service::{
    AccuracyMix, ConfigError, Decision, Inputs, Needs, Policy, Service, SolveStatus, Variant,
    VariantShape,
};
use crate::solve::TimeLimit;
use crate::solve::infaas::{
    self, AccuracyShare, Architecture, Input, LATENCY_MS_MAX, Plan, Resource,
};
use crate::solve::latency_model::Parallelism;
use solved::{planned, solved};

/// Upper limit: one second of loading costs at most a whole replica.
const LOADING_WEIGHT_MAX: f64 = 1.0;
/// Resource type that every replica uses besides its resources.
const CORES: &str = "cores";

/// Parameters of policy infaas.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawInfaas {
    /// Minimum accuracy of all requests in percent; variants below it get no replica. Requests may require more.
    pub accuracy_min: f64,
    /// Reserve on top of the demand, in requests/s.
    pub slack_rps: f64,
    /// Cost of one second of loading a replica, as a fraction of the replica's cost.
    pub loading_weight_per_second: f64,
}

/// Settings of policy infaas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Infaas {
    /// Minimum accuracy in percent: variants below it get no replica.
    pub accuracy_min: f64,
    /// Reserve on top of the demand, in requests/s.
    pub slack_rps: f64,
    /// λ of its objective: cost of a second of loading, as a fraction of the replica's cost.
    pub loading_weight_per_s: f64,
}

impl Default for RawInfaas {
    fn default() -> Self {
        RawInfaas {
            accuracy_min: 0.0,
            slack_rps: 0.0,
            loading_weight_per_second: 0.01,
        }
    }
}

impl RawInfaas {
    /// Checks the settings.
    pub(super) fn checked(self) -> Result<Infaas, ConfigError> {
        let min = ("infaas.accuracyMin", self.accuracy_min);
        let loading = (
            "infaas.loadingWeightPerSecond",
            self.loading_weight_per_second,
        );
        Ok(Infaas {
            accuracy_min: within(min.0, min.1, 0.0..=100.0, "percent")?,
            slack_rps: within("infaas.slackRps", self.slack_rps, 0.0..=1e6, "requests/s")?,
            loading_weight_per_s: within(loading.0, loading.1, 0.0..=LOADING_WEIGHT_MAX, "")?,
        })
    }
}

impl Policy for Infaas {
    fn name(&self) -> &'static str {
        "infaas"
    }

    fn variants_max(&self) -> (usize, &'static str) {
        (infaas::VARIANTS_MAX, "of them, with policy infaas")
    }

    fn check(&self, at: &str, variant: &VariantShape<'_>) -> Result<(), ConfigError> {
        replica::check(at, self.name(), variant, false)?;
        let VariantShape {
            step, max, highest, ..
        } = *variant;
        if variant.profile.parallelism == Parallelism::PerCore {
            let most = step.times(highest);
            let right = format!("{most}, with policy infaas: the budget alone bounds replicas");
            let path = format!("{at}.cores.max");
            rule(max == highest, path, step.times(max), &right)?;
        }
        Ok(())
    }

    fn accuracy_min(&self) -> f64 {
        self.accuracy_min
    }

    fn needs(&self, _service: &Service) -> Needs {
        Needs {
            accuracies: true,
            growth: true,
            ..Needs::default()
        }
    }

    /// Returns the cheapest replicas that carry the load, or those that come nearest.
    fn decide(&self, service: &Service, actual: &[Actual], inputs: Inputs) -> Decision {
        let forecast = inputs.forecast;
        let required = required(service, *self, inputs.accuracies.unwrap_or_default());
        let each = service.variants.iter().zip(actual);
        let (serving, running): (Vec<u32>, Vec<u32>) = each
            .map(|(variant, actual)| {
                let (serving, _) = replica::count(variant, actual.ready);
                (
                    serving,
                    serving + replica::count(variant, actual.starting).0,
                )
            })
            .unzip();
        let elapsed = stopwatch();
        let time_limit = TimeLimit::new(service.solver_limit, &elapsed);
        let load = load(service, actual, forecast);
        let outcome = match solved(
            service,
            input(service, *self, &running, (load, required)),
            &time_limit,
        ) {
            Ok(outcome) => outcome,
            Err(refused) => return keep(actual, SolveStatus::Infeasible, refused.to_string()),
        };
        let solved = match Solved::read(outcome) {
            Ok(solved) => solved,
            Err((status, why)) => return keep(actual, status, format!("cores stay: {why}")),
        };
        // The problem counts cores in steps, and so does its objective.
        let step = service.step.as_f64();
        let note = solved.note(|gap| format!("{:.4} too dear", gap * step));
        let Solved {
            plan,
            status,
            detail,
        } = solved;
        let carries_any = plan.architectures.iter().any(|one| one.carried_qps > 0.0);
        if let (SolveStatus::Infeasible, false, Detail::Why(why)) = (status, carries_any, detail) {
            // Stopping all replicas is no best effort.
            return keep(actual, status, format!("cores stay: {why}"));
        }
        let solution = replicas(service, &plan);
        let present = (forecast.demand, required);
        let desired = match carries(service, *self, &serving, present) {
            true => solution.clone(),
            false => with_starting(service, &solution, (&serving, &running)),
        };
        let target = |(variant, count): (&Variant, &u32)| replica::target(variant, *count);
        let targets: Vec<Target> = service.variants.iter().zip(&desired).map(target).collect();
        let stops = desired
            .iter()
            .zip(&running)
            .any(|(desired, now)| desired < now);
        let enough = carries(service, *self, &running, (load, required));
        let kept = stops && !forecast.window_full && enough;
        let reason = if kept {
            ", kept: the demand's window has not filled yet"
        } else {
            ""
        };
        let why = format!(
            "{:.1} requests/s: {} of {} cores at {} % or more{}{note}{reason}",
            load.0,
            cores(service, &desired),
            service.budget_cores(),
            self.accuracy_min,
            shares(required),
        );
        Decision {
            targets: if kept { stay(actual) } else { targets },
            status,
            kept,
            why,
            objective: (!kept && desired == solution).then_some(-plan.objective * step),
            optimum: Some(-plan.objective * step),
        }
    }
}

/// Accuracies that a variant in time has, and another one has not: where all have it, it restricts nothing.
fn required(service: &Service, rule: Infaas, mix: AccuracyMix) -> AccuracyMix {
    let in_time = |variant: &&Variant| sustains(service, rule, variant) > 0.0;
    let accuracies = || service.variants.iter().filter(in_time).map(|v| v.accuracy);
    let min = accuracies().fold(f64::INFINITY, f64::min);
    mix.only(|percent| percent > min && accuracies().any(|accuracy| accuracy >= percent))
}

/// Text about the shares that require more than the minimum.
fn shares(required: AccuracyMix) -> String {
    let one = |(percent, _): (f64, f64)| {
        let share = required.above(percent) * 100.0;
        format!(", {share:.0} % of it at {percent} %")
    };
    required.shares().map(one).collect()
}

/// Demand at the time at which replicas that start now are ready, by the slowest variant that serves or starts.
fn load(service: &Service, actual: &[Actual], forecast: Forecast) -> Rps {
    let each = service.variants.iter().zip(actual);
    let used = each.filter(|(_, actual)| actual.replicas() > 0);
    let readiness = used.map(|(variant, _)| variant.readiness).max();
    // The demand is older by up to the moving mean, and holds until the next cycle.
    let ahead = readiness.unwrap_or_default() + service.demand.moving + service.cycle;
    let grows = forecast.growth.0 * ahead.as_secs_f64();
    Rps((forecast.demand.0 + grows).max(forecast.extrapolated.0))
}

fn input(
    service: &Service,
    rule: Infaas,
    running: &[u32],
    (load, required): (Rps, AccuracyMix),
) -> Input {
    let each = service.variants.iter().zip(running);
    let takes = |index: usize, variant: &Variant| {
        // If replicas are cores, none of them holds the resources of their pod.
        let limits = service
            .limits
            .0
            .iter()
            .filter(|_| !replica::is_core(variant));
        let resources = limits.map(|limit| {
            let each = limit.each.get(index).copied().unwrap_or(0);
            (limit.name.clone(), part(each, limit))
        });
        let cores = (CORES.to_owned(), steps_of(variant));
        resources.chain([cores]).collect::<BTreeMap<_, _>>()
    };
    let variant = |(index, (variant, replicas)): (usize, (&Variant, &u32))| infaas::Variant {
        name: variant.name.clone(),
        resource: CORES.to_owned(),
        takes: Some(takes(index, variant)),
        cost: steps_of(variant) * variant.price,
        // In this problem every replica sustains something, so 0 becomes the smallest number.
        sustains_qps: sustains(service, rule, variant).max(f64::MIN_POSITIVE),
        latency_ms: if sustains(service, rule, variant) > 0.0 {
            variant.profile.budget_ms(replica::cores_each(variant))
        } else {
            LATENCY_MS_MAX
        },
        accuracy_percent: Some(variant.accuracy),
        loading_s: variant.readiness.as_secs_f64(),
        replicas: *replicas,
    };
    Input {
        resources: resources(service),
        architectures: vec![Architecture {
            name: service.name.clone(),
            load_qps: load.0.max(DEMAND_MIN.0),
            slack_qps: rule.slack_rps,
            slo_ms: Some(service.latency_max_ms),
            accuracies: required
                .shares()
                .map(|(percent, share)| AccuracyShare { percent, share })
                .collect(),
            variants: each.enumerate().map(variant).collect(),
        }],
        loading_weight_per_s: rule.loading_weight_per_s,
        gap: 0.0,
    }
}

fn resources(service: &Service) -> Vec<Resource> {
    let resource = |name: &str, available: f64| Resource {
        name: name.to_owned(),
        available,
    };
    let cores = resource(CORES, f64::from(service.budget));
    let limits = service.limits.0.iter();
    let others = limits.map(|limit| resource(&limit.name, part(limit.most, limit)));
    [cores].into_iter().chain(others).collect()
}

/// Amount as a fraction of its limit: bytes are too large numbers for the problem.
fn part(amount: u64, limit: &ResourceLimit) -> f64 {
    amount as f64 / limit.most.max(1) as f64
}

/// L: requests/s of one replica; 0 for a variant below the minimum accuracy.
fn sustains(service: &Service, rule: Infaas, variant: &Variant) -> f64 {
    if variant.accuracy < rule.accuracy_min {
        return 0.0;
    }
    variant.capacity(replica::cores_each(variant), service)
}

/// Cores of a replica in the problem: in steps, which are whole numbers.
fn steps_of(variant: &Variant) -> f64 {
    f64::from(replica::steps_each(variant))
}

/// Cores of that many replicas of each variant.
fn cores(service: &Service, replicas: &[u32]) -> Cores {
    let each = service.variants.iter().zip(replicas);
    each.map(|(variant, n)| replica::cores_each(variant).times(*n))
        .sum()
}

fn carries(
    service: &Service,
    rule: Infaas,
    running: &[u32],
    (load, required): (Rps, AccuracyMix),
) -> bool {
    let needed = load.0 + rule.slack_rps;
    let carries = |percent: f64, share: f64| {
        let each = service.variants.iter().zip(running);
        let able = each.filter(|(variant, _)| variant.accuracy >= percent);
        let carried: f64 = able
            .map(|(variant, replicas)| sustains(service, rule, variant) * f64::from(*replicas))
            .sum();
        carried >= needed * share
    };
    let mut shares = required.shares();
    let accurate = shares.all(|(percent, _)| carries(percent, required.above(percent)));
    let within = cores(service, running) <= service.budget_cores();
    accurate && carries(0.0, 1.0) && within
}

/// N + δ, in the variants' order and within their limits.
fn replicas(service: &Service, plan: &Plan) -> Vec<u32> {
    let of = |variant: &Variant| planned(Some(plan), variant).min(replica::most(variant));
    service.variants.iter().map(of).collect()
}

/// The desired replicas, and those that have started beside them, as far as budget and limits allow: none is ended that
/// another would start for, from the beginning.
fn with_starting(
    service: &Service,
    desired: &[u32],
    (serving, running): (&[u32], &[u32]),
) -> Vec<u32> {
    let mut kept = desired.to_vec();
    let each = service.variants.iter().zip(serving.iter().zip(running));
    let starts = each.enumerate().filter(|(_, (_, (now, then)))| now < then);
    for (index, (variant, (_, running))) in starts {
        let mut more = kept.clone();
        if let Some(count) = more.get_mut(index) {
            *count = (*running).min(replica::most(variant)).max(*count);
        }
        let cores = cores(service, &more);
        if cores <= service.budget_cores() && service.limits.fit(&more) {
            kept = more;
        }
    }
    kept
}

#[cfg(test)]
pub(super) mod tests;
