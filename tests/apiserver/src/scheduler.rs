//! The scheduler: takes the first node, by name, with enough room and the labels a pod selects.
//!
//! No priorities, no preemption, no taints. A pod that fits nowhere gets a condition, and is
//! retried after any change that could make room.

use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{Key, at, condition, holds, set, set_condition, text, texts};
use super::pods::{Amount, requests};
use super::store::{Event, EventKind};
use super::world::World;

/// Default maximum of pods on a node, as in Kubernetes.
const PODS_MAX: i64 = 110;

pub(super) fn see_pod(world: &mut World, event: &Event) {
    let key = Key::of(&event.object);
    let there = event.happened != EventKind::Deleted;
    let current = there.then_some(&*event.object);
    if let Some(node) = world.controllers.kubelet.ledger.count(&key, current) {
        world.controllers.room = true;
        super::kubelet::room_on(world, &node);
    }
    let waits = there
        && text(&event.object, "/spec/nodeName").is_empty()
        && text(&event.object, "/metadata/deletionTimestamp").is_empty();
    match waits {
        true if event.happened == EventKind::Added => {
            world.controllers.unscheduled.insert(key);
            world.controllers.room = true;
        }
        true => {}
        false => drop(world.controllers.unscheduled.remove(&key)),
    }
}

/// Tries to place every pod without a node, if there may be room. Returns whether there was
/// anything to do.
pub(super) fn run(world: &mut World) -> bool {
    if !world.options.scheduler || !std::mem::take(&mut world.controllers.room) {
        return false;
    }
    let nodes = world.store.list("nodes", "", None);
    let nodes: Vec<Arc<Value>> = nodes.map(|(_, node)| Arc::clone(node)).collect();
    let waiting: Vec<Key> = world.controllers.unscheduled.iter().cloned().collect();
    for key in waiting {
        let Some(pod) = world.store.get("pods", &key) else {
            world.controllers.unscheduled.remove(&key);
            continue;
        };
        let found = nodes.iter().find_map(|node| match fits(world, &pod, node) {
            Ok(()) => Some(text(node, "/metadata/name").to_owned()),
            Err(_) => None,
        });
        match found {
            Some(node) => {
                world.controllers.unscheduled.remove(&key);
                let now = world.clock.now();
                world.amend("pods", &key, |pod| {
                    set(pod, "/spec/nodeName", json!(node));
                    set_condition(
                        pod,
                        json!({"type": "PodScheduled", "status": "True",
                        "lastProbeTime": null, "lastTransitionTime": now}),
                    );
                });
                // Counted at once, so that the next pod sees the remaining room.
                let bound = world.store.get("pods", &key);
                world
                    .controllers
                    .kubelet
                    .ledger
                    .count(&key, bound.as_deref());
            }
            None => unschedulable(world, &key, &pod, &nodes),
        }
    }
    true
}

fn fits(world: &World, pod: &Value, node: &Value) -> Result<(), &'static str> {
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
    let sums = world
        .controllers
        .kubelet
        .ledger
        .sums(text(node, "/metadata/name"));
    match sums
        .wanted
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

fn unschedulable(world: &mut World, key: &Key, pod: &Value, nodes: &[Arc<Value>]) {
    let mut reasons: std::collections::BTreeMap<&str, usize> = Default::default();
    for node in nodes {
        if let Err(reason) = fits(world, pod, node) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let told: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let message = match nodes.len() {
        0 => "no nodes available to schedule pods".to_owned(),
        count => format!("0/{count} nodes are available: {}.", told.join(", ")),
    };
    let now = world.clock.now();
    world.amend("pods", key, |pod| {
        set_condition(
            pod,
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastProbeTime": null, "lastTransitionTime": now}),
        );
    });
}
