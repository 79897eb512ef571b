//! Demand rises and falls, and cores follow: in place, request and limit together, by no right too many.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::look::{actual_m, identity, server};
use super::place::everywhere;
use super::stage::{CORES, Stage};

const BOTH: [&str; 2] = ["small", "large"];

#[tokio::test]
async fn cores_follow_demand_in_place() {
    everywhere(story).await;
}

async fn story(stage: &Stage<'_>) {
    if !stage.has_room() {
        return;
    }
    for name in BOTH {
        stage.deploy_cores(name, 1, 1).await;
    }
    let before = identities(stage).await;
    let (planner, asked) = stage.planner("weir-a").await;
    stage.proxy.load(2.0);
    stage.apply(&stage.demo()).await.unwrap();
    stage
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // 30 × 1.1 requests/s: more than one core of each carries.
    stage.proxy.load(30.0);
    stage.until_cores(&BOTH, |cores| cores >= 3.0).await;
    stage.until_said(|cores| cores >= 3.0).await;
    stage
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;
    for pod in pods(stage).await {
        assert_guaranteed(&pod);
    }

    stage.proxy.load(2.0);
    stage.until_cores(&BOTH, |cores| cores <= 2.0).await;
    stage.until_said(|cores| cores <= 2.0).await;
    for pod in pods(stage).await {
        assert_guaranteed(&pod);
    }
    assert_eq!(identities(stage).await, before, "the same, never restarted");
    assert!(asked.resizes().len() >= 2, "{:?}", asked.resizes());
    assert_eq!(asked.forbidden(), []);
    planner.end().await.unwrap();
}

async fn pods(stage: &Stage<'_>) -> Vec<Pod> {
    let mut all = Vec::new();
    for name in BOTH {
        all.extend(stage.pods(name).await);
    }
    all
}

async fn identities(stage: &Stage<'_>) -> Vec<Value> {
    pods(stage).await.iter().map(identity).collect()
}

/// What is requested is the limit, is what the container has, and within the budget.
fn assert_guaranteed(pod: &Pod) {
    let resources = |of: &Value| {
        let resources = &of["resources"];
        assert_eq!(resources["requests"], resources["limits"], "{of}");
        resources["requests"]["cpu"].clone()
    };
    let shown = serde_json::to_value(pod).unwrap();
    let spec = resources(&shown["spec"]["containers"][0]);
    let has = resources(&shown["status"]["containerStatuses"][0]);
    assert_eq!(spec, has, "{shown}");
    assert!(actual_m(server(pod)) < i64::from(CORES) * 1000, "{shown}");
    assert_eq!(shown["status"]["qosClass"], "Guaranteed");
}
