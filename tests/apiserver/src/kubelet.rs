//! The kubelets: pods start, become ready, are resized and end, and their status says so.
//!
//! How a resize goes is a [`Resizing`] per pod, changeable while it runs. A kubelet never changes a spec.
//! What a pod's containers have is what `status.containerStatuses[].resources` says; [`Change`]s tell
//! tests of it. Statuses themselves are written in `status_of`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::actuate::{self, ACTUATED_AFTER};
use super::changes;
use super::controllers::Due;
use super::ledger::Ledger;
use super::object::{Key, at, list, number, set, text};
use super::status_of;
use super::store::{Event, Happened};
use super::world::World;

/// How resizes of a pod go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resizing {
    /// They take effect after so long, if the node has room; else they are deferred until it has.
    Actuated {
        /// From the change of the spec until the containers have it.
        after: Duration,
    },
    /// They are deferred until this is changed.
    Deferred,
    /// They are infeasible, for the reason told (condition `PodResizePending`, reason `Infeasible`).
    Infeasible(String),
    /// They are refused by the API server: 403, with cause `UnsupportedPlatform`.
    Refused(String),
    /// They begin, and after so long turn out to have failed (`PodResizeInProgress`, reason `Error`).
    Failed {
        /// From the change of the spec until the condition says so.
        after: Duration,
    },
}

/// A resize that has been seen: of which generation, and whether it still goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
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
    pub(super) seen: BTreeMap<Key, Seen>,
    /// Pod → what its containers are being given, by their names.
    pub(super) targets: BTreeMap<Key, Value>,
    /// Node → pods whose resize waits for room, in the order they began to.
    pub(super) deferred: BTreeMap<String, Vec<Key>>,
    pub(super) addresses: u32,
    pub(super) events: std::collections::VecDeque<Key>,
}

