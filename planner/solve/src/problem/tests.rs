//! Reading of documents and form of answers.

use std::time::Duration;

use serde_json::json;

use super::*;

fn sponge() -> Value {
    json!({
        "formulation": "sponge", "cores": 4, "batches": 4, "rate_rps": 20,
        "latency": {"model": "linear", "item_ms": 10.0, "fixed_ms": 5.0},
    })
}

#[test]
fn formulation_comes_from_document_or_argument() {
    let mut bare = sponge();
    bare.as_object_mut().unwrap().remove("formulation");
    let requested = Some(Formulation::Sponge);
    for (document, requested, message) in [
        (sponge(), None, None),
        (sponge(), requested, None),
        (bare.clone(), requested, None),
        (
            bare.clone(),
            None,
            Some("formulation: missing must be one of infadapter, sponge"),
        ),
        (
            sponge(),
            Some(Formulation::Ipa),
            Some("formulation: sponge must be ipa, which is requested"),
        ),
        (
            json!({"formulation": "gurobi"}),
            None,
            Some("formulation: 'gurobi' must be one of"),
        ),
        (
            json!({"formulation": 3}),
            None,
            Some("formulation: a number must be one of"),
        ),
        (
            json!([1]),
            None,
            Some("the document: a list must be an object"),
        ),
        (
            bare,
            Some(Formulation::Infadapter),
            Some("batches: unknown field `batches`, expected one of `demand_rps`"),
        ),
    ] {
        let read = Problem::read(document, requested).map_err(|error| error.to_string());
        match (read, message) {
            (Ok(problem), None) => assert_eq!(problem.formulation(), Formulation::Sponge),
            (Err(error), Some(message)) => {
                assert!(error.contains(message), "'{error}' is not '{message}'")
            }
            (read, message) => panic!("{read:?}, {message:?}"),
        }
    }
}

#[test]
fn misfit_is_refused_with_its_path() {
    let mut document = sponge();
    document["waiting"] = json!([{"slo_ms": 5}, {"slo_ms": "soon"}]);
    let error = Problem::read(document, None).unwrap_err();
    assert_eq!(error.field, "waiting[1].slo_ms");
    assert_eq!(
        error.to_string(),
        "waiting[1].slo_ms: \"soon\" must be a number"
    );
}

#[test]
fn misfit_in_a_model_is_refused_with_its_own_path() {
    let points = |second| json!({"model": "table", "points": [{"batch": 1, "cores": 1, "latency_ms": 5}, second]});
    for (latency, message) in [
        (
            json!({"model": "linear", "item_ms": "x", "fixed_ms": 5}),
            "latency.item_ms: \"x\" must be a number",
        ),
        (
            json!({"model": "sponge", "gamma_ms": [], "epsilon_ms": 0, "delta_ms": 0, "eta_ms": 0}),
            "latency.gamma_ms: sequence must be a number",
        ),
        (
            json!({"model": "linear", "item_ms": null, "fixed_ms": 5}),
            "latency: missing field `item_ms`",
        ),
        (
            json!({"model": "linear", "item_ms": 1, "fixed_ms": 5, "serial_ms": 3}),
            "latency: unknown field `serial_ms`: it is another model's",
        ),
        (
            json!({"model": "linear", "item_ms": 1, "fixed_ms": 5, "colour": 3}),
            "latency.colour: unknown field `colour`, expected one of `model`",
        ),
        (
            json!({"model": "moore", "item_ms": 1}),
            "latency.model: unknown variant `moore`, expected one of `sponge`",
        ),
        (
            json!({"item_ms": 1, "fixed_ms": 5}),
            "latency: missing field `model`",
        ),
        (json!("linear"), "latency: invalid type: string \"linear\""),
        (
            points(json!({"batch": 2.5, "cores": 1, "latency_ms": 5})),
            "latency.points[1].batch: 2.5 must be a whole number, 0 or more",
        ),
        (
            points(json!({"batch": 0, "cores": 1, "latency_ms": 5})),
            "latency: points[1].batch: 0 must be 1 to",
        ),
    ] {
        let mut document = sponge();
        document["latency"] = latency;
        let error = Problem::read(document, None).unwrap_err().to_string();
        assert!(error.starts_with(message), "'{error}' is not '{message}'");
    }
}

#[test]
fn models_are_read_as_they_are_written() {
    use crate::latency_model::{Latency, Throughput};
    for model in [
        json!({"model": "sponge", "gamma_ms": 1.0, "epsilon_ms": 2.0, "delta_ms": 3.0, "eta_ms": 4.0}),
        json!({"model": "amdahl", "serial_ms": 1.0, "parallel_ms": 2.0}),
        json!({"model": "linear", "item_ms": 1.0, "fixed_ms": 2.0}),
        json!({"model": "quadratic", "square_ms": 1.0, "item_ms": 2.0, "fixed_ms": 3.0}),
        json!({"model": "table", "points": [{"batch": 1, "cores": 1.0, "latency_ms": 5.0}]}),
    ] {
        let read: Latency = serde_json::from_value(model.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), model);
    }
    for model in [
        json!({"model": "line", "slope_rps": 1.0, "intercept_rps": 2.0}),
        json!({"model": "table", "points": [{"cores": 1.0, "rps": 5.0}]}),
    ] {
        let read: Throughput = serde_json::from_value(model.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), model);
    }
    let mixed = json!({"model": "line", "slope_rps": 1, "intercept_rps": 2, "points": []});
    let error = serde_json::from_value::<Throughput>(mixed).unwrap_err();
    assert!(
        error.to_string().contains("unknown field `points`"),
        "{error}"
    );
}

#[test]
fn answer_has_status_and_reason() {
    let still = || Duration::ZERO;
    let time_limit = TimeLimit::new(Duration::from_secs(1), &still);
    let solved = |document| {
        Problem::read(document, None)
            .unwrap()
            .solve(By::Own, &time_limit)
    };
    let answer = serde_json::to_value(solved(sponge()).unwrap()).unwrap();
    assert_eq!(answer["outcome"], "optimal");
    assert_eq!(
        (&answer["plan"]["cores"], &answer["plan"]["batch"]),
        (&json!(1), &json!(1))
    );
    assert!(answer.get("why").is_none() && answer.get("gap").is_none());
    let mut much = sponge();
    much["rate_rps"] = json!(1e6);
    let answer = serde_json::to_value(solved(much).unwrap()).unwrap();
    assert_eq!(answer["outcome"], "infeasible");
    assert!(
        answer["why"].as_str().unwrap().contains("exceeds"),
        "{answer}"
    );
}

#[test]
fn schema_covers_every_formulation() {
    let schema = serde_json::to_string(&schemars::schema_for!(Document)).unwrap();
    for formulation in Formulation::ALL {
        assert!(
            schema.contains(&format!("\"const\":\"{formulation}\"")),
            "{formulation}: {schema}"
        );
    }
}
