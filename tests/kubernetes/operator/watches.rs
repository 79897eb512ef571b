//! Watches without the right or the kind, and autoscalers that cannot be listed.

use std::time::Duration;

use serde_json::json;
use weir_apiserver::{Fault, Key, Rule, Verb};
use weir_bed::wait;

use super::bed::{BOTH, Cluster, LIMIT, MODELS};

/// Time in which a watch that is forbidden tries a few times at most.
const BACKED_OFF: Duration = Duration::from_secs(8);
/// Time in which nothing is to change.
const QUIET: Duration = Duration::from_secs(3);

/// Number of requests for lists of that resource.
fn lists(cluster: &Cluster, resource: &str) -> usize {
    let all = cluster.server.log().requests().into_iter();
    all.filter(|one| one.resource == resource && one.verb == Verb::List)
        .count()
}

fn resized(cluster: &Cluster) -> bool {
    let mut all = cluster.server.log().requests().into_iter();
    all.any(|one| one.resource == "pods/resize")
}

/// On a real cluster without the right the list was tried once a second for ever.
#[tokio::test]
async fn watch_without_right_backs_off_and_its_reason_is_a_condition() {
    let cluster = Cluster::start_with_both().await;
    let mut demo = cluster.demo();
    demo["spec"]["proxies"] = json!({"timeout": "200ms", "pods": {"labels": {"app": "gateway"}, "namespace": "kube-system"}});
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    let message = cluster
        .until_condition("demo", "Degraded", "True NoProxies")
        .await;
    assert!(
        message.contains("the proxies' pods of namespace kube-system cannot be listed: forbidden: pods is forbidden"),
        "{message}"
    );
    // 0.8, 1.6, 3.2 and 6.4 s lie between the attempts.
    let refused = || {
        let all = cluster.server.log().requests().into_iter();
        let lists = all.filter(|one| one.resource == "pods" && one.status == 403);
        lists.count()
    };
    let more = wait::until("a sixth attempt", BACKED_OFF, || refused() > 5).await;
    assert!(more.is_err() && refused() >= 3, "{} lists", refused());
    planner.end().await.unwrap();
}

#[tokio::test]
async fn invalid_labels_and_namespace_of_proxies_are_refused() {
    let cluster = Cluster::start().await;
    let planner = cluster.planner("weir-a").await;
    for (name, pods, expected) in [
        (
            "labels",
            json!({"labels": {"a b": "c d!"}}),
            "proxies.pods.labels: a b=c d!; it must be labels",
        ),
        (
            "namespace",
            json!({"labels": {"a": "b"}, "namespace": "no such!"}),
            "proxies.pods.namespace: no such!; it must be a namespace",
        ),
    ] {
        let mut demo = cluster.demo();
        demo["metadata"]["name"] = json!(name);
        demo["spec"]["proxies"] = json!({"timeout": "200ms", "pods": pods});
        cluster.server.store().create(&demo).unwrap();
        let message = cluster
            .until_condition(name, "Accepted", "False Invalid")
            .await;
        assert!(message.contains(expected), "{message}");
    }
    planner.end().await.unwrap();
}

#[tokio::test]
async fn unlisted_autoscalers_block_every_change() {
    let cluster = Cluster::start_with_both().await;
    let forbidden = Rule::always(Fault::Forbidden).resource("horizontalpodautoscalers");
    cluster.server.faults().add(forbidden);
    cluster.server.store().create(&cluster.demo()).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    let message = cluster
        .until_condition("demo", "Degraded", "True NotObserved")
        .await;
    assert!(
        message.contains("HorizontalPodAutoscalers cannot be listed: forbidden: "),
        "{message}"
    );
    wait::until("the demand", LIMIT, || {
        cluster.resource("demo")["status"]["demandRps"]
            .as_f64()
            .is_some_and(|rate| rate > 40.0)
    })
    .await
    .unwrap();
    assert!(!resized(&cluster));
    cluster.server.faults().clear();
    cluster
        .until_cores(&BOTH, |cores| cores.iter().sum::<f64>() >= 5.0)
        .await;
    cluster
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;
    planner.end().await.unwrap();
}

#[tokio::test]
async fn autoscaler_shows_while_nothing_changes_and_absent_kind_is_none() {
    let cluster = Cluster::start_with_both().await;
    cluster.server.store().create(&cluster.demo()).unwrap();
    let absent = Rule::always(Fault::NotFound).resource("verticalpodautoscalers");
    cluster.server.faults().add(absent);
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(5.0);
    cluster
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    assert!(lists(&cluster, "verticalpodautoscalers") >= 1);
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "old", "namespace": MODELS},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "large"}, "maxReplicas": 3},
    });
    cluster.server.store().create(&scaler).unwrap();
    cluster
        .until_condition("demo", "Degraded", "True ConflictingWriter")
        .await;
    // It stays, although plan and pods agree.
    let flips = || {
        let degraded = cluster.condition("demo", "Degraded");
        !degraded.starts_with("True ConflictingWriter")
    };
    let flips = wait::until("another reason", QUIET, flips).await;
    assert!(flips.is_err(), "{}", cluster.condition("demo", "Degraded"));
    let key = Key::new(MODELS, "old");
    let store = cluster.server.store();
    store.remove("horizontalpodautoscalers.autoscaling", &key);
    cluster
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    planner.end().await.unwrap();
}
