//! Policy infadapter: the variants and their cores. The optimum, unless the actual allocation carries the demand and is
//! near it, or the forecast has not settled.
//!
//! InfAdapter knows cores, not replicas. For each number of cores, the distribution over replicas with the highest
//! capacity is used; among equal ones, that with the fewest replicas.

use std::collections::BTreeMap;

use weir_api::Rps;
use weir_api::plan::VARIANTS_MAX;

use super::{DEMAND_MIN, Detail, Solved, keep, ready, stay, steps};
use crate::capacity::{Actual, Allocation, Target};
use crate::clock::stopwatch;
use crate::forecast::Forecast;
use crate::profile::UTILISATION;
use crate::service::{
    ConfigError, Decision, Inputs, Policy, Service, SolveStatus, Variant, VariantShape,
};
use crate::solve::TimeLimit;
use crate::solve::infadapter::{
    self, Allocation as Best, Candidate, Choice, Problem, Scale, Weights,
};

/// Minimum difference of two rates that a reason names, in requests/s: it has one decimal.
const SHOWN_MIN_RPS: f64 = 0.05;

/// Policy infadapter; its weights are the service's objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Infadapter;

impl Policy for Infadapter {
    fn name(&self) -> &'static str {
        "infadapter"
    }

    fn variants_max(&self) -> (usize, &'static str) {
        (VARIANTS_MAX, "of them")
    }

    /// Any variant will do: without a capacity, it follows from the latency and the parallelism.
    fn check(&self, _: &str, _: &VariantShape<'_>) -> Result<(), ConfigError> {
        Ok(())
    }

    /// In mode advisory it plans no cores without them, and its shares go by measured rates.
    fn needs_profiles(&self) -> bool {
        false
    }

    /// The reserve of a fitted rate: slots that are all in use leave no time to wait.
    fn derived_utilisation(&self) -> f64 {
        UTILISATION
    }

    /// Returns the optimum, or the actual allocation if there is a reason to keep it.
    fn decide(&self, service: &Service, actual: &[Actual], inputs: Inputs) -> Decision {
        let forecast = inputs.forecast;
        let demand = forecast.planned(service.utilisation_max());
        let problem = problem(service, actual, demand);
        let elapsed = stopwatch();
        let outcome = infadapter::solve(&problem, &TimeLimit::new(service.solver_limit, &elapsed));
        let solved = match Solved::read(outcome) {
            Ok(solved) => solved,
            Err((SolveStatus::OutOfTime, why)) => {
                return keep(actual, SolveStatus::OutOfTime, format!("cores stay: {why}"));
            }
            Err((status, why)) => return keep(actual, status, why),
        };
        let note = match (&solved.detail, solved.status) {
            (Detail::Why(why), SolveStatus::Infeasible) => {
                let of = more_with_headroom(&problem, forecast);
                let of = of.map_or_else(String::new, |rps| {
                    format!("; with headroom it is {rps:.1} requests/s")
                });
                let why = format!("{why}{of}");
                return overloaded(service, actual, &problem, solved.plan, why);
            }
            (Detail::Why(why), _) => format!(", found without the solver ({why})"),
            _ => solved.note(|gap| format!("{gap:.4} below the optimum")),
        };
        let result = (solved.status, note);
        choose(service, actual, &problem, solved.plan, forecast, result)
    }

    fn tolerance(&self, service: &Service) -> f64 {
        service.objective.tolerance
    }
}

/// Problem for that `demand` and the `actual` state. Its cores are counted in steps.
pub fn problem(service: &Service, actual: &[Actual], demand: Rps) -> Problem {
    let candidate = |(variant, allocation): (&Variant, Allocation)| Candidate {
        name: variant.name.clone(),
        accuracy: variant.accuracy / 100.0,
        readiness: variant.readiness,
        loaded: allocation != Allocation::NONE,
        options: options(service, variant),
    };
    Problem {
        demand_rps: demand.0.max(DEMAND_MIN.0),
        budget: service.budget,
        step: service.step.as_f64(),
        weights: Weights {
            alpha: service.objective.alpha,
            beta: service.objective.beta,
            gamma: service.objective.gamma,
        },
        scale: Scale::Normalised,
        in_force: steps(actual, service.step),
        variants: service
            .variants
            .iter()
            .zip(ready(actual))
            .map(candidate)
            .collect(),
    }
}

