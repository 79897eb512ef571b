//! The kubelets: pods start, become ready, are resized and end, and their status shows it.
//!
//! A [`Resizing`] per pod, changeable at any time, sets the result of its resizes. A kubelet never changes a spec.
//! `status.containerStatuses[].resources` holds the containers' actual resources; [`Change`]s report it to tests.
//! `status_of` writes the statuses.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::actuate::{self, ACTUATED_AFTER};
use super::changes;
use super::cluster::Cluster;
use super::controllers::ScheduledEvent;
use super::ledger::Ledger;
use super::object::{Key, at, list, number, set, text};
use super::status_of;
use super::store::{Event, EventKind};

/// The result of a pod's resizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resizing {
    /// They take effect after a delay if the node has capacity; else they are deferred until it has.
    Actuated {
        /// Delay from the spec change until the containers are resized.
        after: Duration,
    },
    /// They are deferred until this setting changes.
    Deferred,
    /// They are infeasible, with this message (condition `PodResizePending`, reason `Infeasible`).
    Infeasible(String),
    /// The API server rejects them: 403, with cause `UnsupportedPlatform`.
    Refused(String),
    /// They start, and fail after a delay (`PodResizeInProgress`, reason `Error`).
    Failed {
        /// Delay from the spec change until the condition shows it.
        after: Duration,
    },
}

/// A resize handled by the kubelet: its generation and state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ResizeProgress {
    pub(super) generation: i64,
    pub(super) under_way: bool,
    pub(super) started: bool,
}

/// All nodes' kubelets.
#[derive(Debug)]
pub(super) struct Kubelet {
    pub(super) ledger: Ledger,
    pub(super) usual: Resizing,
    pub(super) by_pod: BTreeMap<Key, Resizing>,
    pub(super) seen: BTreeMap<Key, ResizeProgress>,
    /// Pod → resources that its containers are being given, by container name.
    pub(super) targets: BTreeMap<Key, Value>,
    /// Node → pods with a deferred resize, in the order they were deferred.
    pub(super) deferred: BTreeMap<String, Vec<Key>>,
    pub(super) addresses: u32,
    pub(super) events: std::collections::VecDeque<Key>,
}

/// Delay until a deferred resize is retried once there is capacity, as measured on a real kubelet.
const RETRIED_AFTER: Duration = Duration::from_secs(1);

impl Kubelet {
    pub(super) fn new() -> Kubelet {
        Kubelet {
            ledger: Ledger::default(),
            usual: Resizing::Actuated {
                after: ACTUATED_AFTER,
            },
            by_pod: BTreeMap::new(),
            seen: BTreeMap::new(),
            targets: BTreeMap::new(),
            deferred: BTreeMap::new(),
            addresses: 0,
            events: Default::default(),
        }
    }

    pub(super) fn resizing(&self, pod: &Key) -> &Resizing {
        self.by_pod.get(pod).unwrap_or(&self.usual)
    }

