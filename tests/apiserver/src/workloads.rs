//! Deployments and ReplicaSets: pods are created from a template and deleted until the replica count is reached.
//!
//! A changed template is rolled out within the deployment's surge and unavailability (or all at once, with Recreate);
//! no history, no pausing, no rollback. Scale-down uses Kubernetes' order: without a node, not running, not ready,
//! the lower `pod-deletion-cost`, ready for a shorter time, newest.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::eviction::share;
use super::object::{Key, at, condition, holds, number, remove, set, set_condition, text, texts};
use super::pods;
use super::stateful::{self, STATEFUL};
use super::world::World;

pub(super) const DEPLOYMENTS: &str = "deployments.apps";
pub(super) const SETS: &str = "replicasets.apps";

const HASH: &str = "pod-template-hash";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Reconciles the next dirty workload. Returns whether there was any.
pub(super) fn run(world: &mut World) -> bool {
    let Some((kind, key)) = world.controllers.dirty.pop_first() else {
        return false;
    };
    if !world.options.workloads {
        return true;
    }
    let Some(object) = world.store.get(kind, &key) else {
        return true;
    };
    if text(&object, "/metadata/deletionTimestamp").is_empty() {
        match kind {
            DEPLOYMENTS => roll(world, &key, &object),
            STATEFUL => stateful::match_ordinals(world, &key, &object),
            _ => match_replicas(world, &key, &object),
        }
    }
    true
}

/// The objects of a kind that an owner owns.
pub(super) fn owned(world: &World, owner: &Value, shelf: &str) -> Vec<Arc<Value>> {
    let all = world.store.owned_by(text(owner, "/metadata/uid"));
    let of_kind = all.into_iter().filter(|(other, _)| &**other == shelf);
    of_kind
        .filter_map(|(shelf, key)| world.store.get(&shelf, &key))
        .collect()
}

fn owner_of(object: &Value, kind: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": at(object, "/metadata/name"),
        "uid": at(object, "/metadata/uid"), "controller": true, "blockOwnerDeletion": true}])
}

/// Maximum pods of a set: ten times the intended size, so that a mistake does not fill the memory.
const REPLICAS_MAX: i64 = 5_000;

pub(super) fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas")
        .unwrap_or(1)
        .clamp(0, REPLICAS_MAX)
}

/// Ten digits of a template's hash, the suffix of its ReplicaSet's name.
fn hash(template: &Value) -> String {
    let digits = u64::from(crc32fast::hash(template.to_string().as_bytes()));
    format!("{:09x}", digits ^ 0x5_0000_0000)
}

fn roll(world: &mut World, key: &Key, deployment: &Value) {
    let hash = hash(at(deployment, "/spec/template"));
    let name = format!("{}-{hash}", key.name);
    let sets = owned(world, deployment, SETS);
    let (new, old): (Vec<_>, Vec<_>) = sets
        .into_iter()
        .partition(|set| text(set, "/metadata/name") == name);
    let wanted = replicas(deployment);
    let of = |sets: &[Arc<Value>], path: &str| {
        sets.iter()
            .map(|set| number(set, path).unwrap_or(0))
            .sum::<i64>()
    };
    let recreate = text(deployment, "/spec/strategy/type") == "Recreate";
    let rolling = |name: &str| {
        let value = at(deployment, &format!("/spec/strategy/rollingUpdate/{name}"));
        if value.is_null() {
            json!("25%")
        } else {
            value.clone()
        }
    };
    let surge = share(&rolling("maxSurge"), wanted).unwrap_or(1);
    let unavailable = match rolling("maxUnavailable") {
        // Rounded down, unlike all other percentages.
        Value::String(percent) => {
            percent
                .trim_end_matches('%')
                .parse::<i64>()
                .unwrap_or(0)
                .saturating_mul(wanted)
                / 100
        }
        number => number.as_i64().unwrap_or(0),
    };
    let old_replicas = of(&old, "/spec/replicas");
    let room = match (old_replicas, recreate) {
        (0, _) => wanted,
        (_, true) if of(&old, "/status/replicas") > 0 => 0,
        _ => (wanted + surge - old_replicas).clamp(0, wanted),
    };
    match new.first() {
        None => make_set(world, key, deployment, &hash, room),
        Some(set_now) => {
            // The new set never shrinks to make room; the old ones do.
            let target = if old_replicas == 0 {
                wanted
            } else {
                room.max(replicas(set_now).min(wanted))
            };
            scale_set(world, &Key::of(set_now), target);
        }
    }
    // A set that was told to shrink counts as shrunk, even if its pods still exist.
    let still = |set: &Value| {
        number(set, "/status/readyReplicas")
            .unwrap_or(0)
            .min(replicas(set))
    };
    let ready = of(&new, "/status/readyReplicas") + old.iter().map(|set| still(set)).sum::<i64>();
    let mut spare = if recreate {
        i64::MAX
    } else {
        (ready - (wanted - unavailable)).max(0)
    };
    for old_set in &old {
        let less = still(old_set).min(spare);
        spare -= less;
        // Pods that are not ready serve nothing, and are removed at once.
        scale_set(world, &Key::of(old_set), still(old_set) - less);
    }
    report(world, key, &new, &old, wanted);
}

