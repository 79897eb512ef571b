//! Tests of `fallback: replace`: a pod that cannot grow on its node is evicted and replaced, where that is
//! allowed.

use serde_json::{Value, json};
use weir_apiserver::{Key, Request, Resizing, Verb};
use weir_bed::operate::Planner;
use weir_bed::wait;

use super::bed::{Cluster, LIMIT, MODELS};

const LARGE: &str = "large-";

/// Starts two pods of `large`, one of which can never grow on its node.
async fn stage(may_evict: bool) -> (Cluster, Planner, Key) {
    stage_of(may_evict, |_| {}).await
}

async fn stage_of(may_evict: bool, change: impl FnOnce(&mut Value)) -> (Cluster, Planner, Key) {
    let cluster = Cluster::start().await;
    if may_evict {
        cluster.may_evict();
    }
    cluster.deploy("small", 1, 1);
    cluster.deploy("large", 2, 1);
    wait::until("pods", LIMIT, || large(&cluster).len() == 2)
        .await
        .unwrap();
    let blocked = large(&cluster).remove(0);
    let never = Resizing::Infeasible("Node didn't have enough capacity".to_owned());
    cluster.server.kubelet().resizes_of(&blocked, Some(never));
    let mut demo = cluster.demo();
    demo["spec"]["resize"]["fallback"] = json!("replace");
    demo["spec"]["variants"][1]["replicas"] = json!({"initial": 2, "min": 2, "max": 2});
    change(&mut demo["spec"]);
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(45.0);
    cluster.until_condition("demo", "Accepted", "True").await;
    (cluster, planner, blocked)
}

fn large(cluster: &Cluster) -> Vec<Key> {
    let pods = cluster.server.kubelet().pods().into_iter();
    let keys = pods.map(|pod| pod.key);
    keys.filter(|key| key.name.starts_with(LARGE)).collect()
}

fn evictions(cluster: &Cluster) -> Vec<Request> {
    let all = cluster.server.log().requests().into_iter();
    let evictions = all.filter(|one| one.verb == Verb::Create && one.resource == "pods/eviction");
    evictions.collect()
}

/// Cores of `large` in the status's plan.
fn planned(cluster: &Cluster) -> Value {
    cluster.resource("demo")["status"]["plans"][0]["variants"][1]["replicas"].clone()
}

#[tokio::test]
async fn pod_that_cannot_grow_is_replaced() {
    let (cluster, planner, blocked) = stage(true).await;
    let other = large(&cluster).into_iter().find(|pod| *pod != blocked);
    let other = other.unwrap();
    // 45 × 1.1 requests/s need more than 7 cores of `large` if one pod is limited to a single core.
    cluster
        .until_cores(&[LARGE.trim_end_matches('-')], |cores| cores[0] >= 6.0)
        .await;
    let pods = large(&cluster);
    assert!(
        pods.contains(&other) && !pods.contains(&blocked),
        "{pods:?}"
    );
    assert_eq!(pods.len(), 2, "{pods:?}");
    cluster
        .until_condition("demo", "Degraded", "False AsExpected")
        .await;
    wait::until("the plan", LIMIT, || planned(&cluster) == 2)
        .await
        .unwrap();
    let evicted = evictions(&cluster).into_iter();
    let evicted: Vec<Key> = evicted.map(|one| one.key).collect();
    assert!(!evicted.is_empty() && evicted.iter().all(|key| *key == blocked));
    planner.end().await.unwrap();
}

#[tokio::test]
async fn pod_stays_without_the_right_to_evict_and_that_is_reported() {
    let (cluster, planner, blocked) = stage(false).await;
    let missing = "not allowed to create pods/eviction";
    wait::until("the missing right", LIMIT, || {
        cluster.condition("demo", "Actuated").contains(missing)
    })
    .await
    .unwrap();
    assert!(large(&cluster).contains(&blocked));
    // The pod counts again, and the resize is not retried all the time.
    wait::until("the plan", LIMIT, || planned(&cluster) == 2)
        .await
        .unwrap();
    assert_eq!(evictions(&cluster).len(), 1);
    planner.end().await.unwrap();
    assert_eq!(large(&cluster).len(), 2);
}

#[tokio::test]
async fn pod_stays_if_its_replacement_exceeds_the_memory_budget() {
    let (cluster, planner, blocked) = stage_of(true, |spec| {
        // The budget equals the memory of the three existing pods.
        spec["budget"]["resources"] = json!({"memory": "3Gi"});
        for variant in [0, 1] {
            spec["variants"][variant]["resources"] = json!({"memory": "1Gi"});
        }
    })
    .await;
    let kept = "it is not replaced: what another one uses would exceed budget.resources now";
    wait::until("why it stays", LIMIT, || {
        cluster.condition("demo", "Actuated").contains(kept)
    })
    .await
    .unwrap();
    // With memory for one more pod, the eviction follows.
    assert_eq!(evictions(&cluster).len(), 0);
    let key = Key::new(MODELS, "demo");
    let store = cluster.server.store();
    store.amend("sloservices.weir.dev", &key, |resource| {
        resource["spec"]["budget"]["resources"]["memory"] = json!("4Gi");
    });
    wait::until("another pod", LIMIT, || !large(&cluster).contains(&blocked))
        .await
        .unwrap();
    assert!(!evictions(&cluster).is_empty());
    planner.end().await.unwrap();
}
