//! Invalid resources are refused by the definition, or get a condition that states what to change; other
//! resources are not affected.

use serde_json::{Value, json};
use weir_bed::operate::condition;

use super::clusters::on_each_cluster;
use super::fixture::{BOTH, Fixture};

#[tokio::test]
async fn resource_violating_the_schema_is_refused() {
    on_each_cluster(schema).await;
}

async fn schema(fixture: &Fixture<'_>) {
    let table: &[(&str, Value, &str)] = &[
        ("/spec/slo", json!("0s"), "spec.slo"),
        ("/spec/slo", json!(1000), "spec.slo"),
        ("/spec/variants/0/readiness", json!("5"), "readiness"),
        ("/spec/budget/cores", json!(0), "cores"),
        ("/spec/mode", json!("sometimes"), "mode"),
        ("/spec/variants", json!([]), "variants"),
        ("/spec/stages", json!([]), "stages"),
        (
            "/spec/stages",
            json!([{"name": "a", "variants": fixture.demo()["spec"]["variants"]}]),
            "exactly one of the two: variants (of a service) or stages (of a pipeline)",
        ),
        (
            "/spec/variants/0/resize",
            json!("http://127.0.0.1:1/cores"),
            "at most one of the two: resize (an address) or workload",
        ),
        (
            "/spec/variants/0/cores/min",
            json!(2),
            "initial must be at least min",
        ),
        ("/spec/variants/0/workload/name", json!(""), "workload.name"),
        ("/spec/sponge", json!({}), "sponge is for policy sponge"),
        ("/spec/budget", json!(null), "budget"),
    ];
    for (path, value, expected) in table {
        let mut resource = fixture.demo();
        let (at, key) = path.rsplit_once('/').unwrap();
        resource.pointer_mut(at).unwrap()[key] = value.clone();
        let status = match fixture.apply(&resource).await {
            Err(kube::Error::Api(status)) => status,
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(status.code, 422, "{path}: {}", status.message);
        assert!(
            status.message.contains(expected),
            "{path}: {}",
            status.message
        );
    }
    assert_eq!(fixture.resource("demo").await, Value::Null);
    fixture.apply(&fixture.demo()).await.unwrap();
}

#[tokio::test]
async fn invalid_resource_gets_a_condition_and_others_continue() {
    on_each_cluster(conditions).await;
}

async fn conditions(fixture: &Fixture<'_>) {
    if !fixture.deploy_both().await {
        return;
    }
    fixture.deploy("bare", 1, json!({})).await;
    let little = json!({"requests": {"cpu": "50m"}});
    fixture.deploy("other", 1, little).await;
    let (planner, _) = fixture.planner("weir-a").await;
    fixture.proxy.load(2.0);
    fixture.apply(&fixture.demo()).await.unwrap();
    fixture
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // Faults that a definition's schema cannot detect.
    let taken = fixture.named("taken", &BOTH);
    let mut stale = fixture.named("stale", &["other"]);
    stale["spec"]["planMaxAge"] = json!("100ms");
    let mut poor = fixture.named("poor", &["other", "bare"]);
    poor["spec"]["budget"]["cores"] = json!(1);
    let mut twice = fixture.named("twice", &["other", "bare"]);
    twice["spec"]["variants"][1]["name"] = json!("other");
    let mut overlaps = fixture.named("overlaps", &["other", "bare"]);
    overlaps["spec"]["variants"][1]["workload"]["name"] = json!("other");
    // Variants are merged by name, so the API server takes each once.
    let refused = fixture.apply(&twice).await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("duplicate"), "{refused}");
    for (resource, expected) in [
        (
            taken,
            "False Taken: generation 1 is refused: Deployment small is planned for by SloService NAMESPACE/demo already",
        ),
        (
            stale,
            "False Invalid: generation 1 is refused: planMaxAge: 100ms",
        ),
        (
            poor,
            "False Invalid: generation 1 is refused: variants[].cores.initial: 2",
        ),
        (
            overlaps,
            "False Invalid: generation 1 is refused: variants[].workload: Deployment other",
        ),
    ] {
        let expected = expected.replace("NAMESPACE", &fixture.sandbox.namespace);
        let name = resource["metadata"]["name"].as_str().unwrap();
        fixture.apply(&resource).await.unwrap();
        fixture.until_condition(name, "Accepted", &expected).await;
        let resource = fixture.resource(name).await;
        let planned = condition(&resource, "Planned");
        assert!(planned.starts_with("Unknown NotActing"), "{resource}");
        fixture
            .until_event(name, if name == "taken" { "Taken" } else { "Invalid" })
            .await;
        fixture.remove(name).await;
    }

    // Faults that only the cluster's workloads show.
    let mut unnamed = fixture.named("unnamed", &["other"]);
    unnamed["spec"]["variants"][0]["workload"]["container"] = json!("sidecar");
    for (resource, reason, expected) in [
        (
            fixture.named("absent", &["nobody"]),
            "True NoWorkload",
            "there is no Deployment nobody",
        ),
        (
            fixture.named("besteffort", &["bare"]),
            "True NotResizable",
            "it is BestEffort, without any request",
        ),
        (
            unnamed,
            "True NotResizable",
            "it has no container sidecar, only server",
        ),
    ] {
        let name = resource["metadata"]["name"].as_str().unwrap();
        fixture.apply(&resource).await.unwrap();
        let message = fixture.until_condition(name, "Degraded", reason).await;
        assert!(message.contains(expected), "{message}");
        let planned = condition(&fixture.resource(name).await, "Planned");
        assert!(
            name != "absent" || planned.starts_with("False NoPlan"),
            "{planned}"
        );
        fixture.remove(name).await;
    }

    fixture.proxy.load(30.0);
    fixture.until_cores(&BOTH, |cores| cores >= 3.0).await;
    planner.end().await.unwrap();
}

#[tokio::test]
async fn running_service_keeps_its_last_valid_spec_and_its_workloads() {
    on_each_cluster(last_valid_spec).await;
}

async fn last_valid_spec(fixture: &Fixture<'_>) {
    if !fixture.deploy_both().await {
        return;
    }
    let (planner, _) = fixture.planner("weir-a").await;
    fixture.proxy.load(2.0);
    fixture.apply(&fixture.demo()).await.unwrap();
    fixture
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // The invalid resource has a lower budget, which does not count until the resource is valid.
    let mut changed = fixture.demo();
    changed["spec"]["budget"]["cores"] = json!(2);
    let mut invalid = changed.clone();
    invalid["spec"]["planMaxAge"] = json!("1ms");
    fixture.apply(&invalid).await.unwrap();
    fixture
        .until_condition("demo", "Accepted", "False Invalid")
        .await;
    fixture.proxy.load(30.0);
    fixture.until_cores(&BOTH, |cores| cores >= 3.0).await;
    fixture.apply(&changed).await.unwrap();
    fixture.until_condition("demo", "Accepted", "True").await;
    fixture.until_cores(&BOTH, |cores| cores <= 2.0).await;

    // A workload becomes free when the older resource is deleted.
    fixture.apply(&fixture.named("later", &BOTH)).await.unwrap();
    fixture
        .until_condition("later", "Accepted", "False Taken")
        .await;
    fixture.remove("demo").await;
    fixture.until_condition("later", "Accepted", "True").await;
    fixture.until_event("later", "Taken").await;
    planner.end().await.unwrap();
}
