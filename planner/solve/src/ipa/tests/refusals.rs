//! Refusals by the field's path, and inputs whose result is an outcome instead.

use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    let variant = |name: &str, accuracy: f64, ms: f64| {
        json!({"name": name, "accuracy_percent": accuracy, "replica_cores": 1,
               "latency": {"model": "linear", "item_ms": ms, "fixed_ms": ms}})
    };
    let stage = |name: &str| json!({"name": name, "variants": [variant("v", 70.0, 5.0), variant("w", 80.0, 9.0)]});
    json!({"arrival_rps": 20, "sla_ms": 200, "stages": [stage("a"), stage("b"), stage("c")]})
}

/// `good()` with other values at some pointers.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut document = good();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    document
}

fn refusal(input: Input) -> String {
    Problem::try_from(input).unwrap_err().to_string()
}

fn refused(table: &[(&str, Value, &str)]) {
    for (pointer, value, message) in table {
        let document = with(&[(pointer, value.clone())]);
        let error = refusal(serde_json::from_value(document).unwrap());
        assert!(error.contains(message), "'{error}' is not '{message}'");
    }
}

#[test]
fn invalid_pipeline_is_refused_by_field() {
    assert!(Problem::try_from(serde_json::from_value::<Input>(good()).unwrap()).is_ok());
    let many = json!(vec![good()["stages"][0].clone(); 65]);
    refused(&[
        ("/arrival_rps", json!(0), "arrival_rps: 0 must be above 0"),
        ("/arrival_rps", json!(-3), "arrival_rps: -3 must be above 0"),
        ("/sla_ms", json!(0), "sla_ms: 0 must be above 0"),
        ("/sla_ms", json!(1e12), "sla_ms: 1000000000000 must be"),
        (
            "/weights",
            json!({"alpha": -1}),
            "weights.alpha: -1 must be 0 to",
        ),
        ("/weights", json!({"beta": 1e99}), "weights.beta: 1"),
        (
            "/weights",
            json!({"delta": -0.5}),
            "weights.delta: -0.5 must be",
        ),
        ("/stages", json!([]), "stages: 0 items must be 1 to 64"),
        ("/stages", many, "stages: 65 items must be"),
        (
            "/stages/2/name",
            json!("a"),
            "stages[2].name: 'a' must be another name",
        ),
        (
            "/stages/2/name",
            json!(""),
            "stages[2].name: '' must be a name",
        ),
        (
            "/stages/1/variants",
            json!([]),
            "stages[1].variants: 0 items",
        ),
    ]);
}

#[test]
fn invalid_variant_is_refused_by_field() {
    let at = |field: &str, value: Value, message: &str| {
        refused(&[(&format!("/stages/1/variants/0/{field}"), value, message)]);
    };
    let model = |model: &str, item: f64, fixed: f64| {
        let mut model = json!({"model": model, "item_ms": item, "fixed_ms": fixed});
        if model["model"] == "quadratic" {
            model["square_ms"] = json!(1);
        }
        model
    };
    const V: &str = "stages[1].variants[0]";
    at(
        "name",
        json!("w"),
        "stages[1].variants[1].name: 'w' must be another",
    );
    let of = |field: &str, complaint: &str| format!("{V}.{field}: {complaint}");
    let accuracy = of("accuracy_percent", "0 must be 0.01 to 100");
    at("accuracy_percent", json!(0), &accuracy);
    let accuracy = of("accuracy_percent", "100.5 must be");
    at("accuracy_percent", json!(100.5), &accuracy);
    at("replica_cores", json!(0), &of("replica_cores", "0 must be"));
    at(
        "replica_cores",
        json!(-2),
        &of("replica_cores", "-2 must be"),
    );
    at("batches", json!(0), &of("batches", "0 must be 1 to 256"));
    at("batches", json!([]), &of("batches", "0 items must be"));
    at("wait_ms", json!(-1), &of("wait_ms", "-1 must be 0 to"));
    at(
        "batches",
        json!([1, 999]),
        "batches[1]: 999 must be 1 to 256",
    );
    at(
        "batches",
        json!([1, 2, 1]),
        "batches[2]: 1 must be another batch",
    );
    at("replicas_max", json!(0), &of("replicas_max", "0 must be"));
    at(
        "latency",
        model("linear", -1.0, 0.0),
        "latency.item_ms: -1 must be",
    );
    let dips = of(
        "latency",
        "-1 ms must be above 0 for every batch it may run, such as 3",
    );
    at("latency", model("quadratic", -8.0, 14.0), &dips);
}