    /// The message with which the API server rejects resizes of the pod, if it does.
    pub(super) fn refuses(&self, pod: &Key) -> Option<String> {
        match self.resizing(pod) {
            Resizing::Refused(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// Retries the resize of a pod, or of all, after its [`Resizing`] has changed.
pub(super) fn retry_resizes(cluster: &mut Cluster, pod: Option<&Key>) {
    let waiting = cluster.controllers.kubelet.deferred.values().flatten();
    let waiting: Vec<Key> = waiting
        .filter(|key| pod.is_none_or(|pod| pod == *key))
        .cloned()
        .collect();
    for key in waiting {
        actuate::resize(cluster, &key);
    }
}

/// Restarts all kubelets: only a restart makes them check infeasible resizes again.
pub(super) fn restart(cluster: &mut Cluster) {
    let keys: Vec<Key> = cluster.controllers.kubelet.seen.keys().cloned().collect();
    let infeasible = |key: &Key| {
        let pod = cluster.store.get("pods", key);
        pod.is_some_and(|pod| {
            let mut conditions = list(&pod, "/status/conditions").iter();
            conditions.any(|one| text(one, "/reason") == "Infeasible")
        })
    };
    let infeasible: Vec<Key> = keys.into_iter().filter(infeasible).collect();
    for key in infeasible {
        actuate::resize(cluster, &key);
    }
}

/// Schedules a retry of the deferred resizes on a node that has more free capacity.
pub(super) fn schedule_retry(cluster: &mut Cluster, node: &str) {
    if cluster.controllers.kubelet.deferred.contains_key(node) {
        let at = cluster.clock.elapsed() + RETRIED_AFTER;
        cluster
            .controllers
            .plan(at, ScheduledEvent::Retry(node.to_owned()));
    }
}

pub(super) fn see_node(cluster: &mut Cluster, event: &Event) {
    schedule_retry(cluster, text(&event.object, "/metadata/name"));
}

pub(super) fn see_pod(cluster: &mut Cluster, event: &Event) {
    changes::notify(cluster, event);
    let pod = &event.object;
    let key = Key::of(pod);
    if event.happened == EventKind::Deleted {
        let kubelet = &mut cluster.controllers.kubelet;
        kubelet.seen.remove(&key);
        kubelet.by_pod.remove(&key);
        kubelet.targets.remove(&key);
        undefer(kubelet, &key);
        return;
    }
    if !cluster.options.kubelet || text(pod, "/spec/nodeName").is_empty() {
        return;
    }
    let uid = || text(pod, "/metadata/uid").to_owned();
    let now = cluster.clock.elapsed();
    if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        let before = event.before.as_ref();
        let same = |path: &str| before.is_some_and(|before| at(before, path) == at(pod, path));
        if !(same("/metadata/deletionTimestamp") && same("/metadata/deletionGracePeriodSeconds")) {
            let seconds = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
            let grace = Duration::from_secs(seconds.unsigned_abs());
            let wait = cluster
                .options
                .exits_after
                .map_or(grace, |exits| exits.min(grace));
            cluster
                .controllers
                .plan(now + wait, ScheduledEvent::End(key, uid()));
        }
        return;
    }
    let seen = cluster
        .controllers
        .kubelet
        .seen
        .entry(key.clone())
        .or_default();
    if text(pod, "/status/phase") != "Running" {
        if !seen.started {
            seen.started = true;
            let at = now + cluster.options.starts_after;
            cluster
                .controllers
                .plan(at, ScheduledEvent::Start(key, uid()));
        }
        return;
    }
    let generation = number(pod, "/metadata/generation").unwrap_or(0);
    if seen.generation < generation && !seen.under_way {
        actuate::resize(cluster, &key);
    }
}

pub(super) fn undefer(kubelet: &mut Kubelet, key: &Key) {
    for waiting in kubelet.deferred.values_mut() {
        waiting.retain(|other| other != key);
    }
    kubelet.deferred.retain(|_, waiting| !waiting.is_empty());
}

/// Performs a scheduled event.
pub(super) fn act(cluster: &mut Cluster, due: ScheduledEvent) {
    let is = |cluster: &Cluster, key: &Key, uid: &str| {
        let pod = cluster.store.get("pods", key);
        pod.is_some_and(|pod| text(&pod, "/metadata/uid") == uid)
    };
    match due {
        ScheduledEvent::Start(key, uid) if is(cluster, &key, &uid) => start(cluster, key, uid),
        ScheduledEvent::Ready(key, uid) if is(cluster, &key, &uid) => {
            let now = cluster.clock.now();
            cluster.amend("pods", &key, |pod| {
                // A terminating pod no longer becomes ready.
                if text(pod, "/metadata/deletionTimestamp").is_empty() {
                    status_of::ready(pod, true, &now);
                }
            });
        }
        ScheduledEvent::End(key, uid) if is(cluster, &key, &uid) => {
            cluster.amend("pods", &key, |pod| {
                set(pod, "/metadata/deletionGracePeriodSeconds", 0.into());
            });
        }
        ScheduledEvent::Resize(key, uid, generation) if is(cluster, &key, &uid) => {
            actuate::done(cluster, &key, &uid, generation)
        }
        ScheduledEvent::Fail(key, uid, generation) if is(cluster, &key, &uid) => {
            actuate::fail(cluster, &key, generation)
        }
        ScheduledEvent::Retry(node) => {
            let waiting = cluster.controllers.kubelet.deferred.get(&node).cloned();
            for key in waiting.into_iter().flatten() {
                actuate::resize(cluster, &key);
            }
        }
        // The pod was deleted.
        _ => {}
    }
}

fn start(cluster: &mut Cluster, key: Key, uid: String) {
    let kubelet = &mut cluster.controllers.kubelet;
    kubelet.addresses += 1;
    let own = status_of::address(kubelet.addresses);
    let ip = cluster.options.pods_at.map_or(own, |ip| ip.to_string());
    let now = cluster.clock.now();
    cluster.amend("pods", &key, |pod| status_of::started(pod, &ip, &now));
    let pod = cluster.store.get("pods", &key);
    let generation = pod
        .and_then(|pod| number(&pod, "/metadata/generation"))
        .unwrap_or(0);
    let seen = cluster
        .controllers
        .kubelet
        .seen
        .entry(key.clone())
        .or_default();
    seen.generation = generation;
    let at = cluster.clock.elapsed() + cluster.options.ready_after;
    cluster
        .controllers
        .plan(at, ScheduledEvent::Ready(key, uid));
}
