//! Short time limits: the outcome is correct, and comes soon.

use std::cell::Cell;

use super::*;

/// Solves with a clock that advances by 1 ms at each reading.
fn with_readings(problem: &Problem, limit: u64) -> (Outcome<Plan>, u64) {
    let read = Cell::new(0);
    let clock = || {
        read.set(read.get() + 1);
        Duration::from_millis(read.get())
    };
    let outcome = solve(
        problem,
        &TimeLimit::new(Duration::from_millis(limit), &clock),
    );
    (outcome, read.get())
}

#[test]
fn short_limit_gives_a_gap_that_covers_the_optimum() {
    let problem = problem(pipelines::pipeline(3, 12, 10, 0.1, false));
    let Outcome::Optimal(best) = unhurried(&problem) else {
        panic!("not solved")
    };
    let (mut good, mut gaps) = (0, Vec::new());
    for limit in 0..400 {
        let (outcome, read) = with_readings(&problem, limit);
        match outcome {
            Outcome::Good { best: found, gap } => {
                good += 1;
                assert!(
                    found.objective <= best.objective + 1e-9,
                    "{limit}: better than the best?"
                );
                let reach = found.objective + gap;
                assert!(
                    reach >= best.objective - 1e-9 * best.objective.abs(),
                    "{limit}: {gap} is no bound"
                );
                // One more reading by each of the 12 stages' sweeps, and a few elsewhere.
                assert!(
                    read <= limit + 12 + 10,
                    "{read} looks with {limit} to be had"
                );
                gaps.push(gap);
            }
            Outcome::Optimal(found) => assert_eq!(found, best),
            outcome => panic!("{limit}: {outcome:?}"),
        }
    }
    assert!(good > 50, "{good} of 400 were in a hurry");
    assert!(
        gaps[good - 1] < gaps[0] / 10.0,
        "from {} to {}",
        gaps[0],
        gaps[good - 1]
    );
}

#[test]
fn expired_limit_still_gives_a_plan() {
    let (outcome, _) = with_readings(&problem(pipelines::pipeline(1, 5, 5, 0.2, false)), 0);
    assert!(
        matches!(outcome, Outcome::Good { gap, .. } if gap > 0.0),
        "{outcome:?}"
    );
    let (late, _) = with_readings(&problem(pipelines::pipeline(1, 5, 5, -0.01, false)), 0);
    assert!(
        matches!(
            late,
            Outcome::Infeasible {
                best_effort: Some(_),
                ..
            }
        ),
        "{late:?}"
    );
}
