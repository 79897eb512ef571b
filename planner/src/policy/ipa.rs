//! Policy ipa (JSys '24, Eq. 10): one variant per stage, its replicas and its batch. A replica executes one batch at a
//! time; [`replica`] defines it.
//!
//! - Capacity is that of mean executions, less what queues need ([`reserve`]).
//! - The time for executing and waiting for batches, summed over all stages, stays within the part of the SLO that is
//!   not reserved for network and queues (`latencyBudget`).
//! - IPA has no budget; its β only gives cores a price. If its plan exceeds the budget, the price is raised by the
//!   smallest μ with which it does not. The result is within μ·(budget − cores) of the optimum (weak duality), and
//!   exact if that is 0.
//! - While the load rises above the actual capacity and cores are free, the actual allocation is kept and the variants
//!   with the highest capacity per core grow ([`rise`]).
//! - If the actual capacity does not carry the demand, the problem is solved for the variants that already serve, if
//!   they can carry it: others would load too late. Once demand is carried, all variants count again.
//! - A variant with `cores.min` (or `replicas.min`) keeps that capacity loaded when another variant is chosen. It
//!   counts towards the budget and the cost of a plan.
//! - If even the fewest cores exceed the budget, the largest demand that the budget carries is planned for.
//! - The actual allocation is kept if it carries the demand in time and is within the tolerance, or if the forecast has
//!   not settled.
//!
//! The batch follows from the actual cores ([`batches`]): for a given n, the smallest one that carries λ is IPA's own
//! choice, because a larger one adds latency and lowers the objective.

mod allocation;
mod reserve;
mod rise;

use weir_api::plan::VARIANTS_MAX;
use weir_api::{Cores, Rps};

use super::{DEMAND_MIN, Solved, keep, promised, ready, replica, stay, wait_ms};
use crate::capacity::{Actual, Allocation, Target};
use crate::clock::stopwatch;
use crate::forecast::Forecast;
use crate::service::{
    ConfigError, Decision, Inputs, Policy, STEP_MIN, ScaleDown, Service, SolveStatus, Stage,
    Variant, VariantShape,
};
use crate::solve::ipa::{
    Accuracy, Batches, Input, Plan, Problem, StageInput, VariantInput, Weights, solve,
};
use crate::solve::latency_model::Latency;
use crate::solve::{InputError, TimeLimit};

pub(super) use allocation::{batches, carrying};
use allocation::{is_carried, running};
pub(super) use reserve::Reserve;

pub use settings::{Ipa, RawIpa};

/// Steps of each search for a price or a demand: to a millionth of the starting value.
const STEPS: u32 = 20;

/// Plan within the budget.
struct Found {
    plan: Plan,
    status: SolveStatus,
    note: String,
}

impl Policy for Ipa {
    fn name(&self) -> &'static str {
        "ipa"
    }

    fn variants_max(&self) -> (usize, &'static str) {
        (VARIANTS_MAX, "of them")
    }

    fn plans_pipelines(&self) -> bool {
        true
    }

    /// Checks a variant for this policy; some of each may stay loaded.
    fn check(&self, at: &str, variant: &VariantShape<'_>) -> Result<(), ConfigError> {
        replica::check(at, self.name(), variant, true)
    }

    /// Returns the best plan within the budget, or the actual allocation if there is a reason to keep it.
    fn decide(&self, service: &Service, actual: &[Actual], inputs: Inputs) -> Decision {
        let forecast = inputs.forecast;
        let elapsed = stopwatch();
        let time_limit = TimeLimit::new(service.solver_limit, &elapsed);
        let demand = Rps(forecast.demand.0.max(DEMAND_MIN.0));
        if let Some(targets) = rise::beside(service, actual, forecast, &time_limit) {
            let why = format!(
                "{:.1} requests/s, rising: what serves goes on, and the quickest grow beside it",
                demand.0
            );
            return Decision {
                targets,
                status: SolveStatus::Good,
                kept: false,
                why,
                objective: None,
                optimum: None,
            };
        }
        let found = by_loaded(service, *self, actual, forecast, &time_limit);
        let among = vec![true; service.variants.len()];
        let found = found.map_or_else(
            || within_budget(service, *self, forecast, &among, &time_limit),
            Ok,
        );
        let found = match found {
            Ok(found) => found,
            Err((status, why)) => return keep(actual, status, format!("cores stay: {why}")),
        };
        let targets = targets(service, &found.plan);
        let worth = worth(service, *self, &found.plan);
        let running = running(service, *self, &ready(actual), forecast);
        let running = running.filter(|_| stay(actual) != targets);
        let near = |running: &f64| worth - running <= self.tolerance;
        let usual = matches!(found.status, SolveStatus::Optimal | SolveStatus::Good);
        let kept = running.filter(|running| usual && (!forecast.window_full || near(running)));
        let reason = match &kept {
            None => "",
            Some(running) if near(running) => ", kept: within the tolerance of it",
            Some(_) => ", kept: the demand's window has not filled yet",
        };
        let Plan {
            accuracy_percent,
            latency_ms,
            ..
        } = found.plan;
        let why = format!(
            "{:.1} requests/s:{} in {latency_ms:.0} ms, accuracy {accuracy_percent:.2} %{}{reason}",
            demand.0,
            stages(&found.plan),
            found.note,
        );
        Decision {
            targets: if kept.is_some() {
                stay(actual)
            } else {
                targets
            },
            status: found.status,
            kept: kept.is_some(),
            why,
            objective: Some(kept.unwrap_or(worth)),
            optimum: Some(worth),
        }
    }

    fn chooses_batches(&self) -> bool {
        true
    }

    fn batches(
        &self,
        service: &Service,
        allocations: &[Allocation],
        inputs: Option<Inputs>,
    ) -> Vec<u32> {
        let forecast = inputs.map(|inputs| inputs.forecast);
        batches(service, allocations, forecast, |forecast| {
            Reserve::of(service, forecast)
        })
    }

    fn scale_down(&self) -> ScaleDown {
        ScaleDown::StabilizedAboveZero
    }

    fn tolerance(&self, _service: &Service) -> f64 {
        self.tolerance
    }
}