fn make_set(world: &mut World, key: &Key, deployment: &Value, hash: &str, replicas: i64) {
    let Some(kind) = world.kinds.by_id(SETS) else {
        return;
    };
    let mut template = at(deployment, "/spec/template").clone();
    set(
        &mut template,
        &format!("/metadata/labels/{HASH}"),
        json!(hash),
    );
    let mut selector = at(deployment, "/spec/selector").clone();
    set(&mut selector, &format!("/matchLabels/{HASH}"), json!(hash));
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("{}-{hash}", key.name), "namespace": key.namespace,
            "labels": at(&template, "/metadata/labels"), "ownerReferences": owner_of(deployment, "Deployment")},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
        "status": {"replicas": 0},
    });
    world.make(&kind, object);
}

fn scale_set(world: &mut World, key: &Key, replicas: i64) {
    world.amend(SETS, key, |object| {
        set(object, "/spec/replicas", json!(replicas))
    });
}

fn report(world: &mut World, key: &Key, new: &[Arc<Value>], old: &[Arc<Value>], wanted: i64) {
    let sum = |sets: &[Arc<Value>], path: &str| {
        sets.iter()
            .map(|set| number(set, path).unwrap_or(0))
            .sum::<i64>()
    };
    let updated = sum(new, "/status/replicas");
    let all = updated + sum(old, "/status/replicas");
    let ready = sum(new, "/status/readyReplicas") + sum(old, "/status/readyReplicas");
    let now = world.clock.now();
    world.amend(DEPLOYMENTS, key, |deployment| {
        let generation = at(deployment, "/metadata/generation").clone();
        set(deployment, "/status/observedGeneration", generation);
        for (field, value) in [
            ("replicas", all),
            ("updatedReplicas", updated),
            ("readyReplicas", ready),
            ("availableReplicas", ready),
            ("unavailableReplicas", (wanted.max(all) - ready).max(0)),
        ] {
            let path = format!("/status/{field}");
            // As Kubernetes does, zeros are left out, except in kinds that require the field.
            match value {
                0 => drop(remove(deployment, &path)),
                value => set(deployment, &path, json!(value)),
            }
        }
        let (status, reason) = match ready >= wanted {
            true => ("True", "MinimumReplicasAvailable"),
            false => ("False", "MinimumReplicasUnavailable"),
        };
        set_condition(
            deployment,
            json!({"type": "Available", "status": status, "reason": reason,
            "lastUpdateTime": null, "lastTransitionTime": now}),
        );
    });
}

fn match_replicas(world: &mut World, key: &Key, owner: &Value) {
    let active = |pod: &Arc<Value>| {
        let ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
        text(pod, "/metadata/deletionTimestamp").is_empty() && !ended
    };
    let mut living: Vec<Arc<Value>> = owned(world, owner, "pods")
        .into_iter()
        .filter(active)
        .collect();
    let wanted = replicas(owner);
    let now = living.len() as i64;
    for _ in now..wanted {
        let name = new_name(world, key);
        make_pod(world, owner, &name, "ReplicaSet");
    }
    if now > wanted {
        living.sort_by_cached_key(|pod| rank(pod));
        let too_many = usize::try_from(now - wanted).unwrap_or(0);
        for pod in living.drain(..too_many) {
            if let Some(kind) = world.kinds.by_id("pods") {
                world.delete(&kind, &Key::of(&pod), None, "Background");
            }
        }
    }
    let ready = living.iter().filter(|pod| holds(pod, "Ready")).count();
    let count = living.len();
    world.amend(SETS, key, |owner| {
        let generation = at(owner, "/metadata/generation").clone();
        set(owner, "/status/observedGeneration", generation);
        set(owner, "/status/replicas", json!(count));
        set(owner, "/status/fullyLabeledReplicas", json!(count));
        set(owner, "/status/readyReplicas", json!(ready));
        set(owner, "/status/availableReplicas", json!(ready));
    });
}

/// Deletion order: the smallest rank first. A pod that became ready later, or was created later, goes sooner.
type Rank = (bool, bool, bool, i64, Reverse<String>, Reverse<String>);

fn rank(pod: &Value) -> Rank {
    let cost = texts(pod, "/metadata/annotations")
        .get(COST)
        .and_then(|cost| cost.parse().ok());
    let since = condition(pod, "Ready").map_or("", |ready| text(ready, "/lastTransitionTime"));
    (
        !text(pod, "/spec/nodeName").is_empty(),
        text(pod, "/status/phase") == "Running",
        holds(pod, "Ready"),
        cost.unwrap_or(0),
        Reverse(since.to_owned()),
        Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
    )
}

fn new_name(world: &mut World, key: &Key) -> String {
    loop {
        let name = format!("{}-{}", key.name, world.suffix(5));
        let taken = world.store.get("pods", &Key::new(&key.namespace, &name));
        if taken.is_none() {
            return name;
        }
    }
}

pub(super) fn make_pod(world: &mut World, owner: &Value, name: &str, kind: &str) {
    let Some(pods) = world.kinds.by_id("pods") else {
        return;
    };
    let prefix = name.rsplit_once('-').map_or("", |(prefix, _)| prefix);
    let template = at(owner, "/spec/template");
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "generateName": format!("{prefix}-"), "namespace": at(owner, "/metadata/namespace"),
            "labels": at(template, "/metadata/labels"), "ownerReferences": owner_of(owner, kind)},
        "spec": at(template, "/spec"),
    });
    let annotations = at(template, "/metadata/annotations");
    if !annotations.is_null() {
        set(&mut pod, "/metadata/annotations", annotations.clone());
    }
    pods::default_new(&mut pod);
    world.make(&pods, pod);
}
