//! Refusals of invalid input, and of plans that break a rule.

use super::*;
use crate::{Check, Solver};

fn input() -> Input {
    let variants = vec![
        variant("cpu", "cpu", (1.0, 10.0, 2.0, 1)),
        variant("gpu", "gpu", (5.0, 80.0, 10.0, 0)),
    ];
    Input {
        resources: vec![resource("cpu", 4.0), resource("gpu", 1.0)],
        architectures: vec![architecture("resnet", 40.0, variants)],
        loading_weight_per_s: 0.1,
        gap: 0.0,
    }
}

#[test]
fn invalid_input_is_refused_by_name() {
    type Spoil = fn(&mut Input);
    let table: &[(Spoil, &str)] = &[
        (
            |i| i.resources.clear(),
            "resources: 0 must be 1 to 8 resource types",
        ),
        (
            |i| i.resources = vec![i.resources[0].clone(); 9],
            "resources: 9 must be 1 to 8",
        ),
        (
            |i| i.resources[1].name = "cpu".into(),
            "resources[1].name: 'cpu' must be another name",
        ),
        (
            |i| i.resources[0].available = -1.0,
            "resources[0].available: -1 must be 0 to",
        ),
        (
            |i| i.resources[0].available = f64::NAN,
            "resources[0].available: NaN must be",
        ),
        (
            |i| i.resources[0].available = f64::INFINITY,
            "resources[0].available: inf must be",
        ),
        (
            |i| i.loading_weight_per_s = -0.1,
            "loading_weight_per_s: -0.1 must be",
        ),
        (
            |i| i.loading_weight_per_s = f64::NAN,
            "loading_weight_per_s: NaN must be",
        ),
        (|i| i.gap = 1.5, "gap: 1.5 must be 0 to 1"),
        (
            |i| i.architectures.clear(),
            "architectures: 0 must be 1 to 256",
        ),
        (
            |i| i.architectures.push(i.architectures[0].clone()),
            "architectures[1].name: 'resnet' must be another name",
        ),
        (
            |i| i.architectures[0].name.clear(),
            "architectures[0].name: '' must be a name",
        ),
        (
            |i| i.architectures[0].load_qps = -4.0,
            "architectures[0].load_qps: -4 must be",
        ),
        (
            |i| i.architectures[0].load_qps = f64::INFINITY,
            "architectures[0].load_qps: inf",
        ),
        (
            |i| i.architectures[0].slack_qps = f64::NAN,
            "architectures[0].slack_qps: NaN",
        ),
        (
            |i| i.architectures[0].slo_ms = Some(0.0),
            "architectures[0].slo_ms: 0 must be above 0",
        ),
        (
            |i| i.architectures[0].variants.clear(),
            "architectures[0].variants: 0 must be 1 to 32",
        ),
        (
            |i| i.architectures[0].variants[1].name = "cpu".into(),
            "architectures[0].variants[1].name: 'cpu' must be another name",
        ),
        (
            |i| i.architectures[0].variants[1].resource = "tpu".into(),
            "architectures[0].variants[1].resource: 'tpu' must be the name of one of the resources",
        ),
        (
            |i| i.architectures[0].variants[1].takes = Some([("tpu".to_owned(), 1.0)].into()),
            "architectures[0].variants[1].takes.tpu: 'tpu' must be the name of one of",
        ),
        (
            |i| i.architectures[0].variants[1].takes = Some([("gpu".to_owned(), -1.0)].into()),
            "architectures[0].variants[1].takes.gpu: -1 must be 0 to",
        ),
        (
            |i| i.architectures[0].variants[0].cost = -1.0,
            "variants[0].cost: -1 must be 0 to",
        ),
        (
            |i| i.architectures[0].variants[0].cost = f64::NAN,
            "variants[0].cost: NaN must be",
        ),
        (
            |i| i.architectures[0].variants[0].sustains_qps = 0.0,
            "sustains_qps: 0 must be above 0",
        ),
        (
            |i| i.architectures[0].variants[0].latency_ms = -1.0,
            "latency_ms: -1 must be",
        ),
        (
            |i| i.architectures[0].variants[0].accuracy_percent = Some(101.0),
            "accuracy_percent: 101 must be 0 to 100",
        ),
        (
            |i| i.architectures[0].variants[0].loading_s = f64::INFINITY,
            "loading_s: inf must be",
        ),
        (
            |i| i.architectures[0].variants[0].replicas = 10_001,
            "replicas: 10001 must be 0 to 10000",
        ),
    ];
    for (spoil, message) in table {
        let mut input = input();
        spoil(&mut input);
        let error = Problem::try_from(input).unwrap_err().to_string();
        assert!(error.contains(message), "'{error}' is not '{message}'");
    }
}

