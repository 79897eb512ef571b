//! Resources that cannot be gone by: refused by the definition, or told what to change; others go on.

use serde_json::{Value, json};
use weir_bed::operate::condition;

use super::place::everywhere;
use super::stage::Stage;

const BOTH: [&str; 2] = ["small", "large"];

#[tokio::test]
async fn what_the_definition_refuses_is_never_stored() {
    everywhere(schema).await;
}

async fn schema(stage: &Stage<'_>) {
    let table: &[(&str, Value, &str)] = &[
        ("/spec/slo_ms", json!(0), "slo_ms"),
        ("/spec/budget/cores", json!(0), "cores"),
        ("/spec/mode", json!("sometimes"), "mode"),
        ("/spec/variants", json!([]), "variants"),
        ("/spec/stages", json!([]), "stages"),
        (
            "/spec/stages",
            json!([{"name": "a", "variants": stage.demo()["spec"]["variants"]}]),
            "exactly one of the two: variants (of a service) or stages (of a pipeline)",
        ),
        (
            "/spec/variants/0/resize",
            json!("http://127.0.0.1:1/cores"),
            "at most one of the two: resize (an address) or workload",
        ),
        (
            "/spec/variants/0/cores/least",
            json!(2),
            "initial must be at least least",
        ),
        ("/spec/variants/0/workload/name", json!(""), "workload.name"),
        ("/spec/sponge", json!({}), "sponge is for policy sponge"),
        ("/spec/budget", json!(null), "budget"),
    ];
    for (path, value, says) in table {
        let mut resource = stage.demo();
        let (at, key) = path.rsplit_once('/').unwrap();
        resource.pointer_mut(at).unwrap()[key] = value.clone();
        let status = match stage.apply(&resource).await {
            Err(kube::Error::Api(status)) => status,
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(status.code, 422, "{path}: {}", status.message);
        assert!(status.message.contains(says), "{path}: {}", status.message);
    }
    assert_eq!(stage.resource("demo").await, Value::Null);
    stage.apply(&stage.demo()).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_gone_by_says_what_to_change_and_others_go_on() {
    everywhere(conditions).await;
}

async fn conditions(stage: &Stage<'_>) {
    if !stage.has_room() {
        return;
    }
    for name in BOTH {
        stage.deploy_cores(name, 1, 1).await;
    }
    stage.deploy("bare", 1, json!({})).await;
    let little = json!({"requests": {"cpu": "50m"}});
    stage.deploy("other", 1, little).await;
    let (planner, _) = stage.planner("weir-a").await;
    stage.proxy.load(2.0);
    stage.apply(&stage.demo()).await.unwrap();
    stage
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // What no definition can know.
    let taken = stage.named("taken", &BOTH);
    let mut stale = stage.named("stale", &["other"]);
    stale["spec"]["plan_max_age_ms"] = json!(100);
    let mut poor = stage.named("poor", &["other", "bare"]);
    poor["spec"]["budget"]["cores"] = json!(1);
    let mut twice = stage.named("twice", &["other", "bare"]);
    twice["spec"]["variants"][1]["name"] = json!("other");
    let mut overlaps = stage.named("overlaps", &["other", "bare"]);
    overlaps["spec"]["variants"][1]["workload"]["name"] = json!("other");
    for (resource, says) in [
        (
            taken,
            "False Taken: Deployment small is planned for by SloService NAMESPACE/demo already",
        ),
        (stale, "False Invalid: plan_max_age_ms: 100"),
        (poor, "False Invalid: variants[].cores.initial: 2"),
        (twice, "False Invalid: variants[1].name: other"),
        (
            overlaps,
            "False Invalid: variants[].workload: Deployment other",
        ),
    ] {
        let says = says.replace("NAMESPACE", &stage.ground.namespace);
        let name = resource["metadata"]["name"].as_str().unwrap();
        stage.apply(&resource).await.unwrap();
        stage.until_condition(name, "Accepted", &says).await;
        let resource = stage.resource(name).await;
        assert_eq!(condition(&resource, "Planned"), "", "{resource}");
        stage
            .until_event(name, if name == "taken" { "Taken" } else { "Invalid" })
            .await;
        stage.remove(name).await;
    }

    // What only the cluster tells.
    let mut unnamed = stage.named("unnamed", &["other"]);
    unnamed["spec"]["variants"][0]["workload"]["container"] = json!("sidecar");
    for (resource, reason, says) in [
        (
            stage.named("absent", &["nobody"]),
            "True NoWorkload",
            "there is no Deployment nobody",
        ),
        (
            stage.named("besteffort", &["bare"]),
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
        stage.apply(&resource).await.unwrap();
        let said = stage.until_condition(name, "Degraded", reason).await;
        assert!(said.contains(says), "{said}");
        stage.remove(name).await;
    }

    stage.proxy.load(30.0);
    stage.until_cores(&BOTH, |cores| cores >= 3.0).await;
    planner.end().await.unwrap();
}