#[test]
fn invalid_graph_is_refused_by_field() {
    let one = "stages[1].after: [] must be the name of a stage: stages[0] comes after none";
    refused(&[
        (
            "/stages/1/after",
            json!(["x"]),
            "stages[1].after[0]: 'x' must be the name of a stage",
        ),
        (
            "/stages/1/after",
            json!(["b"]),
            "stages[1].after[0]: 'b' must be another stage",
        ),
        (
            "/stages/1/after",
            json!(["a", "a"]),
            "stages[1].after[1]: 'a' must be another name",
        ),
        ("/stages/1/after", json!([]), one),
        (
            "/stages/1/after",
            json!(["c"]),
            "stages[1].after: a cycle must be without one",
        ),
        (
            "/stages/0/after",
            json!(["c"]),
            "stages: a cycle must be the one entry",
        ),
    ]);
}

#[test]
fn nan_and_infinity_are_refused() {
    let input = || serde_json::from_value::<Input>(good()).unwrap();
    type Break = fn(&mut Input, f64);
    let table: &[(Break, &str)] = &[
        (|i, x| i.arrival_rps = x, "arrival_rps: "),
        (|i, x| i.sla_ms = x, "sla_ms: "),
        (|i, x| i.weights.alpha = x, "weights.alpha: "),
        (|i, x| i.weights.beta = x, "weights.beta: "),
        (|i, x| i.weights.delta = x, "weights.delta: "),
        (
            |i, x| i.stages[2].variants[1].accuracy_percent = x,
            "stages[2].variants[1].accuracy_percent: ",
        ),
        (
            |i, x| i.stages[2].variants[1].replica_cores = x,
            "stages[2].variants[1].replica_cores: ",
        ),
    ];
    for (breaks, field) in table {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut input = input();
            breaks(&mut input, value);
            let error = refusal(input);
            assert!(
                error.starts_with(&format!("{field}{value}")),
                "'{error}' is not of {field}{value}"
            );
        }
    }
}

#[test]
fn too_many_paths_are_refused_before_enumeration() {
    // 30 pairs of stages, each after both of the pair before: 2^30 paths.
    let variants = good()["stages"][0]["variants"].clone();
    let pairs = |count: usize| {
        let mut stages = vec![json!({"name": "entry", "after": [], "variants": variants})];
        for pair in 0..count {
            let after = match pair {
                0 => vec!["entry".to_owned()],
                _ => vec![format!("l{}", pair - 1), format!("r{}", pair - 1)],
            };
            for side in ["l", "r"] {
                stages.push(
                    json!({"name": format!("{side}{pair}"), "after": after, "variants": variants}),
                );
            }
        }
        serde_json::from_value::<Input>(with(&[("/stages", json!(stages))])).unwrap()
    };
    assert!(
        refusal(pairs(30)).starts_with("stages: 1073741824 paths must be stages with at most 64")
    );
    assert!(refusal(pairs(7)).starts_with("stages: 128 paths"));
    assert!(Problem::try_from(pairs(6)).is_ok());
}

#[test]
fn too_many_choices_are_refused() {
    let sized = |batches: u32| {
        let mut stage = good()["stages"][0].clone();
        let variant = stage["variants"][0].clone();
        let variants = (0..64).map(|v| {
            let mut variant = variant.clone();
            variant["name"] = json!(format!("v{v}"));
            variant["batches"] = json!(batches);
            variant
        });
        stage["variants"] = json!(variants.collect::<Vec<_>>());
        let stages = (0..64).map(|s| {
            let mut stage = stage.clone();
            stage["name"] = json!(format!("s{s}"));
            stage
        });
        let stages = stages.collect::<Vec<_>>();
        serde_json::from_value::<Input>(with(&[("/stages", json!(stages))])).unwrap()
    };
    assert!(Problem::try_from(sized(32)).is_ok());
    let error = refusal(sized(33));
    assert_eq!(
        error,
        "stages: 135168 must be stages with at most 131072 variants in batches"
    );
}