/// Returns the best plan for the serving variants, if their actual capacity does not carry the demand but more would.
fn by_loaded(
    service: &Service,
    rule: Ipa,
    actual: &[Actual],
    forecast: Forecast,
    time_limit: &TimeLimit<'_>,
) -> Option<Found> {
    let ready = ready(actual);
    let loaded: Vec<bool> = ready.iter().map(|one| *one != Allocation::NONE).collect();
    if is_carried(service, &ready, forecast) || loaded.iter().all(|loaded| *loaded) {
        return None;
    }
    let found = within_budget(service, rule, forecast, &loaded, time_limit).ok()?;
    let carries = matches!(found.status, SolveStatus::Optimal | SolveStatus::Good);
    carries.then(|| Found {
        note: format!("{}, by those that are loaded", found.note),
        ..found
    })
}

/// Returns IPA's plan if it is within the budget, else the nearest one.
fn within_budget(
    service: &Service,
    rule: Ipa,
    forecast: Forecast,
    among: &[bool],
    time_limit: &TimeLimit<'_>,
) -> Result<Found, (SolveStatus, String)> {
    let demand = Rps(forecast.demand.0.max(DEMAND_MIN.0));
    let reserve = Reserve::of(service, forecast);
    let solved = |demand: Rps, price: f64| {
        let problem = input(service, rule, (demand, price), among, reserve);
        solved(problem, time_limit)
    };
    // If a step of cores costs more than all accuracy is worth, the plan has the fewest cores.
    let price_max = (100.0 * rule.alpha + 1.0) / service.step.as_f64();
    match solved(demand, 0.0) {
        Ok(free) if fits(service, &free.plan) => return Ok(free),
        Ok(_) => {}
        // No number of replicas carries the demand.
        Err((SolveStatus::Infeasible, why)) => {
            return overloaded(service, demand, &|less| solved(less, price_max), why);
        }
        Err(other) => return Err(other),
    }
    let mut found = solved(demand, price_max)?;
    if !fits(service, &found.plan) {
        let (fewest, budget) = (cores(service, &found.plan), service.budget_cores());
        let why = format!(
            "{:.1} requests/s need {fewest} cores, and there are {budget}",
            demand.0
        );
        return overloaded(service, demand, &|less| solved(less, price_max), why);
    }
    let (mut low, mut high) = (0.0, price_max);
    for _ in 0..STEPS {
        let price = f64::midpoint(low, high);
        match solved(demand, price) {
            Ok(cheaper) if fits(service, &cheaper.plan) => (found, high) = (cheaper, price),
            Ok(_) => low = price,
            Err(_) => break,
        }
    }
    let left = service.budget_cores().as_f64() - found.plan.cores;
    let gap = high * left;
    // Duality bounds the gap only from a proven optimum. A sum of fractions of a core is not exact.
    if left > STEP_MIN.as_f64() / 2.0 && gap > 0.0 && found.status == SolveStatus::Optimal {
        found.status = SolveStatus::Good;
        found.note = format!(
            ", at most {gap:.2} below the best within {} cores",
            service.budget_cores()
        );
    }
    Ok(found)
}

