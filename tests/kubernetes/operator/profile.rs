//! Profiles referenced by a resource.

use serde_json::{Value, json};
use weir_apiserver::{Key, Verb};
use weir_bed::wait;

use super::bed::{Cluster, LIMIT, MODELS};

/// Returns a ConfigMap with the measured profile of `large`: 80 ms per core, and 2 ms for each further
/// request.
fn measured(key: &str) -> Value {
    let cells = [(1, 1), (1, 2), (2, 1), (2, 4), (4, 2)].map(|(cores, batch)| {
        let ms = 80.0 * f64::from(batch) / f64::from(cores) + 2.0 * f64::from(batch);
        json!({"cores": cores, "batch": batch, "ms": ms})
    });
    let rates =
        [(1, 8.0), (2, 18.0), (4, 38.0)].map(|(cores, rps)| json!({"cores": cores, "rps": rps}));
    let text = json!({"readiness": "2s", "measured":
        {"parallelism": "per-core", "latencies": cells, "rates": rates, "utilisation": 1.0}});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "large-profile", "namespace": MODELS},
        "data": {key: text.to_string()},
    })
}

#[tokio::test]
async fn referenced_profile_is_read_once_it_exists() {
    let cluster = Cluster::start_with_both().await;
    let mut demo = cluster.demo();
    let large = demo["spec"]["variants"][1].as_object_mut().unwrap();
    large.remove("latency");
    large.remove("capacity");
    large.insert("profile".to_owned(), json!({"configMap": "large-profile"}));
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    let message = cluster
        .until_condition("demo", "ProfileReady", "False NoProfile")
        .await;
    assert!(
        message.contains("variants[1].profile.configMap: there is no ConfigMap large-profile"),
        "{message}"
    );
    cluster
        .until_condition("demo", "Accepted", "False NoProfile")
        .await;
    // Stored under a key that the resource does not name.
    cluster.server.store().create(&measured("other")).unwrap();
    wait::until("the missing key", LIMIT, || {
        cluster
            .condition("demo", "ProfileReady")
            .contains("profile.key: profile.yaml; it must be a key of ConfigMap large-profile, which has none")
    })
    .await
    .unwrap();
    let key = Key::new(MODELS, "large-profile");
    cluster.server.store().amend("configmaps", &key, |map| {
        map["data"] = measured("profile.yaml")["data"].clone();
    });
    let message = cluster
        .until_condition("demo", "ProfileReady", "True Read")
        .await;
    assert!(
        message.contains("large: ConfigMap large-profile, key profile.yaml"),
        "{message}"
    );
    cluster
        .until_condition("demo", "Accepted", "True Valid")
        .await;
    // The same number as with inline latency models: 7 or 8 cores for 45 × 1.1 requests/s.
    cluster
        .until_cores(&["small", "large"], |cores| {
            cores.iter().sum::<f64>() >= 5.0
        })
        .await;
    planner.end().await.unwrap();
    // ConfigMaps are read one by one and by name.
    let requests = cluster.server.log().requests().into_iter();
    let mut verbs = requests
        .filter(|one| one.resource == "configmaps")
        .map(|one| one.verb);
    assert!(verbs.all(|verb| verb == Verb::Get));
}

#[tokio::test]
async fn inline_profile_and_reference_together_are_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.server.client(weir_apiserver::ADMIN).await.unwrap();
    let api = kube::Api::<weir_planner::spec::resource::SloService>::namespaced(admin, MODELS);
    let mut demo = cluster.demo();
    demo["spec"]["variants"][1]["profile"] = json!({"configMap": "large-profile"});
    let demo = serde_json::from_value(demo).unwrap();
    let refused = api.create(&kube::api::PostParams::default(), &demo).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("at most one of the two: latency (its model) or profile"),
        "{refused}"
    );
}
