//! Horizontal scaling through the `scale` subresource, on clusters with a Deployment controller.

use serde_json::json;

use super::clusters::on_each_cluster;
use super::fixture::Fixture;
use super::observe::identity;

#[tokio::test]
async fn replicas_follow_demand() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    if !fixture.parts.deployments {
        eprintln!("SKIPPED: no controller makes the pods of a Deployment that is scaled");
        return;
    }
    if !fixture.has_capacity() {
        return;
    }
    fixture.deploy_cores("one", 1, 1).await;
    let first = identity(&fixture.pods("one").await[0]);
    let (planner, requests) = fixture.planner("weir-a").await;
    fixture.proxy.load(5.0);
    let mut demo = fixture.named("demo", &["one"]);
    demo["spec"]["policy"] = json!("infaas");
    let variant = &mut demo["spec"]["variants"][0];
    variant["cores"] = json!({"initial": 1, "min": 1, "max": 1});
    variant["replicas"] = json!({"initial": 1, "min": 0, "max": 3});
    variant["latency"]["parallelism"] = json!(1);
    fixture.apply(&demo).await.unwrap();
    fixture
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // A replica needs about 43 ms for a request.
    fixture.proxy.load(45.0);
    fixture.until_ready("one", 3).await;
    fixture.until_reported(|cores| cores >= 3.0).await;
    let kept: Vec<_> = fixture.pods("one").await.iter().map(identity).collect();
    assert!(kept.contains(&first), "{kept:?}");

    fixture.proxy.load(5.0);
    fixture.until_ready("one", 1).await;
    assert_eq!(requests.resizes(), []);
    assert_eq!(requests.forbidden(), []);
    planner.end().await.unwrap();
}