/// From the moment there is room until a deferred resize is tried again, as seen on a real kubelet.
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

    /// Why the API server refuses to resize a pod, if it is to.
    pub(super) fn refuses(&self, pod: &Key) -> Option<String> {
        match self.resizing(pod) {
            Resizing::Refused(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// Tries the resize of a pod, or of all, again: how they go has changed.
pub(super) fn reconsider(world: &mut World, pod: Option<&Key>) {
    let waiting = world.controllers.kubelet.deferred.values().flatten();
    let waiting: Vec<Key> = waiting
        .filter(|key| pod.is_none_or(|pod| pod == *key))
        .cloned()
        .collect();
    for key in waiting {
        actuate::resize(world, &key);
    }
}

/// All kubelets begin anew: what was infeasible is looked at again, as it is not otherwise.
pub(super) fn restart(world: &mut World) {
    let keys: Vec<Key> = world.controllers.kubelet.seen.keys().cloned().collect();
    let infeasible = |key: &Key| {
        let pod = world.store.get("pods", key);
        pod.is_some_and(|pod| {
            let mut conditions = list(&pod, "/status/conditions").iter();
            conditions.any(|one| text(one, "/reason") == "Infeasible")
        })
    };
    let infeasible: Vec<Key> = keys.into_iter().filter(infeasible).collect();
    for key in infeasible {
        actuate::resize(world, &key);
    }
}

/// There is more room on a node: what is deferred there is tried again a while later.
pub(super) fn room_on(world: &mut World, node: &str) {
    if world.controllers.kubelet.deferred.contains_key(node) {
        let at = world.clock.elapsed() + RETRIED_AFTER;
        world.controllers.plan(at, Due::Retry(node.to_owned()));
    }
}

pub(super) fn see_node(world: &mut World, event: &Event) {
    room_on(world, text(&event.object, "/metadata/name"));
}

pub(super) fn see_pod(world: &mut World, event: &Event) {
    changes::tell(world, event);
    let pod = &event.object;
    let key = Key::of(pod);
    if event.happened == Happened::Deleted {
        let kubelet = &mut world.controllers.kubelet;
        kubelet.seen.remove(&key);
        kubelet.by_pod.remove(&key);
        kubelet.targets.remove(&key);
        undefer(kubelet, &key);
        return;
    }
    if !world.options.kubelet || text(pod, "/spec/nodeName").is_empty() {
        return;
    }
    let uid = || text(pod, "/metadata/uid").to_owned();
    let now = world.clock.elapsed();
    if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        let before = event.before.as_ref();
        let same = |path: &str| before.is_some_and(|before| at(before, path) == at(pod, path));
        if !(same("/metadata/deletionTimestamp") && same("/metadata/deletionGracePeriodSeconds")) {
            let seconds = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
            let grace = Duration::from_secs(seconds.unsigned_abs());
            let wait = world
                .options
                .exits_after
                .map_or(grace, |exits| exits.min(grace));
            world.controllers.plan(now + wait, Due::End(key, uid()));
        }
        return;
    }
    let seen = world
        .controllers
        .kubelet
        .seen
        .entry(key.clone())
        .or_default();
    if text(pod, "/status/phase") != "Running" {
        if !seen.started {
            seen.started = true;
            let at = now + world.options.starts_after;
            world.controllers.plan(at, Due::Start(key, uid()));
        }
        return;
    }
    let generation = number(pod, "/metadata/generation").unwrap_or(0);
    if seen.generation < generation && !seen.under_way {
        actuate::resize(world, &key);
    }
}

pub(super) fn undefer(kubelet: &mut Kubelet, key: &Key) {
    for waiting in kubelet.deferred.values_mut() {
        waiting.retain(|other| other != key);
    }
    kubelet.deferred.retain(|_, waiting| !waiting.is_empty());
}

/// Does what is due.
pub(super) fn act(world: &mut World, due: Due) {
    let is = |world: &World, key: &Key, uid: &str| {
        let pod = world.store.get("pods", key);
        pod.is_some_and(|pod| text(&pod, "/metadata/uid") == uid)
    };
    match due {
        Due::Start(key, uid) if is(world, &key, &uid) => start(world, key, uid),
        Due::Ready(key, uid) if is(world, &key, &uid) => {
            let now = world.clock.now();
            world.amend("pods", &key, |pod| {
                // What is on its way out does not become ready any more.
                if text(pod, "/metadata/deletionTimestamp").is_empty() {
                    status_of::ready(pod, true, &now);
                }
            });
        }
        Due::End(key, uid) if is(world, &key, &uid) => {
            world.amend("pods", &key, |pod| {
                set(pod, "/metadata/deletionGracePeriodSeconds", 0.into());
            });
        }
        Due::Resize(key, uid, generation) if is(world, &key, &uid) => {
            actuate::done(world, &key, &uid, generation)
        }
        Due::Fail(key, uid, generation) if is(world, &key, &uid) => {
            actuate::fail(world, &key, generation)
        }
        Due::Retry(node) => {
            let waiting = world.controllers.kubelet.deferred.get(&node).cloned();
            for key in waiting.into_iter().flatten() {
                actuate::resize(world, &key);
            }
        }
        // Of a pod that is gone.
        _ => {}
    }
}

fn start(world: &mut World, key: Key, uid: String) {
    let kubelet = &mut world.controllers.kubelet;
    kubelet.addresses += 1;
    let own = status_of::address(kubelet.addresses);
    let ip = world.options.pods_at.map_or(own, |ip| ip.to_string());
    let now = world.clock.now();
    world.amend("pods", &key, |pod| status_of::started(pod, &ip, &now));
    let pod = world.store.get("pods", &key);
    let generation = pod
        .and_then(|pod| number(&pod, "/metadata/generation"))
        .unwrap_or(0);
    let seen = world
        .controllers
        .kubelet
        .seen
        .entry(key.clone())
        .or_default();
    seen.generation = generation;
    let at = world.clock.elapsed() + world.options.ready_after;
    world.controllers.plan(at, Due::Ready(key, uid));
}
