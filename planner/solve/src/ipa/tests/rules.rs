//! Each rule of the check refuses a plan that breaks it.

use super::*;
use crate::Check;

#[test]
fn plan_that_breaks_a_rule_is_refused() {
    let problem = problem(pipelines::pipeline(2, 3, 4, 0.3, false));
    let Outcome::Optimal(good) = unhurried(&problem) else {
        panic!("not optimal")
    };
    assert_eq!(problem.check(&good), Ok(()));
    type Break = fn(&mut Plan);
    let table: &[(Break, &str)] = &[
        (|p| drop(p.stages.pop()), "2 stages planned of 3"),
        (|p| p.stages.swap(0, 1), "'s1' has no variant"),
        (
            |p| p.stages[1].variant = "x".into(),
            "'s1' has no variant 'x'",
        ),
        (|p| p.stages[1].batch = 9, "with batches of 9"),
        (|p| p.stages[1].replicas = 101, "s1: 101 of"),
        (|p| p.stages[1].latency_ms *= 0.9, "are none of its options"),
        (|p| p.stages[1].replicas = 0, "s1: 0 replicas where"),
        (|p| p.stages[1].queue_ms += 1.0, "s1: queue of"),
        (|p| p.stages[1].cores += 1.0, "s1: cores of"),
        (
            |p| p.stages[1].accuracy_percent = 99.9,
            "s1: accuracy of 99.9",
        ),
        (|p| p.accuracy_percent += 0.1, "accuracy of"),
        (|p| p.accuracy_ranks = Some(1.0), "ranks of 1"),
        (|p| p.cores = f64::NAN, "cores of NaN"),
        (|p| p.latency_ms -= 1.0, "latency of"),
        (|p| p.objective += 0.1, "an objective of"),
        (|p| p.objective = f64::NAN, "an objective of NaN"),
    ];
    for (breaks, message) in table {
        let mut plan = good.clone();
        breaks(&mut plan);
        let error = problem.check(&plan).unwrap_err();
        assert!(error.contains(message), "'{error}' is not '{message}'");
    }
    let mut tighter = problem.clone();
    tighter.sla_ms = good.latency_ms - 0.1;
    assert_eq!(tighter.check_best_effort(&good), Ok(()));
    assert!(
        tighter
            .check(&good)
            .unwrap_err()
            .contains("along a path exceed the SLA")
    );
}
