//! StatefulSets: pods by ordinal. The next one is created once all before it are ready; the last one ends first, and
//! the next one once that is deleted. `podManagementPolicy: Parallel` does all at the same time. A deleted pod is
//! created again under its name. A changed template changes no existing pod (`updateStrategy: OnDelete`); volume
//! claims are not supported.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::object::{Key, at, holds, set, text};
use super::workloads::{make_pod, owned, replicas};

pub(super) const STATEFUL: &str = "statefulsets.apps";

pub(super) fn match_ordinals(cluster: &mut Cluster, key: &Key, owner: &Value) {
    let pods: BTreeMap<i64, Arc<Value>> = owned(cluster, owner, "pods")
        .into_iter()
        .filter_map(|pod| Some((ordinal(&pod)?, pod)))
        .collect();
    let parallel = text(owner, "/spec/podManagementPolicy") == "Parallel";
    let ends = |pod: &Value| !text(pod, "/metadata/deletionTimestamp").is_empty();
    let serves = |pod: &Value| !ends(pod) && holds(pod, "Ready");
    let target = replicas(owner);
    let mut in_order = true;
    for ordinal in 0..target {
        let pod = pods.get(&ordinal);
        if pod.is_none() {
            let name = format!("{}-{ordinal}", key.name);
            make_pod(cluster, owner, &name, "StatefulSet");
        }
        in_order &= pod.is_some_and(|pod| serves(pod));
        if !in_order && !parallel {
            break;
        }
    }
    let mut going = pods.values().any(|pod| ends(pod));
    let beyond = pods.range(target..).rev();
    for (_, pod) in beyond.filter(|(_, pod)| (in_order || parallel) && !ends(pod)) {
        if going && !parallel {
            break;
        }
        going = true;
        if let Some(kind) = cluster.kinds.by_id("pods") {
            cluster.delete(&kind, &Key::of(pod), None, "Background");
        }
    }
    let ready = pods.values().filter(|pod| holds(pod, "Ready")).count();
    let count = pods.len();
    cluster.amend(STATEFUL, key, |owner| {
        let generation = at(owner, "/metadata/generation").clone();
        set(owner, "/status/observedGeneration", generation);
        set(owner, "/status/replicas", json!(count));
        set(owner, "/status/readyReplicas", json!(ready));
        set(owner, "/status/availableReplicas", json!(ready));
    });
}

fn ordinal(pod: &Value) -> Option<i64> {
    let (_, ordinal) = text(pod, "/metadata/name").rsplit_once('-')?;
    ordinal.parse().ok()
}
