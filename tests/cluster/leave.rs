//! A resource that is deleted goes once its last turn is over, and leaves the pods as they are, without a trace.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use weir_planner::operator::leader::LEASE;

use super::ground::{LIMIT, until_within};
use super::look::identity;
use super::place::everywhere;
use super::stage::Stage;

const BOTH: [&str; 2] = ["small", "large"];

#[tokio::test]
async fn a_deleted_resource_leaves_pods_as_they_are() {
    everywhere(story).await;
}

async fn story(stage: &Stage<'_>) {
    if !stage.has_room() {
        return;
    }
    for name in BOTH {
        stage.deploy_cores(name, 1, 1).await;
    }
    let before = (identities(stage).await, templates(stage).await);
    let (planner, asked) = stage.planner("weir-a").await;
    stage.proxy.load(30.0);
    stage.apply(&stage.demo()).await.unwrap();
    stage.until_cores(&BOTH, |cores| cores >= 3.0).await;
    stage.until_said(|cores| cores >= 3.0).await;

    stage.remove("demo").await;
    assert_eq!(planner.plan().await, Err(404));
    let (left, resizes) = (resources(stage).await, asked.resizes().len());
    stage.proxy.load(1.0);
    // The planner lives on, and has had the time to do something.
    for _ in 0..2 {
        let renewed = renewed(stage).await;
        let again = async || self::renewed(stage).await != renewed;
        assert!(until_within(LIMIT, again).await, "the Lease is not renewed");
    }
    assert_eq!(asked.resizes().len(), resizes);
    assert_eq!(resources(stage).await, left, "as they were");
    assert_eq!((identities(stage).await, templates(stage).await), before);
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

/// What the pods are to have and have.
async fn resources(stage: &Stage<'_>) -> Vec<Value> {
    let all = pods(stage).await.into_iter();
    let shown = all.map(|pod| serde_json::to_value(pod).unwrap());
    let has = |pod: Value| {
        json!([
            pod["spec"]["containers"][0]["resources"],
            pod["status"]["containerStatuses"][0]["resources"]
        ])
    };
    shown.map(has).collect()
}

/// What the workloads make pods of.
async fn templates(stage: &Stage<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for name in BOTH {
        let deployment = stage.api::<Deployment>().get(name).await.unwrap();
        all.push(json!([
            deployment.spec,
            deployment.metadata.labels,
            deployment.metadata.finalizers
        ]));
    }
    all
}

async fn renewed(stage: &Stage<'_>) -> Value {
    let lease = stage.api::<Lease>().get(LEASE).await.unwrap();
    json!(lease.spec.unwrap().renew_time)
}
