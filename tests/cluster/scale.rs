//! More and fewer replicas, through `scale`, where somebody makes the pods of Deployments.

use serde_json::json;

use super::look::identity;
use super::place::everywhere;
use super::stage::Stage;

#[tokio::test]
async fn replicas_follow_demand() {
    everywhere(story).await;
}

async fn story(stage: &Stage<'_>) {
    if !stage.parts.deployments {
        eprintln!("LEFT OUT: nobody makes the pods of a Deployment that is scaled");
        return;
    }
    if !stage.has_room() {
        return;
    }
    stage.deploy_cores("one", 1, 1).await;
    let first = identity(&stage.pods("one").await[0]);
    let (planner, asked) = stage.planner("weir-a").await;
    stage.proxy.load(5.0);
    let mut demo = stage.named("demo", &["one"]);
    demo["spec"]["policy"] = json!("infaas");
    let variant = &mut demo["spec"]["variants"][0];
    variant["cores"] = json!({"initial": 1, "least": 1, "greatest": 1});
    variant["replicas"] = json!({"initial": 1, "least": 0, "greatest": 3});
    variant["latency"]["parallelism"] = json!(1);
    stage.apply(&demo).await.unwrap();
    stage
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    // A replica does a request in some 43 ms.
    stage.proxy.load(45.0);
    stage.until_ready("one", 3).await;
    stage.until_said(|cores| cores >= 3.0).await;
    let kept: Vec<_> = stage.pods("one").await.iter().map(identity).collect();
    assert!(kept.contains(&first), "{kept:?}");

    stage.proxy.load(5.0);
    stage.until_ready("one", 1).await;
    assert_eq!(asked.resizes(), []);
    assert_eq!(asked.forbidden(), []);
    planner.end().await.unwrap();
}
