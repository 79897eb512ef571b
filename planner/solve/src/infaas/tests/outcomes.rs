//! Outcomes without a plan and under time limits, and optima that are easy to verify.

use std::cell::Cell;

use super::*;

fn input(available: &[(&str, f64)], architectures: Vec<Architecture>) -> Input {
    Input {
        resources: available
            .iter()
            .map(|(name, n)| resource(name, *n))
            .collect(),
        architectures,
        loading_weight_per_s: 0.0,
        gap: 0.0,
    }
}

fn problem(available: &[(&str, f64)], architectures: Vec<Architecture>) -> Problem {
    Problem::try_from(input(available, architectures)).unwrap()
}

/// A slow cheap variant that runs, and a fast expensive one that does not.
fn one(load_qps: f64, running: u32) -> Architecture {
    let cpu = variant("cpu", "cpu", (1.0, 10.0, 2.0, running));
    let gpu = variant("gpu", "gpu", (5.0, 80.0, 10.0, 0));
    architecture("resnet", load_qps, vec![cpu, gpu])
}

fn changes(plan: &Plan) -> Vec<i64> {
    let parts = plan.architectures.iter().flat_map(|a| &a.variants);
    parts.map(|action| action.change).collect()
}

#[test]
fn optimum_replicates_upgrades_and_stops() {
    // Load, λ, cpus, gpus, running → δ of cpu and gpu, objective.
    for (load_qps, weight, cpus, gpus, running, change, objective) in [
        (10.0, 0.0, 9.0, 9.0, 1, [0, 0], 0.0),
        (40.0, 0.0, 9.0, 9.0, 1, [3, 0], 3.0),
        (41.0, 0.0, 3.0, 9.0, 1, [-1, 1], 4.0),
        (70.0, 0.0, 9.0, 9.0, 1, [-1, 1], 4.0),
        // 6 cpu cost 6·(1 + 0.2), the gpu 5·(1 + 1) less the stopped one.
        (70.0, 0.1, 9.0, 9.0, 1, [6, 0], 7.2),
        (70.0, 0.1, 6.0, 9.0, 1, [-1, 1], 9.0),
        (70.0, 0.1, 9.0, 0.0, 1, [6, 0], 7.2),
        (90.0, 0.0, 9.0, 9.0, 1, [0, 1], 5.0),
        (0.0, 0.0, 9.0, 9.0, 4, [-4, 0], -4.0),
        (20.0, 0.0, 1.0, 1.0, 4, [-4, 1], 1.0),
    ] {
        let mut input = input(
            &[("cpu", cpus), ("gpu", gpus)],
            vec![one(load_qps, running)],
        );
        input.loading_weight_per_s = weight;
        let problem = Problem::try_from(input).unwrap();
        let Outcome::Optimal(plan) = solved(&problem) else {
            panic!("{load_qps}: not optimal")
        };
        assert_eq!(changes(&plan), change, "{load_qps} {weight} {cpus} {gpus}");
        assert!(
            (plan.objective - objective).abs() < 1e-12,
            "{}",
            plan.objective
        );
        let before = f64::from(running);
        let spent = plan.running_cost + plan.loading_cost;
        assert!((spent - before - objective).abs() < 1e-12);
    }
}

#[test]
fn slow_variant_carries_nothing_but_may_be_stopped() {
    let mut late = one(20.0, 4);
    late.slo_ms = Some(5.0);
    late.slack_qps = 100.0;
    late.variants[1].latency_ms = 5.0;
    let Outcome::Optimal(plan) = solved(&problem(&[("cpu", 9.0), ("gpu", 9.0)], vec![late])) else {
        panic!("not optimal")
    };
    assert_eq!(changes(&plan), [-4, 2]);
    assert_eq!(plan.architectures[0].carried_qps, 160.0);
}

#[test]
fn tie_moves_the_fewest_replicas() {
    // Two replicas of either variant suffice, at the same cost; the running ones stay.
    for (first, second, change) in [
        (2, 0, [0, 0]),
        (0, 2, [0, 0]),
        (1, 1, [0, 0]),
        (0, 3, [0, -1]),
    ] {
        let variants = vec![
            variant("v0", "cpu", (1.0, 10.0, 0.0, first)),
            variant("v1", "cpu", (1.0, 10.0, 0.0, second)),
        ];
        let problem = problem(&[("cpu", 9.0)], vec![architecture("a", 20.0, variants)]);
        let outcome = solved(&problem);
        assert_eq!(changes(outcome.plan().unwrap()), change);
        assert_eq!(solved(&problem), outcome, "the same again");
    }
}

