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
    assert!(error.value.contains("expected f64"), "{error}");
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
