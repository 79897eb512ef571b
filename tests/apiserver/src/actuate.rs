//! A resize on its node: infeasible, deferred, or started and later done or failed.
//!
//! The reasons are checked in a kubelet's order: first resources the node never has, then resources
//! it lacks now.

use std::time::Duration;

use serde_json::Value;

use super::cluster::Cluster;
use super::controllers::ScheduledEvent;
use super::journal::{Actuation, What};
use super::kubelet::{ResizeProgress, Resizing, schedule_retry, undefer};
use super::object::{Key, at, list, number, text};
use super::pods::{Amount, Resources, allocated, requests};
use super::status_of;

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

fn verdict(cluster: &Cluster, key: &Key, pod: &Value) -> Verdict {
    if !differs(pod) {
        return Verdict::Settled;
    }
    let node = text(pod, "/spec/nodeName");
    let found = cluster.store.get("nodes", &Key::new("", node));
    let allocatable = found.map(|node| Amount::of(at(&node, "/status/allocatable")));
    let requested = requests(pod);
    let kubelet = &cluster.controllers.kubelet;
    let resizing = kubelet.resizing(key);
    // A resize that only shrinks fits any node.
    let grows = requested.beyond(allocated(pod)).is_some();
    if let Resizing::Infeasible(why) = resizing
        && grows
    {
        return Verdict::Infeasible(why.clone());
    }
    if let Some((name, requested, all)) = allocatable.and_then(|all| requested.beyond(all)) {
        return Verdict::Infeasible(format!(
            "Node didn't have enough capacity: {name}, requested: {requested}, capacity: {all}"
        ));
    }
    let others = kubelet.ledger.others(node, key);
    if *resizing == Resizing::Deferred {
        return Verdict::Deferred("Deferred by the kubelet".to_owned());
    }
    if let Some((name, sum, all)) = allocatable.and_then(|all| requested.plus(others).beyond(all)) {
        let own = match name {
            "cpu" => requested.cpu_m,
            _ => requested.memory,
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
pub(super) fn resize(cluster: &mut Cluster, key: &Key) {
    let Some(pod) = cluster.store.get("pods", key) else {
        return;
    };
    let generation = number(&pod, "/metadata/generation").unwrap_or(0);
    let verdict = verdict(cluster, key, &pod);
    let kubelet = &mut cluster.controllers.kubelet;
    undefer(kubelet, key);
    let under_way = matches!(verdict, Verdict::Begun { .. });
    let seen = kubelet.seen.entry(key.clone()).or_default();
    *seen = ResizeProgress {
        generation,
        under_way,
        ..*seen
    };
    let now = cluster.clock.now();
    match verdict {
        Verdict::Settled => cluster.amend("pods", key, status_of::settled),
        Verdict::Infeasible(why) => {
            cluster.amend("pods", key, |pod| {
                status_of::pending(pod, "Infeasible", &why, &now)
            });
            status_of::event(cluster, &pod, "Warning", "ResizeInfeasible", &why);
        }
        Verdict::Deferred(why) => {
            let node = text(&pod, "/spec/nodeName").to_owned();
            let waiting = cluster
                .controllers
                .kubelet
                .deferred
                .entry(node)
                .or_default();
            waiting.push(key.clone());
            cluster.amend("pods", key, |pod| {
                status_of::pending(pod, "Deferred", &why, &now)
            });
            status_of::event(cluster, &pod, "Warning", "ResizeDeferred", &why);
        }
        Verdict::Begun { after, fails } => begin(cluster, key, &pod, (after, fails)),
    }
}

fn begin(cluster: &mut Cluster, key: &Key, pod: &Value, (after, fails): (Duration, bool)) {
    let now = cluster.clock.now();
    let shows = fails || after >= SHOWN_AFTER;
    cluster.amend("pods", key, |pod| status_of::allotted(pod, shows, &now));
    let allotted = cluster.store.get("pods", key);
    let kubelet = &mut cluster.controllers.kubelet;
    kubelet.targets.insert(key.clone(), status_of::targets(pod));
    if let Some(node) = kubelet.ledger.count(key, allotted.as_deref()) {
        cluster.controllers.may_fit = true;
        schedule_retry(cluster, &node);
    }
    status_of::event(
        cluster,
        pod,
        "Normal",
        "ResizeStarted",
        "Pod resize started",
    );
    let uid = text(pod, "/metadata/uid").to_owned();
    let generation = number(pod, "/metadata/generation").unwrap_or(0);
    let due = match fails {
        true => ScheduledEvent::Fail(key.clone(), uid, generation),
        false => ScheduledEvent::Resize(key.clone(), uid, generation),
    };
    cluster
        .controllers
        .plan(cluster.clock.elapsed() + after, due);
}

/// The containers have got their allocated resources.
pub(super) fn done(cluster: &mut Cluster, key: &Key, uid: &str, generation: i64) {
    let Some(pod) = cluster.store.get("pods", key) else {
        return;
    };
    let now = cluster.clock.now();
    let target = cluster
        .controllers
        .kubelet
        .targets
        .remove(key)
        .unwrap_or_default();
    let mut restarted = false;
    cluster.amend("pods", key, |pod| {
        restarted = status_of::actuated(pod, &target, generation, &now)
    });
    let after = cluster.store.get("pods", key);
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
    cluster
        .journal
        .write(cluster.clock.elapsed(), What::Actuated(actuation));
    status_of::event(
        cluster,
        &pod,
        "Normal",
        "ResizeCompleted",
        "Pod resize completed",
    );
    if restarted {
        let at = cluster.clock.elapsed() + cluster.options.ready_after;
        cluster
            .controllers
            .plan(at, ScheduledEvent::Ready(key.clone(), uid.to_owned()));
    }
    finish(cluster, key);
}

pub(super) fn fail(cluster: &mut Cluster, key: &Key, generation: i64) {
    let now = cluster.clock.now();
    let why = "the containers could not be resized";
    cluster.amend("pods", key, |pod| {
        status_of::failed(pod, generation, why, &now)
    });
    if let Some(pod) = cluster.store.get("pods", key) {
        status_of::event(cluster, &pod, "Warning", "ResizeError", why);
    }
    finish(cluster, key);
}

/// Ends a resize and handles a spec change that arrived meanwhile.
fn finish(cluster: &mut Cluster, key: &Key) {
    let generation = cluster
        .store
        .get("pods", key)
        .and_then(|pod| number(&pod, "/metadata/generation"));
    let seen = cluster
        .controllers
        .kubelet
        .seen
        .entry(key.clone())
        .or_default();
    seen.under_way = false;
    if generation.is_some_and(|generation| generation > seen.generation) {
        resize(cluster, key);
    }
}
