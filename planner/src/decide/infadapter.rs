//! By InfAdapter: which variants, with how many cores. The optimum, unless the cores in force carry the
//! demand and are near it, or the forecast has not settled.

use weir_api::{Cores, Rps};

use super::{DEMAND_MIN, Decision, Kind, keep, whole};
use crate::clock::stopwatch;
use crate::config::{Service, Variant};
use crate::forecast::Forecast;
use crate::solve::infadapter::{self, Allocation, Candidate, Choice, Problem, Scale, Weights};
use crate::solve::{Outcome, Patience};

/// The optimum, or the cores in force where there is reason to keep them.
pub(super) fn decide(service: &Service, actuated: &[Cores], forecast: Forecast) -> Decision {
    let Forecast {
        demand, settled, ..
    } = forecast;
    let problem = problem(service, actuated, demand);
    let elapsed = stopwatch();
    let outcome = infadapter::solve(&problem, &Patience::new(service.solver_limit, &elapsed));
    let (kind, best, note) = match outcome {
        Outcome::Optimal(best) => (Kind::Optimal, best, String::new()),
        Outcome::Good { best, gap } => (
            Kind::Good,
            best,
            format!(", at most {gap:.4} below the optimum"),
        ),
        Outcome::OutOfTime {
            why,
            best: Some(best),
        } => (
            Kind::OutOfTime,
            best,
            format!(", found without the solver ({why})"),
        ),
        Outcome::OutOfTime { why, best: None } => {
            return keep(actuated, Kind::OutOfTime, format!("cores stay: {why}"));
        }
        Outcome::Infeasible {
            why,
            best_effort: Some(best),
        } => {
            return overloaded(&problem, best, why);
        }
        Outcome::Infeasible {
            why,
            best_effort: None,
        } => {
            return keep(actuated, Kind::Infeasible, why);
        }
    };
    choose(service, &problem, best, settled, kind, note)
}

/// The problem that `demand` poses with `actuated` cores in force.
pub fn problem(service: &Service, actuated: &[Cores], demand: Rps) -> Problem {
    let candidate = |(variant, cores): (&Variant, &Cores)| Candidate {
        name: variant.name.clone(),
        accuracy: variant.accuracy / 100.0,
        readiness: variant.readiness,
        loaded: *cores > Cores::ZERO,
        options: options(service, variant),
    };
    Problem {
        demand_rps: demand.0.max(DEMAND_MIN.0),
        budget: service.budget,
        weights: Weights {
            alpha: service.objective.alpha,
            beta: service.objective.beta,
            gamma: service.objective.gamma,
        },
        scale: Scale::Normalised,
        in_force: whole(actuated),
        variants: service
            .variants
            .iter()
            .zip(actuated)
            .map(candidate)
            .collect(),
    }
}

/// The numbers of cores that are of use: the least, and those that carry anything.
fn options(service: &Service, variant: &Variant) -> Vec<Choice> {
    let choice = |cores| Choice {
        cores,
        capacity_rps: variant.capacity(Cores::whole(cores), service.latency_max_ms),
    };
    let all = (variant.least..=variant.greatest).map(choice);
    all.filter(|option| option.cores == variant.least || option.capacity_rps > 0.0)
        .collect()
}

/// The best, or the cores in force where they carry the demand and there is reason to keep them.
fn choose(
    service: &Service,
    problem: &Problem,
    best: Allocation,
    settled: bool,
    kind: Kind,
    note: String,
) -> Decision {
    let optimum = best.objective;
    let current = problem.in_force.as_ref();
    let current = current.and_then(|cores| problem.allocation(cores));
    let near = |current: &Allocation| optimum - current.objective <= service.objective.tolerance;
    let kept = current.filter(|current| (!settled || near(current)) && current.cores != best.cores);
    let chosen = kept.as_ref().unwrap_or(&best);
    let reason = match &kept {
        None => "",
        Some(kept) if near(kept) => ", kept: within the tolerance of the optimum",
        Some(_) => ", kept: the demand's window has not filled yet",
    };
    let why = format!(
        "{:.1} requests/s: accuracy {:.2} % on {} of {} cores{note}{reason}",
        problem.demand_rps,
        accuracy(problem, chosen) * 100.0,
        chosen.cores.iter().sum::<u32>(),
        problem.budget,
    );
    Decision {
        cores: chosen.cores.iter().copied().map(Cores::whole).collect(),
        kind,
        kept: kept.is_some(),
        why,
        objective: Some(chosen.objective),
        optimum: Some(optimum),
    }
}

/// The greatest capacity; the cores in force if theirs is as great.
fn overloaded(problem: &Problem, best: Allocation, why: String) -> Decision {
    let capacity = |cores: &[u32]| problem.capacities(cores).iter().sum::<f64>();
    let most = capacity(&best.cores) * (1.0 - infadapter::check::TOLERANCE);
    let within = |cores: &Vec<u32>| cores.iter().sum::<u32>() <= problem.budget;
    let current = problem.in_force.clone();
    let kept =
        current.filter(|cores| *cores != best.cores && within(cores) && capacity(cores) >= most);
    let is_kept = kept.is_some();
    let cores = kept.unwrap_or(best.cores);
    Decision {
        cores: cores.into_iter().map(Cores::whole).collect(),
        kind: Kind::Infeasible,
        kept: is_kept,
        why,
        objective: None,
        optimum: None,
    }
}

fn accuracy(problem: &Problem, allocation: &Allocation) -> f64 {
    problem
        .variants
        .iter()
        .zip(&allocation.shares)
        .map(|(variant, share)| variant.accuracy * share)
        .sum()
}
