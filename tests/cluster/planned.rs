//! A resource that is applied is accepted and planned for, and says so in its status and its columns.

use serde_json::json;

use super::place::everywhere;
use super::stage::Stage;

#[tokio::test]
async fn an_applied_resource_is_planned_for_and_says_so() {
    everywhere(story).await;
}

async fn story(stage: &Stage<'_>) {
    for name in ["small", "large"] {
        stage.deploy_cores(name, 1, 1).await;
    }
    let (planner, asked) = stage.planner("weir-a").await;
    stage.proxy.load(5.0);
    stage.apply(&stage.demo()).await.unwrap();
    for (about, begins) in [
        ("Accepted", "True Valid"),
        ("ProfileReady", "True Given"),
        ("Planned", "True"),
        ("Actuated", "True InForce"),
        ("Degraded", "False AsExpected"),
    ] {
        stage.until_condition("demo", about, begins).await;
    }
    let resource = stage.resource("demo").await;
    assert_eq!(
        resource["metadata"]["finalizers"],
        json!(["weir.dev/planner"])
    );
    let status = &resource["status"];
    assert_eq!(
        status["observedGeneration"],
        resource["metadata"]["generation"]
    );
    assert_eq!(status["cores"], 2.0, "{status}");
    assert!(status["demandRps"].as_f64().unwrap() > 0.0, "{status}");
    assert_eq!(status["plans"][0]["stage"], "demo");
    let plan = planner.plan().await.unwrap();
    assert_eq!(plan["variants"].as_array().unwrap().len(), 2, "{plan}");

    let columns = stage.columns("demo").await;
    for (name, value) in [
        ("Name", json!("demo")),
        ("Mode", json!("active")),
        ("Policy", json!("infadapter")),
        ("Planned", json!("True")),
        ("Actuated", json!("True")),
    ] {
        assert_eq!(columns[name], value, "{columns:?}");
    }
    assert!(columns["Demand"].as_f64().unwrap() > 0.0, "{columns:?}");
    assert_eq!(columns["Cores"].as_f64(), Some(2.0), "{columns:?}");
    let why = columns["Why"].as_str().unwrap();
    assert!(why.contains("requests/s"), "{columns:?}");
    let age = columns["Age"].as_str().unwrap();
    assert!(age.ends_with('s') || age.ends_with('m'), "{columns:?}");

    // Applied again, nothing changes.
    let before = resource["metadata"]["generation"].clone();
    stage.apply(&stage.demo()).await.unwrap();
    assert_eq!(
        stage.resource("demo").await["metadata"]["generation"],
        before
    );
    assert_eq!(asked.forbidden(), []);
    planner.end().await.unwrap();
}