/// Returns the plan for the largest demand that the budget carries.
fn overloaded(
    service: &Service,
    demand: Rps,
    solved: &dyn Fn(Rps) -> Result<Found, (SolveStatus, String)>,
    why: String,
) -> Result<Found, (SolveStatus, String)> {
    let mut found = None;
    let (mut low, mut high) = (0.0, demand.0);
    for _ in 0..STEPS {
        let less = Rps(f64::midpoint(low, high));
        match solved(less) {
            Ok(carried) if fits(service, &carried.plan) => (found, low) = (Some(carried), less.0),
            Ok(_) | Err((SolveStatus::Infeasible, _)) => high = less.0,
            Err(_) => break,
        }
    }
    let Some(mut found) = found else {
        return Err((SolveStatus::Infeasible, why));
    };
    found.status = SolveStatus::Infeasible;
    found.note = format!(": {why}; planned for {low:.1}");
    Ok(found)
}

fn solved(problem: Input, time_limit: &TimeLimit<'_>) -> Result<Found, (SolveStatus, String)> {
    let refused = |refused: InputError| (SolveStatus::Infeasible, refused.to_string());
    let problem: Problem = problem.try_into().map_err(refused)?;
    let solved = Solved::read(solve(&problem, time_limit))?;
    let note = solved.note(|gap| format!("{gap:.4} below the optimum"));
    Ok(Found {
        plan: solved.plan,
        status: solved.status,
        note,
    })
}

/// IPA's problem for that demand and these variants, with the price added to β.
fn input(
    service: &Service,
    rule: Ipa,
    (demand, price): (Rps, f64),
    among: &[bool],
    reserve: Reserve,
) -> Input {
    let variant = |variant: &Variant| VariantInput {
        name: variant.name.clone(),
        accuracy_percent: variant.accuracy,
        replica_cores: replica::cores_each(variant).as_f64(),
        latency: Latency::Sponge(promised(variant)),
        occupancy: Some(Latency::Sponge(reserve.occupancy(variant))),
        batches: Batches::UpTo(variant.profile.batch),
        wait_ms: wait_ms(variant),
        replicas_max: replica::most(variant),
    };
    let stage = |stage: &Stage| StageInput {
        name: stage.name.clone(),
        after: None,
        variants: of(service, stage)
            .iter()
            .zip(among.get(stage.variants.clone()).unwrap_or_default())
            .filter(|(variant, may)| **may && replica::most(variant) > 0)
            .map(|(one, _)| variant(one))
            .collect(),
    };
    Input {
        arrival_rps: demand.0,
        sla_ms: service.latency_max_ms,
        weights: Weights {
            alpha: rule.alpha,
            beta: rule.beta + price,
            delta: rule.delta,
        },
        accuracy: Accuracy::Product,
        stages: service.stages.iter().map(stage).collect(),
    }
}

fn of<'a>(service: &'a Service, stage: &Stage) -> &'a [Variant] {
    service.variants.get(stage.variants.clone()).unwrap_or(&[])
}

fn fits(service: &Service, plan: &Plan) -> bool {
    cores(service, plan) <= service.budget_cores()
}

/// Cores of a plan, including variants that stay loaded.
fn cores(service: &Service, plan: &Plan) -> Cores {
    let each = service.variants.iter();
    each.map(|variant| replica::cores_each(variant).times(replicas(variant, plan)))
        .sum()
}

/// Objective α·PAS − β·Σ n·R − δ·Σ b, without the added price.
fn worth(service: &Service, rule: Ipa, plan: &Plan) -> f64 {
    let batches: u32 = plan.stages.iter().map(|stage| stage.batch).sum();
    let cores = cores(service, plan).as_f64();
    rule.alpha * plan.accuracy_percent - rule.beta * cores - rule.delta * f64::from(batches)
}

/// Target replicas of a variant: the plan's, or those that stay loaded.
fn replicas(variant: &Variant, plan: &Plan) -> u32 {
    let mut stages = plan.stages.iter();
    let chosen = stages.find(|stage| stage.variant == variant.name);
    let count = chosen.map_or(0, |stage| stage.replicas);
    count.max(replica::min(variant))
}

/// Targets of a plan, in the order of all variants.
fn targets(service: &Service, plan: &Plan) -> Vec<Target> {
    let target = |variant: &Variant| replica::target(variant, replicas(variant, plan));
    service.variants.iter().map(target).collect()
}

fn stages(plan: &Plan) -> String {
    let each = plan.stages.iter().map(|stage| {
        let (n, variant, b) = (stage.replicas, &stage.variant, stage.batch);
        format!(" {n} × {variant} in batches of {b}")
    });
    each.collect::<Vec<_>>().join(",")
}

mod settings;
#[cfg(test)]
pub(super) mod tests;
