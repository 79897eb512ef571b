//! Outcomes without an optimum, or without the time to find it.

use std::cell::Cell;

use super::*;
use crate::Check;

#[test]
fn infeasible_names_the_limit_and_gives_maximum_capacity() {
    let problem = problem(500.0, 10, &[(0.7, 20.0, 1, 10), (0.8, 10.0, 1, 10)]);
    let Outcome::Infeasible { why, best_effort } = solved(&problem) else {
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
fn no_variant_in_time_is_infeasible() {
    let mut problem = problem(5.0, 10, &[(0.7, 0.0, 1, 1), (0.8, 0.0, 1, 1)]);
    let Outcome::Infeasible {
        why,
        best_effort: None,
    } = solved(&problem)
    else {
        panic!("feasible?")
    };
    assert_eq!(
        why,
        "no variant can answer in time with 10 cores, let alone 5.0 requests/s"
    );
    problem.variants.truncate(1);
    assert!(matches!(solved(&problem), Outcome::Infeasible { .. }));
}

/// Solves with a clock that advances by one at each reading, and a limit of `limit` readings.
fn hurried(problem: &Problem, limit: u64) -> Outcome<Allocation> {
    let at = Cell::new(0);
    let clock = || {
        at.set(at.get() + 1);
        Duration::from_nanos(at.get())
    };
    solve(
        problem,
        &TimeLimit::new(Duration::from_nanos(limit), &clock),
    )
}

#[test]
fn short_limit_gives_a_gap_that_covers_the_optimum() {
    let problem = large(12, 60, true);
    let Outcome::Optimal(best) = solved(&problem) else {
        panic!("not solved")
    };
    let start = greedy::start(&problem, None).unwrap();
    let mut good = 0;
    for limit in [1, 2, 3, 5, 8, 13, 21] {
        match hurried(&problem, limit) {
            Outcome::Good { best: found, gap } => {
                assert_eq!(problem.check(&found), Ok(()));
                assert!(
                    found.objective >= start.objective,
                    "worse than what it began with"
                );
                assert!(
                    found.objective + gap >= best.objective - 1e-9,
                    "{gap} is no bound"
                );
                good += 1;
            }
            Outcome::Optimal(found) => assert!((found.objective - best.objective).abs() < 1e-9),
            outcome => panic!("{outcome:?}"),
        }
    }
    assert!(good >= 2, "it was never in a hurry");
}

#[test]
fn expired_limit_does_not_claim_infeasibility() {
    let problem = problem(500.0, 10, &[(0.7, 20.0, 1, 10), (0.8, 10.0, 1, 10)]);
    let mut cut_short = 0;
    for limit in 1..60 {
        match hurried(&problem, limit) {
            Outcome::Infeasible {
                why,
                best_effort: None,
            } => {
                assert!(why.ends_with("was not found in time"), "{why}");
                cut_short += 1;
            }
            Outcome::Infeasible { .. } | Outcome::OutOfTime { .. } => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    assert!(cut_short > 0, "time never ran out there");
}

#[test]
fn no_time_and_no_start_is_out_of_time_without_plan() {
    let three = [(0.7, 20.0, 0, 3), (0.8, 10.0, 0, 3), (0.9, 8.0, 0, 3)];
    let mut problem = problem(80.0, 9, &three);
    assert!(matches!(solved(&problem), Outcome::Optimal(_)));
    // No single variant carries 80, so there is no start.
    match hurried(&problem, 1) {
        Outcome::OutOfTime { why, best: None } => assert!(!why.is_empty()),
        Outcome::Good { best, .. } => {
            assert_eq!(problem.check(&best), Ok(()), "found by the first dive")
        }
        outcome => panic!("{outcome:?}"),
    }
    problem.in_force = Some(vec![3, 3, 0]);
    let outcome = hurried(&problem, 1);
    let found = outcome.plan().expect("what is in force carries it");
    assert!(found.objective >= problem.allocation(&[3, 3, 0]).unwrap().objective);
}

#[test]
fn same_problem_has_the_same_answer() {
    for crooked in [false, true] {
        let problem = large(10, 60, crooked);
        assert_eq!(solved(&problem), solved(&problem));
    }
}

#[test]
fn only_the_longest_loading_costs() {
    let mut problem = problem(
        60.0,
        20,
        &[(0.7, 20.0, 0, 10), (0.8, 10.0, 0, 10), (0.9, 5.0, 0, 10)],
    );
    problem.weights.beta = 0.0;
    for (index, seconds) in [(1, 4), (2, 8)] {
        problem.variants[index].loaded = false;
        problem.variants[index].readiness = Duration::from_secs(seconds);
    }
    problem.variants[0].readiness = Duration::ZERO;
    // γ → the variants that justify their loading: the longest costs γ, the shorter one γ/2.
    for (gamma, used) in [
        (0.0, [false, true, true]),
        (0.18, [false, true, false]),
        (1.0, [true, false, false]),
    ] {
        problem.weights.gamma = gamma;
        let Outcome::Optimal(found) = solved(&problem) else {
            panic!("not optimal")
        };
        let got: Vec<bool> = found.shares.iter().map(|share| *share > 0.0).collect();
        assert_eq!(got, used, "γ = {gamma}: {found:?}");
    }
}
