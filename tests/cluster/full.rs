//! More than any node has is asked for: said, and that it is well again; the pod is as it was all the while.

use serde_json::json;

use super::look::identity;
use super::place::everywhere;
use super::stage::Stage;

#[tokio::test]
async fn what_no_node_can_hold_is_said() {
    everywhere(story).await;
}

async fn story(stage: &Stage<'_>) {
    if stage.parts.nodes == 0 {
        eprintln!("LEFT OUT: there is no node that could be too small");
        return;
    }
    stage.deploy_cores("one", 1, 1).await;
    let before = identity(&stage.pods("one").await[0]);
    let (planner, asked) = stage.planner("weir-a").await;
    stage.proxy.load(2.0);
    let mut demo = stage.named("demo", &["one"]);
    let cores = stage.parts.greatest_m / 1000 + 2;
    demo["spec"]["budget"]["cores"] = json!(cores);
    demo["spec"]["variants"][0]["cores"] =
        json!({"initial": cores, "least": cores, "greatest": cores});
    stage.apply(&demo).await.unwrap();
    let said = stage
        .until_condition("demo", "Degraded", "True NodesFull")
        .await;
    assert!(said.contains("add nodes, or lower budget.cores"), "{said}");
    stage.until_event("demo", "NodesFull").await;
    // It serves with what it has.
    assert!(planner.plan().await.is_ok());
    assert_eq!(stage.cores(&["one"]).await, [1.0]);

    demo["spec"]["variants"][0]["cores"] = json!({"initial": 1, "least": 1, "greatest": 1});
    stage.apply(&demo).await.unwrap();
    stage
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;
    stage
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    let pod = stage.pods("one").await.remove(0);
    assert_eq!(identity(&pod), before);
    let spec = serde_json::to_value(&pod.spec).unwrap();
    assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
    let refused = asked.forbidden().into_iter();
    let others = refused.filter(|one| !one.path.ends_with("/resize"));
    assert_eq!(others.count(), 0, "but for what the node has not");
    planner.end().await.unwrap();
}
