//! An applied resource is accepted and planned for, as its status and columns show.

use serde_json::json;

use super::clusters::on_each_cluster;
use super::fixture::Fixture;

#[tokio::test]
async fn applied_resource_is_planned_for_and_reports_status() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    for name in ["small", "large"] {
        fixture.deploy_cores(name, 1, 1).await;
    }
    let (planner, requests) = fixture.planner("weir-a").await;
    fixture.proxy.load(5.0);
    fixture.apply(&fixture.demo()).await.unwrap();
    for (about, begins) in [
        ("Accepted", "True Valid"),
        ("ProfileReady", "True Given"),
        ("Planned", "True"),
        ("Actuated", "True InForce"),
        ("Degraded", "False AsExpected"),
        ("Ready", "True Serving"),
    ] {
        fixture.until_condition("demo", about, begins).await;
    }
    let resource = fixture.resource("demo").await;
    // It can be deleted at any time, even with its namespace and the planner's rights there.
    assert_eq!(resource["metadata"]["finalizers"], json!(null));
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

    let columns = fixture.columns("demo").await;
    for (name, value) in [
        ("Name", json!("demo")),
        ("Mode", json!("active")),
        ("Policy", json!("infadapter")),
        ("Accepted", json!("True")),
        ("Ready", json!("True")),
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

    // Applying the same resource again changes nothing.
    let before = resource["metadata"]["generation"].clone();
    fixture.apply(&fixture.demo()).await.unwrap();
    assert_eq!(
        fixture.resource("demo").await["metadata"]["generation"],
        before
    );
    assert_eq!(requests.forbidden(), []);
    planner.end().await.unwrap();
}
