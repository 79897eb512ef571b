//! Refusals of invalid input, by field.

use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    let variant = |name: &str, percent: f64, slope: f64| {
        json!({
            "name": name, "accuracy_percent": percent, "cores": 2, "readiness_s": 5,
            "throughput": {"model": "line", "slope_rps": slope, "intercept_rps": -2.0},
        })
    };
    json!({
        "demand_rps": 60, "budget_cores": 10,
        "weights": {"alpha": 1, "beta": 0.05, "gamma": 0.001},
        "variants": [variant("small", 70.0, 20.0), variant("large", 80.0, 8.0)],
    })
}

fn read(value: &Value) -> Result<Problem, String> {
    let input: Input = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    Problem::try_from(input).map_err(|error| error.to_string())
}

#[test]
fn valid_document_is_a_problem() {
    let problem = read(&good()).unwrap();
    assert_eq!(problem.variants[0].options.len(), 11);
    assert_eq!(problem.capacity(0, 3), 58.0);
    assert_eq!(problem.capacity(1, 0), 0.0);
    let Outcome::Optimal(found) = solved(&problem) else {
        panic!("not optimal")
    };
    // The large one alone, 8·8 − 2: the small one would add cores and lose accuracy.
    assert_eq!((found.cores, found.shares), (vec![0, 8], vec![0.0, 1.0]));
}

#[test]
fn invalid_field_is_refused_by_name() {
    let table: &[(&str, Value, &str)] = &[
        ("/demand_rps", json!(0), "demand_rps: 0 must be above 0"),
        ("/demand_rps", json!(-3), "demand_rps: -3 must be above 0"),
        ("/demand_rps", json!(1e300), "demand_rps: 1"),
        ("/demand_rps", json!("many"), "invalid type: string"),
        ("/headroom", json!(0.5), "headroom: 0.5 must be 1 to 100"),
        (
            "/budget_cores",
            json!(0),
            "budget_cores: 0 must be 1 to 65536 whole cores",
        ),
        ("/budget_cores", json!(-1), "invalid value: integer `-1`"),
        (
            "/weights/beta",
            json!(-0.1),
            "weights.beta: -0.1 must be 0 to",
        ),
        ("/variants", json!([]), "variants: 0 must be 1 to 64"),
        (
            "/variants/1/name",
            json!("small"),
            "variants[1].name: 'small' must be another name",
        ),
        (
            "/variants/1/name",
            json!(""),
            "variants[1].name: '' must be a name",
        ),
        (
            "/variants/0/accuracy_percent",
            json!(101),
            "variants[0].accuracy_percent: 101 must be 0 to 100",
        ),
        (
            "/variants/0/readiness_s",
            json!(-1),
            "variants[0].readiness_s: -1 must be 0 to",
        ),
        (
            "/variants/0/cores_max",
            json!(11),
            "variants[0].cores_max: 11 must be 1 to 10",
        ),
        (
            "/variants/0/cores_min",
            json!(9),
            "variants[].cores_min: 15 must be at most budget_cores (10)",
        ),
        (
            "/variants/0/cores_running",
            json!(0),
            "variants[0].cores_running: 0 must be 1 to 10",
        ),
        (
            "/variants/0/utilisation",
            json!(0),
            "variants[0].utilisation: 0 must be above 0 to 1",
        ),
        (
            "/variants/0/throughput/slope_rps",
            json!(-5),
            "variants[0].throughput",
        ),
        (
            "/latency_max_ms",
            json!(100),
            "variants[0].latency: missing must be given",
        ),
        ("/colour", json!("red"), "unknown field `colour`"),
    ];
    for (pointer, value, message) in table {
        let mut bad = good();
        bad["variants"][1]["cores_min"] = json!(6);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = if parent.is_empty() {
            &mut bad
        } else {
            bad.pointer_mut(parent).unwrap()
        };
        match parent {
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[key] = value.clone(),
        }
        let error = read(&bad).expect_err(pointer);
        assert!(
            error.contains(message),
            "{pointer}: '{error}' is not '{message}'"
        );
    }
}

#[test]
fn nan_and_infinity_are_refused() {
    let input = |demand_rps: f64, beta: f64| {
        let mut input: Input = serde_json::from_value(good()).unwrap();
        (input.demand_rps, input.weights.beta) = (demand_rps, beta);
        Problem::try_from(input).unwrap_err().to_string()
    };
    assert!(input(f64::NAN, 0.1).starts_with("demand_rps: NaN"));
    assert!(input(f64::INFINITY, 0.1).starts_with("demand_rps: inf"));
    assert!(input(1.0, f64::NAN).starts_with("weights.beta: NaN"));
}

#[test]
fn too_few_or_too_slow_cores_have_no_capacity() {
    let mut value = good();
    value["variants"][0]["cores_running"] = json!(3);
    value["latency_max_ms"] = json!(50);
    for index in 0..2 {
        value["variants"][index]["latency"] = json!({"model": "sponge", "gamma_ms": 200.0, "epsilon_ms": 0.0, "delta_ms": 0.0, "eta_ms": 0.0});
    }
    let problem = read(&value).unwrap();
    let cores: Vec<u32> = problem.variants[0]
        .options
        .iter()
        .map(|option| option.cores)
        .collect();
    assert_eq!(cores, [0, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(
        (problem.capacity(0, 3), problem.capacity(0, 4)),
        (0.0, 78.0)
    );
}
