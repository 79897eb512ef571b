//! Refusals of invalid input, by field.

use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    json!({
        "latency": {"model": "sponge", "gamma_ms": 40.0, "epsilon_ms": 8.0, "delta_ms": 2.0, "eta_ms": 5.0},
        "cores": 16, "batches": 16, "rate_rps": 20,
        "waiting": [{"slo_ms": 1000, "network_ms": 300, "waited_ms": 20}],
        "arriving": {"slo_ms": 1000, "network_ms": [100, 400], "percentile": 95},
    })
}

#[test]
fn invalid_field_is_refused_by_name() {
    assert!(matches!(
        solved(&read(good()).unwrap()),
        Outcome::Optimal(_)
    ));
    let table: &[(&str, Value, &str)] = &[
        (
            "/latency/gamma_ms",
            json!(-1),
            "latency.gamma_ms: -1 must be 0 to",
        ),
        ("/latency/model", json!("moore"), "unknown variant `moore`"),
        (
            "/latency",
            json!({"model": "quadratic", "square_ms": 0, "item_ms": -1, "fixed_ms": 3}),
            "latency: 0 ms for a batch of 3 on",
        ),
        ("/cores", json!(0), "cores: 0 must be 1 to 1024"),
        ("/cores", json!([]), "cores: [] must be a list of 1 to 1024"),
        ("/cores", json!([2, 0]), "cores[1]: 0 must be 1 to 1024"),
        ("/batches", json!(2000), "batches: 2000 must be 1 to 1024"),
        ("/batches", json!(-1), "did not match any variant"),
        ("/delta", json!(-0.1), "delta: -0.1 must be 0 to"),
        (
            "/rate_rps",
            json!(0),
            "rate_rps: 0 must be above 0 where there is `arriving`",
        ),
        ("/rate_rps", json!(-1), "rate_rps: -1 must be 0 to"),
        (
            "/waiting/0/slo_ms",
            json!(0),
            "waiting[0].slo_ms: 0 must be above 0",
        ),
        (
            "/waiting/0/network_ms",
            json!(-5),
            "waiting[0].network_ms: -5",
        ),
        (
            "/waiting/0/waited_ms",
            json!(-5),
            "waiting[0].waited_ms: -5",
        ),
        (
            "/arriving/slo_ms",
            json!(-1),
            "arriving.slo_ms: -1 must be above 0",
        ),
        (
            "/arriving/network_ms",
            json!([]),
            "arriving.network_ms: 0 must be 1 to",
        ),
        (
            "/arriving/network_ms",
            json!([1, -1]),
            "arriving.network_ms[1]: -1",
        ),
        (
            "/arriving/percentile",
            json!(101),
            "arriving.percentile: 101 must be 0 to 100",
        ),
        ("/colour", json!("red"), "unknown field `colour`"),
    ];
    for (pointer, value, message) in table {
        let mut bad = good();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match bad.pointer_mut(parent).unwrap_or(&mut Value::Null) {
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[key] = value.clone(),
        }
        let error = read(bad).expect_err(pointer);
        assert!(
            error.contains(message),
            "{pointer}: '{error}' is not '{message}'"
        );
    }
    let nothing = json!({"latency": good()["latency"], "cores": 2, "batches": 2});
    let error = read(nothing).unwrap_err();
    assert!(
        error.contains("rate_rps: 0 must be above 0 where no request waits"),
        "{error}"
    );
}

#[test]
fn nan_and_infinity_are_refused() {
    for value in [f64::NAN, f64::INFINITY, -f64::INFINITY] {
        let mut input: Input = serde_json::from_value(good()).unwrap();
        input.waiting[0].slo_ms = value;
        let error = Problem::try_from(input).unwrap_err().to_string();
        assert!(error.starts_with("waiting[0].slo_ms: "), "{error}");
    }
}

#[test]
fn slo_below_minimum_latency_is_infeasible() {
    let mut tight = good();
    tight["arriving"]["slo_ms"] = json!(409);
    let Outcome::Infeasible { why, .. } = solved(&read(tight).unwrap()) else {
        panic!("9 ms suffice?")
    };
    assert!(why.contains("within the 9.0 ms there are"), "{why}");
    let mut much = good();
    much["rate_rps"] = json!(100_000);
    let Outcome::Infeasible { why, best_effort } = solved(&read(much).unwrap()) else {
        panic!("carried?")
    };
    assert!(
        why.contains("a rate of 100000.0 requests/s exceeds"),
        "{why}"
    );
    assert!(best_effort.is_some());
}
