//! The scheduler: takes the first node, by name, with enough free capacity and the labels a pod selects.
//!
//! No priorities, no preemption, no taints. A pod that fits nowhere gets a condition, and is
//! retried after any change that could free capacity.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::object::{Key, at, condition, holds, set, set_condition, text, texts};
use super::pods::{Amount, requests};
use super::store::{Event, EventKind};

/// Default maximum of pods on a node, as in Kubernetes.
const PODS_MAX: i64 = 110;

pub(super) fn see_pod(cluster: &mut Cluster, event: &Event) {
    let key = Key::of(&event.object);
    let exists = event.happened != EventKind::Deleted;
    let current = exists.then_some(&*event.object);
    if let Some(node) = cluster.controllers.kubelet.ledger.count(&key, current) {
        cluster.controllers.may_fit = true;
        super::kubelet::schedule_retry(cluster, &node);
    }
    let waits = exists
        && text(&event.object, "/spec/nodeName").is_empty()
        && text(&event.object, "/metadata/deletionTimestamp").is_empty();
    match waits {
        true if event.happened == EventKind::Added => {
            cluster.controllers.unscheduled.insert(key);
            cluster.controllers.may_fit = true;
        }
        true => {}
        false => drop(cluster.controllers.unscheduled.remove(&key)),
    }
}

/// Tries to place every pod without a node, if one may fit. Returns whether there was
/// anything to do.
pub(super) fn run(cluster: &mut Cluster) -> bool {
    if !cluster.options.scheduler || !std::mem::take(&mut cluster.controllers.may_fit) {
        return false;
    }
    let nodes = cluster.store.list("nodes", "", None);
    let nodes: Vec<Arc<Value>> = nodes.map(|(_, node)| Arc::clone(node)).collect();
    let waiting: Vec<Key> = cluster.controllers.unscheduled.iter().cloned().collect();
    for key in waiting {
        let Some(pod) = cluster.store.get("pods", &key) else {
            cluster.controllers.unscheduled.remove(&key);
            continue;
        };
        let found = nodes
            .iter()
            .find_map(|node| match fits(cluster, &pod, node) {
                Ok(()) => Some(text(node, "/metadata/name").to_owned()),
                Err(_) => None,
            });
        match found {
            Some(node) => {
                cluster.controllers.unscheduled.remove(&key);
                let now = cluster.clock.now();
                cluster.amend("pods", &key, |pod| {
                    set(pod, "/spec/nodeName", json!(node));
                    set_condition(
                        pod,
                        json!({"type": "PodScheduled", "status": "True",
                        "lastProbeTime": null, "lastTransitionTime": now}),
                    );
                });
                // Counted at once, so that the next pod sees the remaining capacity.
                let bound = cluster.store.get("pods", &key);
                cluster
                    .controllers
                    .kubelet
                    .ledger
                    .count(&key, bound.as_deref());
            }
            None => unschedulable(cluster, &key, &pod, &nodes),
        }
    }
    true
}

fn fits(cluster: &Cluster, pod: &Value, node: &Value) -> Result<(), &'static str> {
    if at(node, "/spec/unschedulable") == &Value::Bool(true) {
        return Err("node(s) were unschedulable");
    }
    if condition(node, "Ready").is_some() && !holds(node, "Ready") {
        return Err("node(s) were not ready");
    }
    let labels = texts(node, "/metadata/labels");
    let selected = texts(pod, "/spec/nodeSelector");
    if !selected
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
    {
        return Err("node(s) didn't match Pod's node affinity/selector");
    }
    let allocatable = at(node, "/status/allocatable");
    let sums = cluster
        .controllers
        .kubelet
        .ledger
        .sums(text(node, "/metadata/name"));
    match sums
        .reserved
        .plus(requests(pod))
        .beyond(Amount::of(allocatable))
    {
        Some(("cpu", ..)) => return Err("Insufficient cpu"),
        Some(_) => return Err("Insufficient memory"),
        None => {}
    }
    let most = text(allocatable, "/pods").parse().unwrap_or(PODS_MAX);
    match i64::try_from(sums.pods).is_ok_and(|pods| pods < most) {
        true => Ok(()),
        false => Err("Too many pods"),
    }
}

fn unschedulable(cluster: &mut Cluster, key: &Key, pod: &Value, nodes: &[Arc<Value>]) {
    let mut reasons: std::collections::BTreeMap<&str, usize> = Default::default();
    for node in nodes {
        if let Err(reason) = fits(cluster, pod, node) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let parts: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let message = match nodes.len() {
        0 => "no nodes available to schedule pods".to_owned(),
        count => format!("0/{count} nodes are available: {}.", parts.join(", ")),
    };
    let now = cluster.clock.now();
    cluster.amend("pods", key, |pod| {
        set_condition(
            pod,
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastProbeTime": null, "lastTransitionTime": now}),
        );
    });
}
