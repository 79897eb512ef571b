//! Deployments and ReplicaSets: pods are created from a template and deleted until the replica count is reached.
//!
//! A changed template is rolled out within the deployment's surge and unavailability (or all at once, with Recreate);
//! no history, no pausing, no rollback. Scale-down uses Kubernetes' order: without a node, not running, not ready,
//! the lower `pod-deletion-cost`, ready for a shorter time, newest.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::eviction::share;
use super::object::{Key, at, condition, holds, number, remove, set, set_condition, text, texts};
use super::pods;
use super::stateful::{self, STATEFUL};

pub(super) const DEPLOYMENTS: &str = "deployments.apps";
pub(super) const SETS: &str = "replicasets.apps";

const HASH: &str = "pod-template-hash";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Reconciles the next dirty workload. Returns whether there was any.
pub(super) fn run(cluster: &mut Cluster) -> bool {
    let Some((kind, key)) = cluster.controllers.dirty.pop_first() else {
        return false;
    };
    if !cluster.options.workloads {
        return true;
    }
    let Some(object) = cluster.store.get(kind, &key) else {
        return true;
    };
    if text(&object, "/metadata/deletionTimestamp").is_empty() {
        match kind {
            DEPLOYMENTS => roll(cluster, &key, &object),
            STATEFUL => stateful::match_ordinals(cluster, &key, &object),
            _ => match_replicas(cluster, &key, &object),
        }
    }
    true
}

/// The objects of a kind that an owner owns.
pub(super) fn owned(cluster: &Cluster, owner: &Value, shelf: &str) -> Vec<Arc<Value>> {
    let all = cluster.store.owned_by(text(owner, "/metadata/uid"));
    let of_kind = all.into_iter().filter(|(other, _)| &**other == shelf);
    of_kind
        .filter_map(|(shelf, key)| cluster.store.get(&shelf, &key))
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

fn roll(cluster: &mut Cluster, key: &Key, deployment: &Value) {
    let hash = hash(at(deployment, "/spec/template"));
    let name = format!("{}-{hash}", key.name);
    let sets = owned(cluster, deployment, SETS);
    let (new, old): (Vec<_>, Vec<_>) = sets
        .into_iter()
        .partition(|set| text(set, "/metadata/name") == name);
    let target = replicas(deployment);
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
    let surge = share(&rolling("maxSurge"), target).unwrap_or(1);
    let unavailable = match rolling("maxUnavailable") {
        // Rounded down, unlike all other percentages.
        Value::String(percent) => {
            percent
                .trim_end_matches('%')
                .parse::<i64>()
                .unwrap_or(0)
                .saturating_mul(target)
                / 100
        }
        number => number.as_i64().unwrap_or(0),
    };
    let old_replicas = of(&old, "/spec/replicas");
    let allowed = match (old_replicas, recreate) {
        (0, _) => target,
        (_, true) if of(&old, "/status/replicas") > 0 => 0,
        _ => (target + surge - old_replicas).clamp(0, target),
    };
    match new.first() {
        None => make_set(cluster, key, deployment, &hash, allowed),
        Some(set_now) => {
            // The new set never shrinks to free capacity; the old ones do.
            let set_target = if old_replicas == 0 {
                target
            } else {
                allowed.max(replicas(set_now).min(target))
            };
            scale_set(cluster, &Key::of(set_now), set_target);
        }
    }
    // A set that was scaled down counts as shrunk, even if its pods still exist.
    let still = |set: &Value| {
        number(set, "/status/readyReplicas")
            .unwrap_or(0)
            .min(replicas(set))
    };
    let ready = of(&new, "/status/readyReplicas") + old.iter().map(|set| still(set)).sum::<i64>();
    let mut spare = if recreate {
        i64::MAX
    } else {
        (ready - (target - unavailable)).max(0)
    };
    for old_set in &old {
        let less = still(old_set).min(spare);
        spare -= less;
        // Pods that are not ready serve nothing, and are removed at once.
        scale_set(cluster, &Key::of(old_set), still(old_set) - less);
    }
    report(cluster, key, &new, &old, target);
}

fn make_set(cluster: &mut Cluster, key: &Key, deployment: &Value, hash: &str, replicas: i64) {
    let Some(kind) = cluster.kinds.by_id(SETS) else {
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
    cluster.make(&kind, object);
}

fn scale_set(cluster: &mut Cluster, key: &Key, replicas: i64) {
    cluster.amend(SETS, key, |object| {
        set(object, "/spec/replicas", json!(replicas))
    });
}

fn report(cluster: &mut Cluster, key: &Key, new: &[Arc<Value>], old: &[Arc<Value>], target: i64) {
    let sum = |sets: &[Arc<Value>], path: &str| {
        sets.iter()
            .map(|set| number(set, path).unwrap_or(0))
            .sum::<i64>()
    };
    let updated = sum(new, "/status/replicas");
    let all = updated + sum(old, "/status/replicas");
    let ready = sum(new, "/status/readyReplicas") + sum(old, "/status/readyReplicas");
    let now = cluster.clock.now();
    cluster.amend(DEPLOYMENTS, key, |deployment| {
        let generation = at(deployment, "/metadata/generation").clone();
        set(deployment, "/status/observedGeneration", generation);
        for (field, value) in [
            ("replicas", all),
            ("updatedReplicas", updated),
            ("readyReplicas", ready),
            ("availableReplicas", ready),
            ("unavailableReplicas", (target.max(all) - ready).max(0)),
        ] {
            let path = format!("/status/{field}");
            // As Kubernetes does, zeros are left out, except in kinds that require the field.
            match value {
                0 => drop(remove(deployment, &path)),
                value => set(deployment, &path, json!(value)),
            }
        }
        let (status, reason) = match ready >= target {
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

fn match_replicas(cluster: &mut Cluster, key: &Key, owner: &Value) {
    let active = |pod: &Arc<Value>| {
        let ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
        text(pod, "/metadata/deletionTimestamp").is_empty() && !ended
    };
    let mut living: Vec<Arc<Value>> = owned(cluster, owner, "pods")
        .into_iter()
        .filter(active)
        .collect();
    let target = replicas(owner);
    let now = living.len() as i64;
    for _ in now..target {
        let name = new_name(cluster, key);
        make_pod(cluster, owner, &name, "ReplicaSet");
    }
    if now > target {
        living.sort_by_cached_key(|pod| rank(pod));
        let too_many = usize::try_from(now - target).unwrap_or(0);
        for pod in living.drain(..too_many) {
            if let Some(kind) = cluster.kinds.by_id("pods") {
                cluster.delete(&kind, &Key::of(&pod), None, "Background");
            }
        }
    }
    let ready = living.iter().filter(|pod| holds(pod, "Ready")).count();
    let count = living.len();
    cluster.amend(SETS, key, |owner| {
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

fn new_name(cluster: &mut Cluster, key: &Key) -> String {
    loop {
        let name = format!("{}-{}", key.name, cluster.suffix(5));
        let taken = cluster.store.get("pods", &Key::new(&key.namespace, &name));
        if taken.is_none() {
            return name;
        }
    }
}

pub(super) fn make_pod(cluster: &mut Cluster, owner: &Value, name: &str, kind: &str) {
    let Some(pods) = cluster.kinds.by_id("pods") else {
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
    cluster.make(&pods, pod);
}