#[test]
fn infeasible_names_the_exhausted_resource() {
    let mut late = one(20.0, 1);
    late.slo_ms = Some(5.0);
    let huge = one(2e9, 1);
    let mut both = one(20.0, 0);
    both.variants.truncate(1);
    both.variants[0].takes = Some([("cpu".to_owned(), 1.0), ("gpu".to_owned(), 2.0)].into());
    for (available, architectures, expected) in [
        (
            [("cpu", 9.0), ("gpu", 9.0)],
            vec![late],
            "resnet: its variants within its SLO of 5 ms can carry 0 queries/s at most, load and slack are 20",
        ),
        (
            [("cpu", 9.0), ("gpu", 9.0)],
            vec![huge],
            "can carry 900000 queries/s at most, load and slack are 2000000000",
        ),
        (
            [("cpu", 0.0), ("gpu", 0.0)],
            vec![one(20.0, 1)],
            "the resource types together are too little",
        ),
        (
            [("cpu", 2.0), ("gpu", 1.0)],
            vec![one(200.0, 1)],
            "the resource types together are too little",
        ),
        (
            [("cpu", 9.0), ("gpu", 3.0)],
            vec![both],
            "gpu: load and slack take 4 units at the least, resnet alone 4, there are 3",
        ),
    ] {
        let Outcome::Infeasible { why, best_effort } = solved(&problem(&available, architectures))
        else {
            panic!("feasible? {expected}")
        };
        assert!(why.contains(expected), "'{why}' is not '{expected}'");
        assert!(best_effort.is_some());
    }
    // Two architectures, for each of which alone the resources suffice.
    let cpu = |name: &str| {
        let variants = vec![variant("v", "cpu", (1.0, 10.0, 0.0, 3))];
        architecture(name, 25.0, variants)
    };
    let Outcome::Infeasible { why, best_effort } =
        solved(&problem(&[("cpu", 5.0)], vec![cpu("a"), cpu("b")]))
    else {
        panic!("feasible?")
    };
    assert_eq!(
        why,
        "cpu: load and slack take 6 units at the least, there are 5"
    );
    let effort = best_effort.unwrap();
    let carried: Vec<f64> = effort.architectures.iter().map(|a| a.carried_qps).collect();
    assert_eq!(carried, [30.0, 20.0]);
}

#[test]
fn best_effort_keeps_the_resource_rows() {
    for available in [0.0, 0.5, 1.0, 3.0, 7.0] {
        let problem = problem(
            &[("cpu", available), ("gpu", 1.0)],
            vec![one(300.0, 6), one2()],
        );
        let Outcome::Infeasible { best_effort, .. } = solved(&problem) else {
            panic!("feasible?")
        };
        let used: Vec<f64> = best_effort
            .unwrap()
            .resources
            .iter()
            .map(|r| r.used)
            .collect();
        assert!(used[0] == available.floor() && used[1] == 1.0, "{used:?}");
    }
}

fn one2() -> Architecture {
    Architecture {
        name: "second".to_owned(),
        ..one(100.0, 2)
    }
}

/// Many architectures that share scarce resources: long enough for time to run out.
fn long() -> Problem {
    let mut list = Vec::new();
    for i in 0..40_u32 {
        let variants = (0..8_u32).map(|j| {
            let cost = f64::from(7 + (i * 31 + j * 17) % 13);
            let each = (cost * 10.0 + f64::from((i * 7 + j * 5) % 11), 0.0, 0);
            variant(
                &format!("v{j}"),
                ["cpu", "gpu"][j as usize % 2],
                (cost, each.0, each.1, each.2),
            )
        });
        list.push(architecture(
            &format!("a{i}"),
            f64::from(400 + i * 13),
            variants.collect(),
        ));
    }
    problem(&[("cpu", 90.0), ("gpu", 200.0)], list)
}

#[test]
fn time_limit_holds_and_the_gap_covers_the_optimum() {
    let problem = long();
    let Outcome::Optimal(best) = solved(&problem) else {
        panic!("not optimal")
    };
    let (mut good, mut optimal) = (0, 0);
    for limit in [0, 1, 3, 10, 30, 100, 300, 1000, 2000, 5000, 20_000, 100_000] {
        let readings = Cell::new(0_u64);
        let clock = || {
            readings.set(readings.get() + 1);
            Duration::from_micros(readings.get())
        };
        let outcome = solve(
            &problem,
            &TimeLimit::new(Duration::from_micros(limit), &clock),
        );
        let late = readings.get().saturating_sub(limit);
        assert!(late <= 2 * 40 + 40, "{late} looks after {limit} were over");
        match outcome {
            Outcome::Good { best: plan, gap } => {
                good += 1;
                assert!(plan.objective >= best.objective - 1e-6);
                assert!(
                    plan.objective - gap <= best.objective + 1e-6,
                    "{gap} is no bound"
                );
            }
            Outcome::Optimal(plan) => {
                optimal += 1;
                assert!((plan.objective - best.objective).abs() < 1e-6);
            }
            // The first plan is there before any time has passed.
            outcome @ (Outcome::Infeasible { .. } | Outcome::OutOfTime { .. }) => {
                panic!("{limit}: {outcome:?}")
            }
        }
    }
    assert!(good > 0 && optimal > 0, "{good} {optimal}");
}
