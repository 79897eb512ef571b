//! A request for more cores than any node has is reported, and so is the recovery; the pod stays unchanged.

use serde_json::json;

use super::clusters::on_each_cluster;
use super::fixture::Fixture;
use super::observe::identity;

#[tokio::test]
async fn request_beyond_every_node_is_reported_as_nodes_full() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    if fixture.parts.nodes == 0 {
        eprintln!("SKIPPED: there is no node that could be too small");
        return;
    }
    fixture.deploy_cores("one", 1, 1).await;
    let before = identity(&fixture.pods("one").await[0]);
    let (planner, requests) = fixture.planner("weir-a").await;
    fixture.proxy.load(2.0);
    let mut demo = fixture.named("demo", &["one"]);
    let cores = fixture.parts.largest_m / 1000 + 2;
    demo["spec"]["budget"]["cores"] = json!(cores);
    demo["spec"]["variants"][0]["cores"] = json!({"initial": cores, "min": cores, "max": cores});
    fixture.apply(&demo).await.unwrap();
    let message = fixture
        .until_condition("demo", "Degraded", "True NodesFull")
        .await;
    assert!(
        message.contains("add nodes, or lower budget.cores"),
        "{message}"
    );
    fixture.until_event("demo", "NodesFull").await;
    // The service keeps running with the cores it has.
    assert!(planner.plan().await.is_ok());
    assert_eq!(fixture.cores(&["one"]).await, [1.0]);

    demo["spec"]["variants"][0]["cores"] = json!({"initial": 1, "min": 1, "max": 1});
    fixture.apply(&demo).await.unwrap();
    fixture
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;
    fixture
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    let pod = fixture.pods("one").await.remove(0);
    assert_eq!(identity(&pod), before);
    let spec = serde_json::to_value(&pod.spec).unwrap();
    assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
    let refused = requests.forbidden().into_iter();
    let others = refused.filter(|one| !one.path.ends_with("/resize"));
    assert_eq!(
        others.count(),
        0,
        "only resizes beyond the node are refused"
    );
    planner.end().await.unwrap();
}
