//! The pods' memory budget limits their number, including pods that are ending or starting.

use std::collections::BTreeSet;

use serde_json::json;
use tokio::sync::broadcast::Receiver;
use weir_apiserver::{Change, Happening, Key, PodNow};

use super::bed::{Cluster, MODELS};

/// Maximum number of pods at first.
const PODS: usize = 3;

fn pods(cluster: &Cluster, of: &str) -> Vec<PodNow> {
    let all = cluster.server.kubelet().pods().into_iter();
    all.filter(|pod| pod.key.name.starts_with(of)).collect()
}

/// Maximum number of pods at any time.
fn most_of(changes: &mut Receiver<Change>, present: &mut BTreeSet<String>) -> usize {
    let mut most = present.len();
    while let Ok(change) = changes.try_recv() {
        match change.happening {
            Happening::Deleted => present.remove(&change.pod.uid),
            _ => present.insert(change.pod.uid),
        };
        most = most.max(present.len());
    }
    most
}

#[tokio::test]
async fn memory_budget_limits_the_number_of_pods() {
    let cluster = Cluster::start_with_both().await;
    let mut changes = cluster.server.subscribe();
    let mut demo = cluster.demo();
    let spec = &mut demo["spec"];
    spec["budget"] = json!({"cores": 12, "resources": {"memory": "6Gi"}});
    for (variant, most) in [(0, 6), (1, 1)] {
        let variant = &mut spec["variants"][variant];
        variant["cores"] = json!({"initial": 1, "min": 1, "max": 2});
        variant["replicas"] = json!({"initial": 1, "min": 1, "max": most});
        variant["resources"] = json!({"memory": "2Gi"});
    }
    cluster.server.store().create(&demo).unwrap();
    let planner = cluster.planner("weir-a").await;
    // More than three pods of two cores carry, and less than six.
    cluster.proxy.load(90.0);
    let message = cluster
        .until_condition("demo", "Planned", "True DemandAboveCapacity")
        .await;
    assert!(
        message.contains("; more replicas would hold too much memory: 6Gi of 6Gi"),
        "{message}"
    );
    cluster
        .until_cores(&["small"], |cores| cores.len() == 1 && cores[0] >= 4.0)
        .await;
    assert_eq!(
        (
            pods(&cluster, "small-").len(),
            pods(&cluster, "large-").len()
        ),
        (2, 1)
    );
    let metrics = planner.metrics().await.unwrap();
    for line in [
        "weir_planner_resource_used{resource=\"memory\",service=\"demo\"} 6442450944",
        "weir_planner_resource_budget{resource=\"memory\",service=\"demo\"} 6442450944",
    ] {
        assert!(metrics.contains(line), "no '{line}' in\n{metrics}");
    }
    let mut present = BTreeSet::new();
    assert_eq!(most_of(&mut changes, &mut present), PODS);
    // The memory budget grows by a third.
    let key = Key::new(MODELS, "demo");
    cluster
        .server
        .store()
        .amend("sloservices.weir.dev", &key, |resource| {
            resource["spec"]["budget"]["resources"]["memory"] = json!("8Gi");
        });
    cluster
        .until_cores(&["small"], |cores| cores[0] >= 6.0)
        .await;
    assert_eq!(pods(&cluster, "small-").len(), 3);
    planner.end().await.unwrap();
    assert_eq!(most_of(&mut changes, &mut present), PODS + 1);
}