#[test]
fn unknown_fields_are_refused_and_input_round_trips() {
    for pointer in ["/rate", "/stages/0/rate", "/stages/0/variants/0/rate"] {
        assert!(serde_json::from_value::<Input>(with(&[(pointer, json!(1))])).is_err());
    }
    let input: Input = serde_json::from_value(good()).unwrap();
    let again = serde_json::from_value(serde_json::to_value(&input).unwrap()).unwrap();
    assert_eq!(input, again);
    let defaults = (input.weights, input.accuracy, &input.stages[0].variants[0]);
    assert_eq!(
        (defaults.0.alpha, defaults.0.beta, defaults.0.delta),
        (2.0, 1.0, 1e-6)
    );
    assert_eq!(
        (defaults.1, defaults.2.replicas_max),
        (Accuracy::Product, 100)
    );
    assert_eq!(defaults.2.batches, Batches::UpTo(8));
}

#[test]
fn options_and_base_allocations_are_checked() {
    let options = |batch, replicas, latency_ms| {
        let variant = GivenVariant {
            name: "v".to_owned(),
            accuracy_percent: 50.0,
            replica_cores: 1.0,
            options: vec![BatchOption {
                batch,
                replicas,
                latency_ms,
            }],
        };
        let stage = GivenStage {
            name: "a".to_owned(),
            after: None,
            variants: vec![variant],
        };
        Problem::of_options(
            1.0,
            50.0,
            Weights::default(),
            Accuracy::Product,
            vec![stage],
        )
    };
    assert!(options(1, 1, 5.0).is_ok());
    for (made, message) in [
        (
            options(0, 1, 5.0),
            "stages[0].variants[0].options[0].batch: 0 must be",
        ),
        (
            options(1, 0, 5.0),
            "stages[0].variants[0].options[0].replicas: 0 must be",
        ),
        (
            options(1, 1, f64::NAN),
            "stages[0].variants[0].options[0].latency_ms: NaN must be",
        ),
    ] {
        let error = made.unwrap_err().to_string();
        assert!(error.contains(message), "'{error}' is not '{message}'");
    }
    let base = |field: &str, value: Value| {
        let mut document = json!({"latency": {"model": "linear", "item_ms": 1, "fixed_ms": 1},
            "threshold_rps": 5, "sla_ms": 9});
        document[field] = value;
        base::Problem::try_from(serde_json::from_value::<base::Input>(document).unwrap())
    };
    for (made, message) in [
        (base("threshold_rps", json!(0)), "threshold_rps: 0 must be"),
        (base("sla_ms", json!(-1)), "sla_ms: -1 must be"),
        (base("batch_max", json!(0)), "batch_max: 0 must be"),
        (base("cores", json!([])), "cores: 0 items must be"),
        (base("cores", json!([1, 0])), "cores[1]: 0 must be"),
    ] {
        let error = made.unwrap_err().to_string();
        assert!(error.contains(message), "'{error}' is not '{message}'");
    }
}

#[test]
fn infeasible_problem_is_an_outcome() {
    let Outcome::Infeasible {
        why,
        best_effort: None,
    } = unhurried(&problem(with(&[("/arrival_rps", json!(1e6))])))
    else {
        panic!("feasible?")
    };
    // 100 replicas with batches of 8 in 45 ms.
    assert!(
        why.starts_with("an arrival of 1000000 requests/s exceeds the 17777.7"),
        "{why}"
    );
    assert!(why.contains("stage 'a'"), "{why}");
    let late = with(&[
        ("/sla_ms", json!(25)),
        ("/stages/2/after", json!(["a"])),
        ("/stages/2/name", json!("late")),
        ("/stages/2/variants/0/latency/fixed_ms", json!(15)),
        ("/stages/2/variants/1/latency/fixed_ms", json!(15)),
    ]);
    let Outcome::Infeasible {
        why,
        best_effort: Some(plan),
    } = unhurried(&problem(late))
    else {
        panic!("feasible?")
    };
    assert_eq!(
        why,
        "the least latency along a → late is 30 ms, above the SLA of 25 ms"
    );
    // The branch that is not late has time: 20 ms suffice for its better variant, but not for fewer
    // cores.
    assert_eq!((plan.latency_ms, plan.cores), (30.0, 3.0));
}
