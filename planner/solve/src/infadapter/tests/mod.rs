//! The search compared with exhaustive search and HiGHS, and the content of each outcome.

mod optimality;
mod outcomes;
mod refusals;

use std::time::Duration;

use super::*;
use crate::{Outcome, TimeLimit};

/// Clock that stands still.
pub(super) fn still() -> Duration {
    Duration::ZERO
}

pub(super) fn solved(problem: &Problem) -> Outcome<Allocation> {
    solve(problem, &TimeLimit::new(Duration::from_secs(20), &still))
}

/// Creates a problem from (accuracy, requests/s per core, min, max cores) by variant, all loaded.
pub(super) fn problem(demand_rps: f64, budget: u32, variants: &[(f64, f64, u32, u32)]) -> Problem {
    let candidate =
        |(index, (accuracy, rate, min, max)): (usize, &(f64, f64, u32, u32))| Candidate {
            name: format!("v{index}"),
            accuracy: *accuracy,
            readiness: Duration::from_secs(5),
            loaded: true,
            options: (*min..=*max)
                .map(|cores| Choice {
                    cores,
                    capacity_rps: rate * f64::from(cores),
                })
                .collect(),
        };
    Problem {
        demand_rps,
        budget,
        step: 1.0,
        weights: Weights {
            alpha: 1.0,
            beta: 0.05,
            gamma: 0.001,
        },
        scale: Scale::Normalised,
        variants: variants.iter().enumerate().map(candidate).collect(),
        in_force: None,
    }
}

/// Creates `each` choices of cores for each variant; the more accurate, the slower. `crooked` makes
/// the capacities irregular, like measured ones.
pub(super) fn large(variants: u32, each: u32, crooked: bool) -> Problem {
    let parts = (0..variants).map(|index| f64::from(index) / f64::from(variants));
    let lines: Vec<_> = parts
        .map(|part| {
            (
                0.6 + 0.3 * part.sqrt(),
                25.0 * (1.0 - 0.9 * part),
                0,
                each - 1,
            )
        })
        .collect();
    let mut problem = problem(f64::from(each) * 7.3, each, &lines);
    for (index, variant) in problem.variants.iter_mut().enumerate() {
        variant.loaded = index % 3 != 1;
        variant.readiness = Duration::from_secs(3 + 2 * index as u64);
        for option in &mut variant.options {
            let wave = f64::from((option.cores * 7 + index as u32 * 3) % 5) / 5.0;
            let lost = if crooked { 1.0 + wave } else { 1.0 };
            let rate = option.capacity_rps / f64::from(option.cores.max(1));
            option.capacity_rps = (option.capacity_rps - lost * 0.8 * rate).max(0.0);
        }
        let mut most = 0.0f64;
        for option in &mut variant.options {
            most = most.max(option.capacity_rps);
            option.capacity_rps = most;
        }
    }
    problem
}

/// Calls `with` for every combination of options.
pub(super) fn each_combination(problem: &Problem, with: &mut impl FnMut(&[u32])) {
    fn visit(problem: &Problem, cores: &mut Vec<u32>, from: usize, with: &mut impl FnMut(&[u32])) {
        if from == cores.len() {
            return with(cores);
        }
        for option in &problem.variants[from].options {
            cores[from] = option.cores;
            visit(problem, cores, from + 1, with);
        }
    }
    visit(problem, &mut vec![0; problem.variants.len()], 0, with);
}

pub(super) fn max_capacity(problem: &Problem) -> f64 {
    let mut max = 0.0f64;
    each_combination(problem, &mut |cores| {
        if cores.iter().sum::<u32>() <= problem.budget {
            max = max.max(problem.capacities(cores).iter().sum());
        }
    });
    max
}
