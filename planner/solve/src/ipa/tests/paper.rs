//! The paper's worked numbers, and errors of its published program.

use serde_json::json;

use super::*;
use crate::latency_model::{Cell, Latency, Linear, Table};

/// Table 3: replicas, batch and latency as printed; all of them carry 14 requests/s.
fn table_3(sla_ms: f64, weights: Weights) -> Problem {
    let variant = |name: &str, accuracy_percent, options: &[(u32, u32, f64)]| GivenVariant {
        name: name.to_owned(),
        accuracy_percent,
        replica_cores: 1.0,
        options: options
            .iter()
            .map(|(replicas, batch, latency_ms)| BatchOption {
                batch: *batch,
                replicas: *replicas,
                latency_ms: *latency_ms,
            })
            .collect(),
    };
    let mut yolov5m = variant("YOLOv5m", 64.1, &[(5, 1, 347.0), (5, 8, 1654.0)]);
    yolov5m.replica_cores = 2.0;
    let stage = |name: &str, variants| GivenStage {
        name: name.to_owned(),
        after: None,
        variants,
    };
    let stages = vec![
        stage(
            "A",
            vec![
                variant("YOLOv5n", 45.7, &[(2, 1, 80.0), (2, 8, 481.0)]),
                yolov5m,
            ],
        ),
        stage(
            "B",
            vec![
                variant("ResNet18", 69.75, &[(2, 1, 73.0), (2, 8, 383.0)]),
                variant("ResNet50", 76.13, &[(3, 1, 136.0), (3, 8, 833.0)]),
            ],
        ),
    ];
    Problem::of_options(14.0, sla_ms, weights, Accuracy::Product, stages).unwrap()
}

fn chosen(outcome: &Outcome<Plan>) -> (Vec<(&str, u32)>, f64) {
    let Outcome::Optimal(plan) = outcome else {
        panic!("{outcome:?}")
    };
    let stages = plan.stages.iter().map(|s| (s.variant.as_str(), s.batch));
    (stages.collect(), plan.cores)
}

#[test]
fn table_3_costs_4_cores_at_minimum_and_13_at_maximum_accuracy() {
    let cheap = Weights {
        alpha: 0.0,
        beta: 1.0,
        delta: 1e-6,
    };
    let accurate = Weights {
        alpha: 10.0,
        beta: 1.0,
        delta: 1e-6,
    };
    let a1_b1 = (vec![("YOLOv5n", 1), ("ResNet18", 1)], 4.0);
    let a2_b2 = (vec![("YOLOv5m", 1), ("ResNet50", 1)], 13.0);
    assert_eq!(chosen(&unhurried(&table_3(600.0, cheap))), a1_b1);
    let most = unhurried(&table_3(600.0, accurate));
    assert_eq!(chosen(&most), a2_b2);
    let plan = most.plan().unwrap();
    assert!((plan.accuracy_percent - 64.1 * 0.7613).abs() < 1e-12);
    assert_eq!(plan.latency_ms, 483.0);
    // 483 ms do not fit 450: the slow detector is replaced.
    let tighter = unhurried(&table_3(450.0, accurate));
    assert_eq!(chosen(&tighter).0, [("YOLOv5m", 1), ("ResNet18", 1)]);
    let Outcome::Infeasible { why, best_effort } = unhurried(&table_3(150.0, accurate)) else {
        panic!("feasible?")
    };
    assert_eq!(
        why,
        "the least latency along A → B is 153 ms, above the SLA of 150 ms"
    );
    let effort = best_effort.unwrap();
    assert_eq!((effort.latency_ms, effort.cores), (153.0, 4.0));
    assert!((effort.objective - (10.0 * 45.7 * 0.6975 - 4.0 - 2e-6)).abs() < 1e-9);
}

fn stages(count: usize, batches: &[u32]) -> serde_json::Value {
    let stage = |index: usize| {
        json!({"name": format!("s{index}"), "variants": [
            {"name": "small", "accuracy_percent": 50, "replica_cores": 1,
             "latency": {"model": "linear", "item_ms": 1, "fixed_ms": 20}, "batches": batches},
            {"name": "large", "accuracy_percent": 100, "replica_cores": 1,
             "latency": {"model": "linear", "item_ms": 1, "fixed_ms": 20}, "batches": batches},
        ]})
    };
    json!((0..count).map(stage).collect::<Vec<_>>())
}

