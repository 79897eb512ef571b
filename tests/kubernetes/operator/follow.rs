//! Cores follow demand in place and within the budget, and the status reports them.

use serde_json::{Value, json};
use weir_apiserver::{Key, Resizing, Verb};
use weir_bed::wait;

use super::bed::{BOTH, Cluster, LIMIT, MODELS};

#[tokio::test]
async fn advisory_mode_changes_nothing_and_reports_the_target() {
    // Without the role that grants writes.
    let acts = |document: &Value| {
        let named = document["roleRef"]["name"] == "weir-planner-acts";
        !(named && document["kind"] == "RoleBinding")
    };
    let cluster = Cluster::of(|_| {}, acts).await;
    for name in BOTH {
        cluster.deploy(name, 1, 1);
    }
    let mut demo = cluster.demo();
    demo["spec"].as_object_mut().unwrap().remove("mode");
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    let message = cluster
        .until_condition("demo", "Actuated", "False Advisory")
        .await;
    assert!(message.contains("cores would be: large"), "{message}");
    wait::until("the target", LIMIT, || {
        !cluster
            .condition("demo", "Actuated")
            .contains("large 1, small 1")
    })
    .await
    .unwrap();
    assert_eq!(cluster.cores(&BOTH), [1.0, 1.0]);

    // In active mode without the right: the planner reports it and keeps running.
    cluster.server.store().amend(
        "sloservices.weir.dev",
        &Key::new(MODELS, "demo"),
        |resource| {
            resource["spec"]["mode"] = json!("active");
        },
    );
    let message = cluster
        .until_condition("demo", "Degraded", "True Forbidden")
        .await;
    assert!(
        message.contains("not allowed to patch pods/resize"),
        "{message}"
    );
    assert_eq!(cluster.cores(&BOTH), [1.0, 1.0]);
    assert!(planner.plan().await.is_ok());
    wait::until("the event", LIMIT, || {
        cluster.events("demo").contains(&"Forbidden".to_owned())
    })
    .await
    .unwrap();
    planner.end().await.unwrap();
    let patched = cluster.server.log().requests().into_iter();
    let patched = patched.filter(|request| request.verb == Verb::Patch && request.status == 200);
    let patched: Vec<String> = patched.map(|request| request.resource).collect();
    assert!(
        patched
            .iter()
            .all(|resource| resource.starts_with("sloservices")
                || resource == "leases"
                || resource == "events"),
        "{patched:?}"
    );
}

#[tokio::test]
async fn full_nodes_and_their_recovery_are_reported() {
    let cluster = Cluster::start_with_both().await;
    cluster.server.store().create(&cluster.demo()).unwrap();
    cluster.server.kubelet().resizes(Resizing::Deferred);
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    let message = cluster
        .until_condition("demo", "Degraded", "True NodesFull")
        .await;
    assert!(
        message.contains("add nodes, or lower budget.cores"),
        "{message}"
    );
    let missing = "weir_planner_cores_shortfall{reason=\"Deferred\"";
    let shown = async || planner.metrics().await.unwrap().contains(missing);
    wait::until_async("the metric", LIMIT, shown).await.unwrap();
    cluster.server.kubelet().resizes(Resizing::Actuated {
        after: std::time::Duration::from_millis(100),
    });
    cluster
        .until_cores(&BOTH, |cores| cores.iter().sum::<f64>() >= 5.0)
        .await;
    cluster
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;
    let events = || cluster.events("demo");
    wait::until("both events", LIMIT, || {
        events().contains(&"NodesFull".to_owned()) && events().contains(&"WellAgain".to_owned())
    })
    .await
    .unwrap();
    planner.end().await.unwrap();
}

#[tokio::test]
async fn conflicting_writer_is_reported_and_its_workload_left_alone() {
    let cluster = Cluster::start_with_both().await;
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "old", "namespace": MODELS},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "large"}, "maxReplicas": 3},
    });
    cluster.server.store().create(&scaler).unwrap();
    cluster.server.store().create(&cluster.demo()).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    let message = cluster
        .until_condition("demo", "Degraded", "True ConflictingWriter")
        .await;
    assert!(
        message.contains("Deployment large is left alone, as something else changes it: HorizontalPodAutoscaler old changes it"),
        "{message}"
    );
    assert_eq!(cluster.cores(&["large"]), [1.0]);
    cluster.server.store().remove(
        "horizontalpodautoscalers.autoscaling",
        &Key::new(MODELS, "old"),
    );
    cluster
        .until_cores(&["large"], |cores| cores[0] >= 3.0)
        .await;
    cluster
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;

    // Another writer sets the cores back repeatedly.
    let admin = cluster.server.client(weir_apiserver::ADMIN).await.unwrap();
    let api = kube::Api::<k8s_openapi::api::core::v1::Pod>::namespaced(admin, MODELS);
    let pod = cluster.server.kubelet().pods().into_iter();
    let mut pod = pod.filter(|pod| pod.key.name.starts_with("large-"));
    let pod = pod.next().unwrap().key.name;
    let back = json!({"spec": {"containers": [{"name": "server",
        "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}}]}});
    let key = Key::new(MODELS, &pod);
    let set_back = async || {
        let stored = cluster.server.store().get("pods", &key).unwrap();
        let cpu = &stored["spec"]["containers"][0]["resources"]["requests"]["cpu"];
        if *cpu != "500m" {
            let params = kube::api::PatchParams::default();
            let patch = kube::api::Patch::Strategic(&back);
            let _ = api.patch_resize(&pod, &params, &patch).await;
        }
        cluster
            .condition("demo", "Degraded")
            .starts_with("True ConflictingWriter")
    };
    wait::until_async("the other writer", LIMIT, set_back)
        .await
        .unwrap();
    let message = cluster.condition("demo", "Degraded");
    assert!(message.contains("to 0.5 after it was set to"), "{message}");
    planner.end().await.unwrap();
}

#[tokio::test]
async fn load_moves_to_the_variant_with_free_cores() {
    let cluster = Cluster::start_with_both().await;
    let pods = || cluster.server.kubelet().pods();
    wait::until("pods", LIMIT, || pods().len() == 2)
        .await
        .unwrap();
    let large = pods()
        .into_iter()
        .find(|pod| pod.key.name.starts_with("large-"));
    let large = large.unwrap().key;
    cluster
        .server
        .kubelet()
        .resizes_of(&large, Some(Resizing::Deferred));
    let mut demo = cluster.demo();
    demo["spec"]["resize"]["fallback"] = json!("move");
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    // With `large` alone, 45 × 1.1 requests/s would need 4 of its cores; `small` carries them with 3.
    cluster
        .until_cores(&["small"], |cores| cores[0] >= 3.0)
        .await;
    cluster
        .until_condition("demo", "Degraded", "True NodesFull")
        .await;
    assert_eq!(cluster.cores(&["large"]), [1.0]);
    let pod = || cluster.server.store().get("pods", &large).unwrap();
    wait::until("the target to be taken back", LIMIT, || {
        pod()["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"
    })
    .await
    .unwrap();
    planner.end().await.unwrap();
}
