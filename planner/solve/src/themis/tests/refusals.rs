//! Refusals of invalid input and of invalid plans.

use super::*;
use crate::Check;

fn good() -> Input {
    let stages =
        ["detect", "classify"].map(|name| stage(name, amdahl(2.0, 10.0), (1, 1), (4, 4, 4)));
    Input {
        load_rps: 80.0,
        lasting: false,
        slo_ms: 100.0,
        budget_cores: 8,
        horizontal_cores: 1,
        stages: stages.to_vec(),
    }
}

#[test]
fn invalid_input_is_refused_by_name() {
    type Change = fn(&mut Input);
    let table: &[(Change, &str)] = &[
        (
            |i| i.load_rps = 0.0,
            "load_rps: 0 must be above 0 and at most 1000000000 requests/s",
        ),
        (|i| i.load_rps = f64::NAN, "load_rps: NaN must be"),
        (|i| i.load_rps = -1.0, "load_rps: -1 must be"),
        (|i| i.slo_ms = f64::INFINITY, "slo_ms: inf must be"),
        (|i| i.slo_ms = 0.0, "slo_ms: 0 must be"),
        (
            |i| i.budget_cores = 0,
            "budget_cores: 0 must be 1 to 10000000",
        ),
        (
            |i| i.horizontal_cores = 0,
            "horizontal_cores: 0 must be 1 to 256",
        ),
        (
            |i| i.horizontal_cores = 5,
            "stages[0].cores_max: 4 must be at least the 5 of horizontal_cores",
        ),
        (|i| i.stages.clear(), "stages: 0 must be 1 to 32"),
        (
            |i| i.stages = vec![i.stages[0].clone(); 33],
            "stages: 33 must be 1 to 32",
        ),
        (
            |i| i.stages[1].name = "detect".to_owned(),
            "stages[1].name: 'detect' must be another name",
        ),
        (
            |i| i.stages[1].name.clear(),
            "stages[1].name: '' must be a name",
        ),
        (
            |i| i.stages[1].cores_max = 0,
            "stages[1].cores_max: 0 must be 1 to 256",
        ),
        (
            |i| i.stages[1].cores_max = 257,
            "stages[1].cores_max: 257 must be",
        ),
        (
            |i| i.stages[0].batch_max = 0,
            "stages[0].batch_max: 0 must be 1 to 256",
        ),
        (
            |i| i.stages[1].wait_ms = Some(-1.0),
            "stages[1].wait_ms: -1 must be 0 to",
        ),
        (
            |i| i.stages[0].instances_max = 10_001,
            "stages[0].instances_max: 10001 must be 1 to 10000",
        ),
        (
            |i| i.stages[0].running.instances = 5,
            "stages[0].running.instances: 5 must be 0 to 4",
        ),
        (
            |i| i.stages[0].running.cores = 0,
            "stages[0].running.cores: 0 must be 1 to 4",
        ),
        (
            |i| i.stages[1].latency = amdahl(-1.0, 1.0),
            "stages[1].latency.serial_ms: -1 must be",
        ),
        (
            |i| {
                i.stages[1].latency = Latency::Quadratic(Quadratic {
                    square_ms: 1.0,
                    item_ms: -4.0,
                    fixed_ms: 3.5,
                });
            },
            "stages[1].latency: -0.5 ms must be above 0 for each batch up to 4: it is not for 2",
        ),
    ];
    assert!(Problem::try_from(good()).is_ok());
    for (change, message) in table {
        let mut input = good();
        change(&mut input);
        let error = Problem::try_from(input).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
}

#[test]
fn document_has_defaults_and_refuses_unknown_fields() {
    let text = r#"{"load_rps": 100, "slo_ms": 200, "budget_cores": 16, "stages": [
        {"name": "detect", "latency": {"model": "amdahl", "serial_ms": 2, "parallel_ms": 20},
         "running": {"instances": 2}, "cores_max": 8, "batch_max": 4, "instances_max": 8}]}"#;
    let input: Input = serde_json::from_str(text).unwrap();
    assert_eq!(
        (
            input.lasting,
            input.horizontal_cores,
            input.stages[0].running.cores
        ),
        (false, 1, 1)
    );
    let again: Input = serde_json::from_str(&serde_json::to_string(&input).unwrap()).unwrap();
    assert_eq!(again, input);
    let plan = at_leisure(&Problem::try_from(input).unwrap());
    let plan = serde_json::to_string_pretty(plan.plan().unwrap()).unwrap();
    println!("{plan}");
    assert!(plan.contains(r#""phase": "vertical""#), "{plan}");
    for (from, to) in [
        ("load_rps", "load"),
        ("cores_max", "cores"),
        ("instances\": 2", "n\": 2"),
    ] {
        assert!(
            serde_json::from_str::<Input>(&text.replace(from, to)).is_err(),
            "{to}"
        );
    }
    assert!(serde_json::from_str::<Input>(&text.replace("100", "1e999")).is_err());
}

#[test]
fn check_refuses_every_broken_plan() {
    let problem = Problem::try_from(good()).unwrap();
    let Outcome::Optimal(plan) = at_leisure(&problem) else {
        panic!("not solved")
    };
    assert_eq!(problem.check(&plan), Ok(()));
    type Break = fn(&mut Plan);
    let table: &[(Break, &str)] = &[
        (
            |p| p.phase = Phase::Horizontal,
            "Horizontal, and the load is not known to last",
        ),
        (|p| p.vertical = None, "Vertical without settings"),
        (
            |p| drop(p.vertical.as_mut().unwrap().stages.pop()),
            "1 settings for 2 stages",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].name = "x".into(),
            "a setting of 'x'",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].batch = 0,
            "detect: a batch of 0",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].batch = 5,
            "detect: a batch of 5",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].instances = 2,
            "detect: 2 instances where 1 run",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].cores = 5,
            "detect: 5 cores for an instance",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].cores = 2,
            "detect: latency_ms is given as",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].throughput_rps = 1e3,
            "detect: throughput_rps is given",
        ),
        (
            |p| p.vertical.as_mut().unwrap().stages[0].wait_ms = f64::NAN,
            "detect: wait_ms is given as NaN",
        ),
        (
            |p| p.vertical.as_mut().unwrap().cores = 1,
            "1 cores given, 2 in use",
        ),
        (
            |p| p.vertical.as_mut().unwrap().latency_ms = 1.0,
            "the latency is given as 1",
        ),
        (
            |p| p.horizontal.as_mut().unwrap().stages[1].cores = 2,
            "classify: 2 cores for an instance, not 1",
        ),
        (
            |p| p.horizontal.as_mut().unwrap().stages[1].instances = 5,
            "classify: 5 instances",
        ),
        (|p| p.handover = None, "a hand-over without a target"),
        (
            |p| p.handover.as_mut().unwrap().simultaneous_cores = 9,
            "a hand-over of (9,",
        ),
    ];
    for (breaks, message) in table {
        let mut broken = plan.clone();
        breaks(&mut broken);
        let error = problem.check(&broken).unwrap_err();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
    type Change = fn(&mut Input);
    let tighter: &[(Change, &str)] = &[
        (|i| i.budget_cores = 1, "2 cores exceed the budget of 1"),
        (|i| i.slo_ms = 23.0, "24 ms exceed the SLO of 23 ms"),
        (|i| i.load_rps = 84.0, "detect: 83.3"),
    ];
    for (change, message) in tighter {
        let mut input = good();
        change(&mut input);
        let error = Problem::try_from(input).unwrap().check(&plan).unwrap_err();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
}