#[test]
fn queue_time_counts_all_requests_of_a_batch_but_the_first() {
    // A batch of 8 takes 28 ms and waits (8 − 1)/λ = 70 ms; the published program counts one request.
    let at = |sla_ms: f64| {
        let document = json!({"arrival_rps": 100, "sla_ms": sla_ms,
            "weights": {"alpha": 1, "beta": 1}, "stages": stages(1, &[8])});
        unhurried(&problem(document))
    };
    assert!(matches!(at(98.0), Outcome::Optimal(plan) if plan.stages[0].queue_ms == 70.0));
    assert!(matches!(at(97.9), Outcome::Infeasible { .. }));
}

#[test]
fn fourth_stage_counts_in_the_accuracy() {
    // The published program multiplies three accuracies, so the fourth stage's never pays off.
    let document = json!({"arrival_rps": 10, "sla_ms": 1000,
        "weights": {"alpha": 1, "beta": 1}, "stages": stages(6, &[1])});
    let outcome = unhurried(&problem(document));
    let plan = outcome.plan().unwrap();
    assert!(
        plan.stages.iter().all(|stage| stage.variant == "large"),
        "{plan:?}"
    );
    assert_eq!(plan.accuracy_percent, 100.0);
}

#[test]
fn ranks_are_equal_steps_from_0_to_1() {
    let mut document = json!({"arrival_rps": 10, "sla_ms": 1000, "accuracy": "ranks",
        "weights": {"alpha": 1, "beta": 0, "delta": 0}, "stages": stages(2, &[1])});
    let third = json!({"name": "middle", "accuracy_percent": 99, "replica_cores": 1,
        "latency": {"model": "linear", "item_ms": 1, "fixed_ms": 20}, "batches": [1]});
    document["stages"][0]["variants"] = json!([document["stages"][0]["variants"][0], third]);
    document["stages"][1]["variants"][1] = json!(third);
    document["stages"][1]["variants"][0]["latency"]["fixed_ms"] = json!(5);
    let outcome = unhurried(&problem(document.clone()));
    assert_eq!(outcome.plan().unwrap().accuracy_ranks, Some(2.0));
    // A single variant has the rank 1; the lower of two has 0.
    document["stages"][0]["variants"] = json!([third]);
    document["sla_ms"] = json!(30);
    let outcome = unhurried(&problem(document));
    let plan = outcome.plan().unwrap();
    assert_eq!(
        (plan.stages[1].variant.as_str(), plan.accuracy_ranks),
        ("small", Some(1.0))
    );
}

/// Table 2's latencies of ResNet50, with which one replica carries 7, 17 and 31 requests/s.
#[test]
fn base_allocation_is_the_minimum_that_carries_the_threshold_in_time() {
    let cell = |cores, latency_ms| Cell {
        batch: 1,
        cores,
        latency_ms,
    };
    let points = vec![cell(1.0, 135.0), cell(4.0, 57.0), cell(8.0, 32.0)];
    let measured = Latency::Table(Table::new(points).unwrap());
    let linear = Latency::Linear(Linear {
        item_ms: 10.0,
        fixed_ms: 30.0,
    });
    let at = |latency: &Latency, threshold_rps, sla_ms, batch_max| {
        let input = base::Input {
            latency: latency.clone(),
            threshold_rps,
            sla_ms,
            batch_max,
            cores: vec![8.0, 4.0, 1.0],
        };
        base::allocation(&base::Problem::try_from(input).unwrap())
    };
    for (threshold, sla, cores) in [
        (5.0, 200.0, Some(1.0)),
        (5.0, 75.0, Some(4.0)),
        (10.0, 200.0, Some(4.0)),
        (20.0, 75.0, Some(8.0)),
        (31.25, 32.0, Some(8.0)),
        (32.0, 200.0, None),
        (5.0, 31.0, None),
    ] {
        assert_eq!(at(&measured, threshold, sla, 1), cores, "{threshold} {sla}");
    }
    // The maximum batch, not one request, must keep the SLA.
    assert_eq!(at(&linear, 20.0, 110.0, 8), Some(1.0));
    assert_eq!(at(&linear, 20.0, 109.0, 8), None);
    let input: base::Input = serde_json::from_value(json!({
        "latency": {"model": "linear", "item_ms": 1, "fixed_ms": 1}, "threshold_rps": 5, "sla_ms": 9,
    }))
    .unwrap();
    assert_eq!(
        (input.batch_max, input.cores),
        (8, vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    );
}
