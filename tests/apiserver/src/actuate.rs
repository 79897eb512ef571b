//! A resize on its node: infeasible, deferred, or started and later done or failed.
//!
//! The reasons are checked in a kubelet's order: first resources the node never has, then resources
//! it lacks now.

use std::time::Duration;

use serde_json::Value;

use super::controllers::ScheduledEvent;
use super::journal::{Actuation, What};
use super::kubelet::{ResizeProgress, Resizing, room_on, undefer};
use super::object::{Key, at, list, number, text};
use super::pods::{Amount, Resources, allocated, requests};
use super::status_of;
use super::world::World;

/// Time from a spec change until a CPU resize has taken effect, as measured on a real kubelet.
pub const ACTUATED_AFTER: Duration = Duration::from_millis(100);

/// Minimum duration of a resize that shows `PodResizeInProgress`; a shorter one is over before a
/// status is written.
const SHOWN_AFTER: Duration = Duration::from_millis(200);

/// The kubelet's decision about a resize.
enum Verdict {
    /// Nothing to resize.
    Settled,
    Infeasible(String),
    Deferred(String),
    /// It starts, and after this time succeeds or fails.
    Begun {
        after: Duration,
        fails: bool,
    },
}

/// Whether any container's resources differ from its spec.
fn differs(pod: &Value) -> bool {
    list(pod, "/spec/containers").iter().any(|container| {
        let name = text(container, "/name");
        let statuses = list(pod, "/status/containerStatuses").iter();
        let mut own = statuses.filter(|status| text(status, "/name") == name);
        own.next()
            .is_some_and(|status| at(status, "/resources") != &status_of::actual(container))
    })
}

fn verdict(world: &World, key: &Key, pod: &Value) -> Verdict {
    if !differs(pod) {
        return Verdict::Settled;
    }
    let node = text(pod, "/spec/nodeName");
    let found = world.store.get("nodes", &Key::new("", node));
    let allocatable = found.map(|node| Amount::of(at(&node, "/status/allocatable")));
    let wanted = requests(pod);
    let kubelet = &world.controllers.kubelet;
    let resizing = kubelet.resizing(key);
    // A resize that only shrinks fits any node.
    let grows = wanted.beyond(allocated(pod)).is_some();
    if let Resizing::Infeasible(why) = resizing
        && grows
    {
        return Verdict::Infeasible(why.clone());
    }
    if let Some((name, wanted, all)) = allocatable.and_then(|all| wanted.beyond(all)) {
        return Verdict::Infeasible(format!(
            "Node didn't have enough capacity: {name}, requested: {wanted}, capacity: {all}"
        ));
    }
    let others = kubelet.ledger.others(node, key);
    if *resizing == Resizing::Deferred {
        return Verdict::Deferred("Deferred by the kubelet".to_owned());
    }
    if let Some((name, sum, all)) = allocatable.and_then(|all| wanted.plus(others).beyond(all)) {
        let own = match name {
            "cpu" => wanted.cpu_m,
            _ => wanted.memory,
        };
        let used = sum - own;
        return Verdict::Deferred(format!(
            "Node didn't have enough resource: {name}, requested: {own}, used: {used}, capacity: {all}"
        ));
    }
    match resizing {
        Resizing::Actuated { after } => Verdict::Begun {
            after: *after,
            fails: false,
        },
        Resizing::Failed { after } => Verdict::Begun {
            after: *after,
            fails: true,
        },
        // The API server rejects these resizes, so they never arrive here. One accepted earlier
        // proceeds as usual.
        _ => Verdict::Begun {
            after: ACTUATED_AFTER,
            fails: false,
        },
    }
}

