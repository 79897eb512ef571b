//! A deleted resource disappears after its last cycle, and leaves the pods unchanged.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};
use weir_planner::operator::leader::LEASE;

use super::clusters::on_each_cluster;
use super::fixture::{BOTH, Fixture};
use super::sandbox::{LIMIT, until_within};

#[tokio::test]
async fn deleted_resource_leaves_pods_unchanged() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    if !fixture.deploy_both().await {
        return;
    }
    let before = (fixture.identities(&BOTH).await, templates(fixture).await);
    let (planner, requests) = fixture.planner("weir-a").await;
    fixture.proxy.load(30.0);
    fixture.apply(&fixture.demo()).await.unwrap();
    fixture.until_cores(&BOTH, |cores| cores >= 3.0).await;
    fixture.until_reported(|cores| cores >= 3.0).await;

    fixture.remove("demo").await;
    // The resource is gone at once, the planner ends its cycle within moments.
    let ended = until_within(LIMIT, async || planner.plan().await == Err(404)).await;
    assert!(ended, "{:?}", planner.plan().await);
    let (left, resizes) = (resources(fixture).await, requests.resizes().len());
    fixture.proxy.load(1.0);
    // Two renewals of the Lease: the planner is alive and has had time to act.
    for _ in 0..2 {
        let renewed = renewed(fixture).await;
        let again = async || self::renewed(fixture).await != renewed;
        assert!(until_within(LIMIT, again).await, "the Lease is not renewed");
    }
    assert_eq!(requests.resizes().len(), resizes);
    assert_eq!(resources(fixture).await, left, "as they were");
    assert_eq!(
        (fixture.identities(&BOTH).await, templates(fixture).await),
        before
    );
    assert_eq!(requests.forbidden(), []);
    planner.end().await.unwrap();
}

/// Target and actual resources of the pods.
async fn resources(fixture: &Fixture<'_>) -> Vec<Value> {
    let all = fixture.pods_of(&BOTH).await.into_iter();
    let shown = all.map(|pod| serde_json::to_value(pod).unwrap());
    let has = |pod: Value| {
        json!([
            pod["spec"]["containers"][0]["resources"],
            pod["status"]["containerStatuses"][0]["resources"]
        ])
    };
    shown.map(has).collect()
}

/// Specifications, labels and finalizers of the Deployments.
async fn templates(fixture: &Fixture<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for name in BOTH {
        let deployment = fixture.api::<Deployment>().get(name).await.unwrap();
        all.push(json!([
            deployment.spec,
            deployment.metadata.labels,
            deployment.metadata.finalizers
        ]));
    }
    all
}

async fn renewed(fixture: &Fixture<'_>) -> Value {
    let lease = fixture.api::<Lease>().get(LEASE).await.unwrap();
    json!(lease.spec.unwrap().renew_time)
}
