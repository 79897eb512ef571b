//! Vertical scaling: cores follow rising and falling demand in cluster, with equal requests and limits, and
//! without a missing right.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::clusters::on_each_cluster;
use super::fixture::{BOTH, CORES, Fixture};
use super::observe::{actual_m, server};

#[tokio::test]
async fn cores_follow_demand_in_place() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    if !fixture.deploy_both().await {
        return;
    }
    let before = fixture.identities(&BOTH).await;
    let (planner, requests) = fixture.planner("weir-a").await;
    fixture.proxy.load(2.0);
    fixture.apply(&fixture.demo()).await.unwrap();
    fixture
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // 30 × 1.1 requests/s exceed the capacity of one core of each variant.
    fixture.proxy.load(30.0);
    fixture.until_cores(&BOTH, |cores| cores >= 3.0).await;
    fixture.until_reported(|cores| cores >= 3.0).await;
    fixture
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;
    for pod in fixture.pods_of(&BOTH).await {
        assert_guaranteed(&pod);
    }
    let plan = planner.plan().await.unwrap();
    let slots = plan["variants"].as_array().unwrap().iter();
    let slots: f64 = slots.map(|v| v["slots"].as_f64().unwrap()).sum();
    assert!(slots >= 3.0, "{plan}");

    fixture.proxy.load(2.0);
    fixture.until_cores(&BOTH, |cores| cores <= 2.0).await;
    fixture.until_reported(|cores| cores <= 2.0).await;
    for pod in fixture.pods_of(&BOTH).await {
        assert_guaranteed(&pod);
    }
    assert_eq!(
        fixture.identities(&BOTH).await,
        before,
        "the same, never restarted"
    );
    assert!(requests.resizes().len() >= 2, "{:?}", requests.resizes());
    assert_eq!(requests.forbidden(), []);
    planner.end().await.unwrap();
}

/// Asserts that the requests equal the limits and the container's actual resources, and are within the
/// budget.
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