/// Handles the latest spec of a running pod.
pub(super) fn resize(world: &mut World, key: &Key) {
    let Some(pod) = world.store.get("pods", key) else {
        return;
    };
    let generation = number(&pod, "/metadata/generation").unwrap_or(0);
    let verdict = verdict(world, key, &pod);
    let kubelet = &mut world.controllers.kubelet;
    undefer(kubelet, key);
    let under_way = matches!(verdict, Verdict::Begun { .. });
    let seen = kubelet.seen.entry(key.clone()).or_default();
    *seen = ResizeProgress {
        generation,
        under_way,
        ..*seen
    };
    let now = world.clock.now();
    match verdict {
        Verdict::Settled => world.amend("pods", key, status_of::settled),
        Verdict::Infeasible(why) => {
            world.amend("pods", key, |pod| {
                status_of::pending(pod, "Infeasible", &why, &now)
            });
            status_of::event(world, &pod, "Warning", "ResizeInfeasible", &why);
        }
        Verdict::Deferred(why) => {
            let node = text(&pod, "/spec/nodeName").to_owned();
            let waiting = world.controllers.kubelet.deferred.entry(node).or_default();
            waiting.push(key.clone());
            world.amend("pods", key, |pod| {
                status_of::pending(pod, "Deferred", &why, &now)
            });
            status_of::event(world, &pod, "Warning", "ResizeDeferred", &why);
        }
        Verdict::Begun { after, fails } => begin(world, key, &pod, (after, fails)),
    }
}

fn begin(world: &mut World, key: &Key, pod: &Value, (after, fails): (Duration, bool)) {
    let now = world.clock.now();
    let shows = fails || after >= SHOWN_AFTER;
    world.amend("pods", key, |pod| status_of::allotted(pod, shows, &now));
    let allotted = world.store.get("pods", key);
    let kubelet = &mut world.controllers.kubelet;
    kubelet.targets.insert(key.clone(), status_of::targets(pod));
    if let Some(node) = kubelet.ledger.count(key, allotted.as_deref()) {
        world.controllers.room = true;
        room_on(world, &node);
    }
    status_of::event(world, pod, "Normal", "ResizeStarted", "Pod resize started");
    let uid = text(pod, "/metadata/uid").to_owned();
    let generation = number(pod, "/metadata/generation").unwrap_or(0);
    let due = match fails {
        true => ScheduledEvent::Fail(key.clone(), uid, generation),
        false => ScheduledEvent::Resize(key.clone(), uid, generation),
    };
    world.controllers.plan(world.clock.elapsed() + after, due);
}

/// The containers have got their allocated resources.
pub(super) fn done(world: &mut World, key: &Key, uid: &str, generation: i64) {
    let Some(pod) = world.store.get("pods", key) else {
        return;
    };
    let now = world.clock.now();
    let target = world
        .controllers
        .kubelet
        .targets
        .remove(key)
        .unwrap_or_default();
    let mut restarted = false;
    world.amend("pods", key, |pod| {
        restarted = status_of::actuated(pod, &target, generation, &now)
    });
    let after = world.store.get("pods", key);
    let actuation = Actuation {
        pod: key.clone(),
        uid: uid.to_owned(),
        node: text(&pod, "/spec/nodeName").to_owned(),
        generation,
        before: Resources::of_status(&pod),
        after: after
            .as_deref()
            .map(Resources::of_status)
            .unwrap_or_default(),
        restarted,
    };
    world
        .journal
        .write(world.clock.elapsed(), What::Actuated(actuation));
    status_of::event(
        world,
        &pod,
        "Normal",
        "ResizeCompleted",
        "Pod resize completed",
    );
    if restarted {
        let at = world.clock.elapsed() + world.options.ready_after;
        world
            .controllers
            .plan(at, ScheduledEvent::Ready(key.clone(), uid.to_owned()));
    }
    finish(world, key);
}

pub(super) fn fail(world: &mut World, key: &Key, generation: i64) {
    let now = world.clock.now();
    let why = "the containers could not be resized";
    world.amend("pods", key, |pod| {
        status_of::failed(pod, generation, why, &now)
    });
    if let Some(pod) = world.store.get("pods", key) {
        status_of::event(world, &pod, "Warning", "ResizeError", why);
    }
    finish(world, key);
}

/// Ends a resize and handles a spec change that arrived meanwhile.
fn finish(world: &mut World, key: &Key) {
    let generation = world
        .store
        .get("pods", key)
        .and_then(|pod| number(&pod, "/metadata/generation"));
    let seen = world
        .controllers
        .kubelet
        .seen
        .entry(key.clone())
        .or_default();
    seen.under_way = false;
    if generation.is_some_and(|generation| generation > seen.generation) {
        resize(world, key);
    }
}
