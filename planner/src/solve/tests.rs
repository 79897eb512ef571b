//! The solver against a brute force, and what each outcome says.

#![allow(clippy::disallowed_methods, reason = "the solver runs on real time")]

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::check::{check, check_cores};
use super::infadapter::solve;
use super::*;

const LIMIT: Duration = Duration::from_secs(20);

/// A problem of (accuracy, requests/s for each core, least, greatest) by variant, all loaded.
pub(super) fn problem(demand_rps: f64, budget: u32, variants: &[(f64, f64, u32, u32)]) -> Problem {
    let candidate =
        |(index, (accuracy, rate, least, greatest)): (usize, &(f64, f64, u32, u32))| Candidate {
            name: format!("v{index}"),
            accuracy: *accuracy,
            readiness: Duration::from_secs(5),
            loaded: true,
            options: (*least..=*greatest)
                .map(|cores| Choice {
                    cores,
                    capacity_rps: rate * f64::from(cores),
                })
                .collect(),
        };
    let objective = Objective {
        alpha: 1.0,
        beta: 0.05,
        gamma: 0.001,
        tolerance: 0.005,
    };
    Problem {
        demand_rps,
        budget,
        objective,
        variants: variants.iter().enumerate().map(candidate).collect(),
    }
}

/// Every combination of options; for each the shares come from the continuous part's own optimum.
fn brute_force(problem: &Problem) -> Option<Allocation> {
    let mut best: Option<Allocation> = None;
    let mut cores = vec![0; problem.variants.len()];
    visit(problem, &mut cores, 0, &mut |cores| {
        let candidate = problem.allocation(cores);
        let better = |new: &Allocation| {
            best.as_ref()
                .is_none_or(|best| new.objective > best.objective)
        };
        if let Some(candidate) = candidate.filter(better) {
            best = Some(candidate);
        }
    });
    best
}

fn visit(problem: &Problem, cores: &mut Vec<u32>, from: usize, with: &mut impl FnMut(&[u32])) {
    if from == cores.len() {
        return with(cores);
    }
    for option in problem.variants[from].options.clone() {
        cores[from] = option.cores;
        visit(problem, cores, from + 1, with);
    }
}

fn greatest_capacity(problem: &Problem) -> f64 {
    let mut greatest = 0.0f64;
    let mut cores = vec![0; problem.variants.len()];
    visit(problem, &mut cores, 0, &mut |cores| {
        if cores.iter().sum::<u32>() <= problem.budget {
            greatest = greatest.max(problem.capacities(cores).iter().sum());
        }
    });
    greatest
}

