//! Autonomous parts of the cluster: kubelets, scheduler, workload controllers, disruption controller, garbage
//! collector.
//!
//! One function, [`run`], passes every store change to the controllers concerned, lets them act, and performs
//! scheduled events. Deterministic given the same requests at the same times: there are no tasks, and the only order
//! is the store's and the clock's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::cluster::{Cluster, FOREGROUND};
use super::eviction;
use super::kubelet::{self, Kubelet};
use super::namespaces;
use super::object::{Key, at, controller, holds, list, text};
use super::scheduler;
use super::stateful;
use super::store::{Event, EventKind};
use super::workloads;

/// A scheduled event. The uid or generation identifies the object: another may have the same name by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScheduledEvent {
    /// A pod's containers are running.
    Start(Key, String),
    /// A pod becomes ready.
    Ready(Key, String),
    /// A pod has ended.
    End(Key, String),
    /// The resize to a generation takes effect.
    Resize(Key, String, i64),
    /// The resize to a generation fails.
    Fail(Key, String, i64),
    /// Retries the deferred resizes on a node.
    Retry(String),
}

/// The controllers' own state.
#[derive(Debug)]
pub(super) struct Controllers {
    pub(super) kubelet: Kubelet,
    due: BTreeMap<(Duration, u64), ScheduledEvent>,
    planned: u64,
    /// Workloads to reconcile, by kind and key.
    pub(super) dirty: BTreeSet<(&'static str, Key)>,
    /// Namespaces whose disruption budgets are to be updated.
    pub(super) budgets: BTreeSet<String>,
    /// Pods without a node.
    pub(super) unscheduled: BTreeSet<Key>,
    /// Whether a node may have capacity for some of them.
    pub(super) may_fit: bool,
}

impl Controllers {
    pub(super) fn new() -> Controllers {
        Controllers {
            kubelet: Kubelet::new(),
            due: BTreeMap::new(),
            planned: 0,
            dirty: BTreeSet::new(),
            budgets: BTreeSet::new(),
            unscheduled: BTreeSet::new(),
            may_fit: false,
        }
    }