#[test]
fn check_refuses_plan_that_breaks_a_rule() {
    let problem = Problem::try_from(input()).unwrap();
    let Outcome::Optimal(good) = solved(&problem) else {
        panic!("not optimal")
    };
    assert_eq!(problem.check(&good), Ok(()));
    type Spoil = fn(&mut Plan);
    let table: &[(Spoil, &str)] = &[
        (|p| p.architectures.clear(), "0 architectures of 1"),
        (
            |p| p.architectures[0].variants.truncate(1),
            "1 variants of 2",
        ),
        (
            |p| p.architectures[0].variants[0].change = -2,
            "1 replicas and -2 make 4",
        ),
        (
            |p| p.architectures[0].variants[0].replicas = 3,
            "1 replicas and +3 make 3",
        ),
        (|p| p.objective += 0.1, "an objective of 3.7 is 3.6"),
        (
            |p| *p = Problem::try_from(input()).unwrap().plan(&[vec![3, 0]]),
            "resnet: 30 queries/s are carried of 40",
        ),
        (
            |p| *p = Problem::try_from(input()).unwrap().plan(&[vec![5, 0]]),
            "cpu: 5 units are used of 4",
        ),
        (
            |p| *p = Problem::try_from(input()).unwrap().plan(&[vec![0, 2]]),
            "gpu: 2 units are used of 1",
        ),
    ];
    for (spoil, message) in table {
        let mut plan = good.clone();
        spoil(&mut plan);
        let error = problem.check(&plan).unwrap_err();
        assert!(error.contains(message), "'{error}' is not '{message}'");
    }
}

#[test]
fn document_has_defaults_and_refuses_unknown_fields() {
    let document = r#"{
        "resources": [{ "name": "cpu", "available": 4 }],
        "architectures": [{
            "name": "resnet", "load_qps": 40,
            "variants": [{ "name": "v", "resource": "cpu", "cost": 1, "sustains_qps": 10, "latency_ms": 9 }]
        }]
    }"#;
    let input: Input = serde_json::from_str(document).unwrap();
    let outcome = solved(&Problem::try_from(input).unwrap());
    assert_eq!(outcome.plan().unwrap().objective, 4.0);
    let spoilt = document.replace("\"load_qps\"", "\"load\": 1, \"load_qps\"");
    let error = serde_json::from_str::<Input>(&spoilt)
        .unwrap_err()
        .to_string();
    assert!(error.contains("unknown field `load`"), "{error}");
}

#[test]
fn microlp_gives_the_same_outcome() {
    let clock = || Duration::ZERO;
    let time_limit = TimeLimit::new(Duration::from_secs(10), &clock);
    let problem = Problem::try_from(input()).unwrap();
    let Outcome::Optimal(plan) = ilp::solve_with(&problem, Solver::Microlp, &time_limit) else {
        panic!("not optimal")
    };
    assert!((plan.objective - 3.6).abs() < 1e-9, "{}", plan.objective);
    let mut input = input();
    input.architectures[0].load_qps = 200.0;
    let problem = Problem::try_from(input).unwrap();
    let outcome = ilp::solve_with(&problem, Solver::Microlp, &time_limit);
    assert!(matches!(
        outcome,
        Outcome::Infeasible {
            best_effort: Some(_),
            ..
        }
    ));
}