/// Capacities that rise irregularly (as measured ones do), variants that are not loaded, zero weights.
fn any_problem() -> impl Strategy<Value = Problem> {
    let variant = (
        0.3..1.0f64,
        0u32..3,
        1usize..7,
        any::<bool>(),
        0u64..20,
        prop::collection::vec(0.0..30.0f64, 8),
    );
    let weights = (
        prop_oneof![Just(1.0), 0.0..2.0f64],
        0.0..0.5f64,
        0.0..0.1f64,
    );
    (
        prop::collection::vec(variant, 2..4),
        3u32..14,
        0.5..150.0f64,
        weights,
    )
        .prop_map(|(variants, budget, demand_rps, (alpha, beta, gamma))| {
            let variants = variants.into_iter().enumerate().map(
                |(index, (accuracy, least, span, loaded, readiness, steps))| {
                    let mut capacity_rps = 0.0;
                    let options = steps
                        .into_iter()
                        .take(span)
                        .enumerate()
                        .map(|(step, more)| {
                            let cores = least + step as u32;
                            capacity_rps += if cores == 0 { 0.0 } else { more };
                            Choice {
                                cores,
                                capacity_rps,
                            }
                        });
                    Candidate {
                        name: format!("v{index}"),
                        accuracy,
                        readiness: Duration::from_secs(readiness),
                        loaded,
                        options: options.collect(),
                    }
                },
            );
            let objective = Objective {
                alpha,
                beta,
                gamma,
                tolerance: 0.0,
            };
            Problem {
                demand_rps,
                budget: budget.max(6),
                objective,
                variants: variants.collect(),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_solver_is_as_good_as_trying_everything(problem in any_problem()) {
        match (solve(&problem, None, LIMIT), brute_force(&problem)) {
            (Outcome::Optimal(found), Some(best)) => {
                prop_assert_eq!(check(&problem, &found), Ok(()));
                let off = (found.objective - best.objective).abs();
                prop_assert!(off < 1e-6, "{} found, {} is best: {:?} {:?}", found.objective, best.objective, found, best);
            }
            (Outcome::Infeasible { best_effort, .. }, None) => {
                let greatest = greatest_capacity(&problem);
                prop_assert!(greatest < problem.demand_rps);
                prop_assert_eq!(best_effort.is_some(), greatest > 0.0);
                if let Some(effort) = best_effort {
                    prop_assert_eq!(check_cores(&problem, &effort), Ok(()));
                    let capacity: f64 = problem.capacities(&effort.cores).iter().sum();
                    prop_assert!((capacity - greatest).abs() < 1e-6, "{capacity} of {greatest}");
                }
            }
            (outcome, best) => prop_assert!(false, "{outcome:?}, but trying everything gives {best:?}"),
        }
    }
}

#[test]
fn accurate_variants_together_beat_one_of_them() {
    // InfAdapter's published code forbids this: both accurate variants over-provisioned, none cheap.
    let problem = problem(
        29.0,
        10,
        &[(0.6, 20.0, 0, 10), (0.8, 10.0, 0, 10), (0.78, 15.0, 0, 10)],
    );
    let Outcome::Optimal(found) = solve(&problem, None, LIMIT) else {
        panic!("not optimal")
    };
    assert_eq!((found.cores[0], found.shares[0]), (0, 0.0));
    assert_eq!(found.objective, brute_force(&problem).unwrap().objective);
}

#[test]
fn infeasible_says_what_exceeds_what_and_gives_the_most_there_is() {
    let problem = problem(500.0, 10, &[(0.7, 20.0, 1, 10), (0.8, 10.0, 1, 10)]);
    let Outcome::Infeasible { why, best_effort } = solve(&problem, None, LIMIT) else {
        panic!("feasible?")
    };
    assert_eq!(
        why,
        "a demand of 500.0 requests/s exceeds the 190.0 that 10 cores can carry"
    );
    let effort = best_effort.unwrap();
    assert_eq!(effort.cores, [9, 1]);
    assert!((effort.shares[0] - 18.0 / 19.0).abs() < 1e-9);
}

#[test]
fn nothing_in_time_for_anybody_is_said_so() {
    let mut problem = problem(5.0, 10, &[(0.7, 0.0, 1, 1), (0.8, 0.0, 1, 1)]);
    let Outcome::Infeasible {
        why,
        best_effort: None,
    } = solve(&problem, None, LIMIT)
    else {
        panic!("feasible?")
    };
    assert_eq!(
        why,
        "no variant can answer in time with 10 cores, let alone 5.0 requests/s"
    );
    problem.variants.truncate(1);
    assert!(matches!(
        solve(&problem, None, LIMIT),
        Outcome::Infeasible { .. }
    ));
}

/// As many variants as a service may have, `each` numbers of cores for each, capacities as measured.
fn large(variants: u32, each: u32) -> Problem {
    let variants: Vec<_> = (0..variants)
        .map(|index| {
            let part = f64::from(index) / f64::from(variants);
            (
                0.6 + 0.3 * part.sqrt(),
                25.0 * (1.0 - 0.9 * part),
                0,
                each - 1,
            )
        })
        .collect();
    problem(f64::from(each) * 7.3, each, &variants)
}

#[test]
fn in_a_hurry_the_gap_is_said_and_covers_the_optimum() {
    let problem = large(12, 60);
    let Outcome::Optimal(best) = solve(&problem, None, LIMIT) else {
        panic!("not solved")
    };
    let start = greedy::start(&problem, None).unwrap();
    for limit in [
        Duration::ZERO,
        Duration::from_millis(1),
        Duration::from_millis(5),
    ] {
        match solve(&problem, None, limit) {
            Outcome::Good { allocation, gap } => {
                assert_eq!(check(&problem, &allocation), Ok(()));
                assert!(
                    allocation.objective >= start.objective,
                    "worse than what it began with"
                );
                assert!(
                    allocation.objective + gap >= best.objective - 1e-6,
                    "{gap} is no bound"
                );
            }
            Outcome::OutOfTime { best, .. } => assert_eq!(best, Some(start.clone())),
            outcome => panic!("solved in {limit:?}? {outcome:?}"),
        }
    }
}

#[test]
fn without_time_and_without_a_start_nothing_is_made_up() {
    let three = [(0.7, 20.0, 0, 3), (0.8, 10.0, 0, 3), (0.9, 8.0, 0, 3)];
    let problem = problem(80.0, 9, &three);
    assert!(matches!(solve(&problem, None, LIMIT), Outcome::Optimal(_)));
    match solve(&problem, None, Duration::ZERO) {
        Outcome::OutOfTime { why, best: None } => assert!(!why.is_empty()),
        outcome => panic!("{outcome:?}"),
    }
    let in_force: &[u32] = &[3, 3, 0];
    match solve(&problem, Some(in_force), Duration::ZERO) {
        Outcome::OutOfTime {
            best: Some(best), ..
        }
        | Outcome::Good {
            allocation: best, ..
        } => {
            assert_eq!(best.cores, in_force);
        }
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn the_demos_size_is_solved_within_the_cycles_hundred_ms() {
    let problem = large(3, 20);
    let begin = Instant::now();
    assert!(matches!(solve(&problem, None, LIMIT), Outcome::Optimal(_)));
    let took = begin.elapsed();
    // It takes 5 ms on an idle machine; the test's may be shared.
    assert!(took < Duration::from_millis(100), "{took:?}");
}

/// `cargo test -p weir-planner sizes -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn sizes() {
    for (variants, each) in [(3, 20), (5, 20), (10, 200), (64, 20), (64, 128)] {
        let problem = large(variants, each);
        for limit in [LIMIT, crate::config::SOLVER_LIMIT] {
            let begin = Instant::now();
            let outcome = solve(&problem, None, limit);
            let label = match outcome {
                Outcome::Optimal(_) => "optimal".to_owned(),
                Outcome::Good { gap, .. } => format!("good, gap {gap:.5}"),
                outcome => format!("{outcome:?}"),
            };
            println!(
                "{variants} x {each}, limit {limit:?}: {:?} {label}",
                begin.elapsed()
            );
        }
    }
}