    /// Schedules an event at a time since the start; events of the same time keep this order.
    pub(super) fn plan(&mut self, at: Duration, due: ScheduledEvent) {
        self.planned += 1;
        self.due.insert((at, self.planned), due);
    }
}

/// Runs all controllers until nothing is left to do now. Returns the time of the next scheduled event.
pub(super) fn run(cluster: &mut Cluster) -> Option<Duration> {
    loop {
        let events = cluster.store.unseen();
        if !events.is_empty() {
            for event in &events {
                see(cluster, event);
            }
            continue;
        }
        // Due events go before the scans of many pods, which then run only once.
        let now = cluster.clock.elapsed();
        let next = cluster
            .controllers
            .due
            .first_key_value()
            .map(|(key, _)| *key);
        if let Some(key) = next.filter(|(at, _)| *at <= now) {
            if let Some(due) = cluster.controllers.due.remove(&key) {
                kubelet::act(cluster, due);
            }
            continue;
        }
        if scheduler::run(cluster) || workloads::run(cluster) {
            continue;
        }
        match cluster.controllers.budgets.pop_first() {
            Some(namespace) => eviction::refresh(cluster, &namespace),
            None => return next.map(|(at, _)| at),
        }
    }
}

/// Whether a change of a pod affects the number of pods or of ready pods.
fn counts(event: &Event) -> bool {
    let Some(before) = event
        .before
        .as_deref()
        .filter(|_| event.happened == EventKind::Modified)
    else {
        return true;
    };
    let state = |pod: &Value| {
        let going = !text(pod, "/metadata/deletionTimestamp").is_empty();
        (
            holds(pod, "Ready"),
            going,
            text(pod, "/status/phase").to_owned(),
        )
    };
    state(before) != state(&event.object)
        || at(before, "/metadata/labels") != at(&event.object, "/metadata/labels")
}

fn see(cluster: &mut Cluster, event: &Event) {
    let object = &event.object;
    let key = Key::of(object);
    match &*event.shelf {
        "pods" => {
            // The scheduler updates the ledger that the kubelet reads.
            scheduler::see_pod(cluster, event);
            kubelet::see_pod(cluster, event);
            if !counts(event) {
                return;
            }
            let shelf = match controller(object) {
                Some(("ReplicaSet", _)) => Some(workloads::SETS),
                Some(("StatefulSet", _)) => Some(stateful::STATEFUL),
                _ => None,
            };
            if let Some(shelf) = shelf {
                let owner = Key::new(&key.namespace, owner_name(object));
                cluster.controllers.dirty.insert((shelf, owner));
            }
            cluster.controllers.budgets.insert(key.namespace.clone());
        }
        "nodes" => {
            kubelet::see_node(cluster, event);
            cluster.controllers.may_fit = true;
        }
        workloads::SETS => {
            if let Some(("Deployment", _)) = controller(object) {
                let owner = Key::new(&key.namespace, owner_name(object));
                cluster
                    .controllers
                    .dirty
                    .insert((workloads::DEPLOYMENTS, owner));
            }
            cluster
                .controllers
                .dirty
                .insert((workloads::SETS, key.clone()));
        }
        workloads::DEPLOYMENTS => drop(
            cluster
                .controllers
                .dirty
                .insert((workloads::DEPLOYMENTS, key.clone())),
        ),
        stateful::STATEFUL => {
            cluster
                .controllers
                .dirty
                .insert((stateful::STATEFUL, key.clone()));
        }
        eviction::BUDGETS => {
            let namespace = key.namespace.clone();
            cluster.controllers.budgets.insert(namespace);
        }
        _ => {}
    }
    collect(cluster, event);
    if event.happened == EventKind::Deleted && !key.namespace.is_empty() {
        namespaces::finish(cluster, &key.namespace);
    }
}

fn owner_name(object: &Value) -> &str {
    let owners = list(object, "/metadata/ownerReferences");
    let controls = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    owners
        .iter()
        .find(controls)
        .map_or("", |owner| text(owner, "/name"))
}

/// Garbage collection: owned objects are deleted with their owner; with foreground deletion, the owner after them.
fn collect(cluster: &mut Cluster, event: &Event) {
    let object = &event.object;
    let uid = text(object, "/metadata/uid");
    let waits = |object: &Value| {
        let finalizers = list(object, "/metadata/finalizers");
        finalizers
            .iter()
            .any(|name| name.as_str() == Some(FOREGROUND))
    };
    let deleted = event.happened == EventKind::Deleted;
    if deleted || waits(object) {
        let owned = cluster.store.owned_by(uid);
        for (shelf, key) in &owned {
            let going = cluster.store.get(shelf, key);
            let going =
                going.is_none_or(|object| !text(&object, "/metadata/deletionTimestamp").is_empty());
            if let (false, Some(kind)) = (going, cluster.kinds.by_id(shelf)) {
                let policy = if deleted { "Background" } else { "Foreground" };
                cluster.delete(&kind, key, None, policy);
            }
        }
        if owned.is_empty() && !deleted {
            release(cluster, &event.shelf, &Key::of(object));
        }
    }
    if deleted {
        for owner in list(object, "/metadata/ownerReferences") {
            let kind = cluster.kinds.of_object(owner);
            let Some(kind) = kind else {
                continue;
            };
            let namespace = text(object, "/metadata/namespace");
            let key = Key::new(
                if kind.namespaced { namespace } else { "" },
                text(owner, "/name"),
            );
            let found = cluster.store.get(&kind.shelf, &key);
            if found.is_some_and(|owner| waits(&owner))
                && cluster.store.owned_by(text(owner, "/uid")).is_empty()
            {
                release(cluster, &kind.shelf, &key);
            }
        }
    }
}

fn release(cluster: &mut Cluster, shelf: &str, key: &Key) {
    cluster.amend(shelf, key, |object| {
        if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
            finalizers.retain(|name| name.as_str() != Some(FOREGROUND));
        }
    });
}