/// Useful numbers of cores: the minimum, and those with a capacity.
fn options(service: &Service, variant: &Variant) -> Vec<Choice> {
    let shapes = shapes(service, variant);
    let min = shapes.keys().next().copied();
    let all = shapes.iter().map(|(cores, (_, rps))| Choice {
        cores: *cores,
        capacity_rps: *rps,
    });
    all.filter(|option| Some(option.cores) == min || option.capacity_rps > 0.0)
        .collect()
}

/// Best distribution over replicas and its capacity, by total cores in steps.
fn shapes(service: &Service, variant: &Variant) -> BTreeMap<u32, (Allocation, f64)> {
    let mut shapes: BTreeMap<u32, (Allocation, f64)> = BTreeMap::new();
    for replicas in variant.replicas.min..=variant.replicas.max {
        for each in variant.min..=variant.max {
            let each = variant.cores(each);
            let rps = f64::from(replicas) * variant.capacity(each, service);
            let shape = Allocation::new(replicas, each);
            let known = shapes.entry(shape.cores().count(variant.step));
            let known = known.or_insert((shape, rps));
            if rps > known.1 {
                *known = (shape, rps);
            }
        }
    }
    shapes
}

fn targets(service: &Service, cores: &[u32]) -> Vec<Target> {
    let each = service.variants.iter().zip(cores);
    let target = |(variant, cores): (&Variant, &u32)| {
        let shapes = shapes(service, variant);
        shapes
            .get(cores)
            .map_or_else(Target::default, |(shape, _)| Target::of(*shape))
    };
    each.map(target).collect()
}

/// Returns the optimum, or the actual allocation if it carries the demand and there is a reason to keep it.
fn choose(
    service: &Service,
    actual: &[Actual],
    problem: &Problem,
    best: Best,
    forecast: Forecast,
    (status, note): (SolveStatus, String),
) -> Decision {
    let optimum = best.objective;
    let current = problem.in_force.as_ref();
    let current = current.and_then(|cores| problem.allocation(cores));
    let near = |current: &Best| optimum - current.objective <= service.objective.tolerance;
    let is_reason = |current: &Best| !forecast.window_full || near(current);
    let kept = current.filter(|current| is_reason(current) && current.cores != best.cores);
    let chosen = kept.as_ref().unwrap_or(&best);
    let reason = match &kept {
        None => "",
        Some(kept) if near(kept) => ", kept: within the tolerance of the optimum",
        Some(_) => ", kept: the demand's window has not filled yet",
    };
    let of = more_with_headroom(problem, forecast);
    let of = of.map_or_else(String::new, |rps| format!(" ({rps:.1} with headroom)"));
    let why = format!(
        "{:.1} requests/s{of}: accuracy {:.2} % on {} of {} cores{note}{reason}",
        problem.demand_rps,
        accuracy(problem, chosen) * 100.0,
        service.step.times(chosen.cores.iter().sum::<u32>()),
        service.budget_cores(),
    );
    Decision {
        targets: if kept.is_some() {
            stay(actual)
        } else {
            targets(service, &chosen.cores)
        },
        status,
        kept: kept.is_some(),
        why,
        objective: Some(chosen.objective),
        optimum: Some(optimum),
    }
}

/// Returns the demand with headroom, in requests/s, where the problem has less: the variants keep a part of their rates.
fn more_with_headroom(problem: &Problem, forecast: Forecast) -> Option<f64> {
    let demand_rps = forecast.demand.0;
    (demand_rps - problem.demand_rps >= SHOWN_MIN_RPS).then_some(demand_rps)
}

/// Returns the largest capacity; the actual allocation if it has as much.
fn overloaded(
    service: &Service,
    actual: &[Actual],
    problem: &Problem,
    best: Best,
    why: String,
) -> Decision {
    let capacity = |cores: &[u32]| problem.capacities(cores).iter().sum::<f64>();
    let most = capacity(&best.cores) * (1.0 - infadapter::check::TOLERANCE);
    let within = |cores: &Vec<u32>| cores.iter().sum::<u32>() <= problem.budget;
    let current = problem.in_force.clone();
    let kept =
        current.filter(|cores| *cores != best.cores && within(cores) && capacity(cores) >= most);
    Decision {
        targets: if kept.is_some() {
            stay(actual)
        } else {
            targets(service, &best.cores)
        },
        status: SolveStatus::Infeasible,
        kept: kept.is_some(),
        why,
        objective: None,
        optimum: None,
    }
}

fn accuracy(problem: &Problem, allocation: &Best) -> f64 {
    problem
        .variants
        .iter()
        .zip(&allocation.shares)
        .map(|(variant, share)| variant.accuracy * share)
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::draft;
    use crate::policy::decide;
    use crate::spec::{self, tests::small};

    /// Service whose variants have latencies and no capacity.
    fn service(gamma_ms: [f64; 2], at_once: [u32; 2], batch: u32) -> Service {
        let variant = |index: usize| {
            format!(
                "- {{name: v{index}, cluster: v{index}, accuracy: {}, cores: {{initial: 1, min: 0}}, batch: {batch}, \
                 latency: {{gammaMs: {}, etaMs: 3, parallelism: {}}}, resize: 'http://127.0.0.1:2/cores'}}\n",
                70 + index,
                gamma_ms[index],
                at_once[index]
            )
        };
        let small = small();
        let (head, _) = small.split_once("variants:").unwrap();
        Service::from_yaml(&format!("{head}variants:\n{}{}", variant(0), variant(1))).unwrap()
    }

    #[test]
    fn reason_names_the_demand_with_headroom_where_less_is_planned_for() {
        let mut service = spec::tests::service(8);
        for variant in &mut service.variants {
            variant.profile.utilisation = 0.8;
        }
        let actual = [Actual::certain(Allocation::NONE); 2];
        for (demand, mean, begin, end) in [
            (
                30.0,
                24.0,
                "24.0 requests/s (30.0 with headroom): accuracy ",
                " cores",
            ),
            (30.0, 30.0, "30.0 requests/s: accuracy ", " cores"),
            (
                500.0,
                400.0,
                "a demand of 400.0 requests/s exceeds ",
                "; with headroom it is 500.0 requests/s",
            ),
            (
                500.0,
                500.0,
                "a demand of 500.0 requests/s exceeds ",
                " carry",
            ),
        ] {
            let mut inputs = Inputs::steady(Rps(demand));
            inputs.forecast.mean = Rps(mean);
            let why = decide(&service, &actual, Some(inputs)).why;
            assert!(why.starts_with(begin) && why.ends_with(end), "{why}");
        }
    }

    proptest! {
        #[test]
        fn planned_load_leaves_a_fifth_of_what_the_slots_can_do(
            gamma_ms in [5.0..200.0_f64, 5.0..200.0],
            at_once in [1..=4_u32, 1..=4],
            batch in 1..=4_u32,
            demand in 0.1..100.0_f64,
        ) {
            let service = service(gamma_ms, at_once, batch);
            let actual = [Actual::certain(Allocation::NONE); 2];
            let inputs = Inputs::steady(Rps(demand));
            let decision = decide(&service, &actual, Some(inputs));
            prop_assume!(decision.status == SolveStatus::Optimal);
            let each = decision.targets.iter();
            let each = each.map(|target| Allocation::new(target.replicas, target.each));
            let each: Vec<Allocation> = each.collect();
            let plan = draft(&service, &each, Some(inputs)).unwrap();
            for (index, variant) in service.variants.iter().enumerate() {
                let part = plan.variants.iter().find(|part| part.name == variant.name);
                let load_rps = part.map_or(0.0, |part| part.share.0 * demand);
                let cores = each[index].each();
                let slots = f64::from(variant.profile.slots(cores));
                let can_rps = slots * 1e3 / variant.profile.mean_ms(cores);
                // Shares are rounded.
                let most_rps = 0.8 * can_rps + 1e-4 * demand;
                prop_assert!(load_rps <= most_rps, "{load_rps} of {can_rps}");
            }
        }
    }
}
