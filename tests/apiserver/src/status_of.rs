//! The status of a pod as a kubelet writes it: started, ready, resized, and the events.
//!
//! Pure changes of a pod; the kubelet decides when they happen.

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::object::{Key, at, drop_condition, list, number, set, set_condition, text};

/// Maximum events kept in the store; Kubernetes drops them after an hour.
const EVENTS_MAX: usize = 5_000;

/// Address of the `n`th pod.
pub(super) fn address(n: u32) -> String {
    let [_, a, b, c] = n.to_be_bytes();
    format!("10.{}.{b}.{c}", 64 + a % 64)
}

/// A condition of a pod.
fn condition(name: &str, status: bool, now: &str) -> Value {
    let status = if status { "True" } else { "False" };
    json!({"type": name, "status": status, "lastProbeTime": null, "lastTransitionTime": now})
}

/// Resources of a container once its spec has been applied.
pub(super) fn actual(container: &Value) -> Value {
    at(container, "/resources").clone()
}

/// Container name → resources of its spec.
pub(super) fn targets(pod: &Value) -> Value {
    let containers = list(pod, "/spec/containers").iter();
    let all = containers.map(|container| (text(container, "/name").to_owned(), actual(container)));
    Value::Object(all.collect())
}

/// Sets the status of a pod whose containers run.
pub(super) fn started(pod: &mut Value, ip: &str, now: &str) {
    let statuses: Vec<Value> = list(pod, "/spec/containers")
        .iter()
        .map(|container| {
            let name = text(container, "/name");
            let mut status = json!({
                "name": name, "image": at(container, "/image"), "imageID": "emulated",
                "ready": false, "started": true, "restartCount": 0, "lastState": {},
                "containerID": format!("emulated://{ip}/{name}/0"),
                "state": {"running": {"startedAt": now}},
                "resources": actual(container),
            });
            let requests = at(container, "/resources/requests");
            if !requests.is_null() {
                set(&mut status, "/allocatedResources", requests.clone());
            }
            status
        })
        .collect();
    set(pod, "/status/containerStatuses", Value::Array(statuses));
    set(pod, "/status/phase", json!("Running"));
    set(pod, "/status/startTime", json!(now));
    set(pod, "/status/podIP", json!(ip));
    set(pod, "/status/podIPs", json!([{"ip": ip}]));
    for (name, status) in [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("ContainersReady", false),
        ("Ready", false),
    ] {
        set_condition(pod, condition(name, status, now));
    }
    observe(pod);
}

/// Makes the pod ready or unready.
pub(super) fn ready(pod: &mut Value, ready: bool, now: &str) {
    if let Some(Value::Array(statuses)) = pod.pointer_mut("/status/containerStatuses") {
        for status in statuses {
            set(status, "/ready", json!(ready));
        }
    }
    for name in ["ContainersReady", "Ready"] {
        set_condition(pod, condition(name, ready, now));
    }
}

/// Sets the observed generation.
fn observe(pod: &mut Value) {
    if let Some(generation) = number(pod, "/metadata/generation") {
        set(pod, "/status/observedGeneration", json!(generation));
    }
}

/// Clears the conditions of a resize.
pub(super) fn settled(pod: &mut Value) {
    drop_condition(pod, PENDING);
    drop_condition(pod, PROGRESS);
    observe(pod);
}

const PENDING: &str = "PodResizePending";
const PROGRESS: &str = "PodResizeInProgress";

fn with_reason(pod: &Value, name: &str, reason: &str, message: &str, now: &str) -> Value {
    let mut condition = condition(name, true, now);
    if !reason.is_empty() {
        set(&mut condition, "/reason", json!(reason));
        set(&mut condition, "/message", json!(message));
    }
    set(
        &mut condition,
        "/observedGeneration",
        at(pod, "/metadata/generation").clone(),
    );
    condition
}

/// Marks its resize as deferred or infeasible.
pub(super) fn pending(pod: &mut Value, reason: &str, message: &str, now: &str) {
    let condition = with_reason(pod, PENDING, reason, message, now);
    drop_condition(pod, PROGRESS);
    set_condition(pod, condition);
    observe(pod);
}

/// Allocates the resources of its spec; `shows` adds the progress condition.
pub(super) fn allotted(pod: &mut Value, shows: bool, now: &str) {
    drop_condition(pod, PENDING);
    drop_condition(pod, PROGRESS);
    if shows {
        let condition = with_reason(pod, PROGRESS, "", "", now);
        set_condition(pod, condition);
    }
    let targets = targets(pod);
    if let Some(Value::Array(statuses)) = pod.pointer_mut("/status/containerStatuses") {
        for status in statuses {
            let name = text(status, "/name").to_owned();
            let requests = at(&targets, &format!("/{name}/requests"));
            if !requests.is_null() {
                set(status, "/allocatedResources", requests.clone());
            }
        }
    }
    observe(pod);
}

/// Applies the target resources to its containers. Returns whether any was restarted.
pub(super) fn actuated(pod: &mut Value, target: &Value, generation: i64, now: &str) -> bool {
    let policies: Vec<(String, Value)> = list(pod, "/spec/containers")
        .iter()
        .map(|container| {
            (
                text(container, "/name").to_owned(),
                at(container, "/resizePolicy").clone(),
            )
        })
        .collect();
    let mut restarted = false;
    if let Some(Value::Array(statuses)) = pod.pointer_mut("/status/containerStatuses") {
        for status in statuses {
            let name = text(status, "/name").to_owned();
            let Some(given) = target.get(&name) else {
                continue;
            };
            let own = policies.iter().find(|(other, _)| *other == name);
            let restart = own
                .is_some_and(|(_, policies)| restarts(policies, at(status, "/resources"), given));
            set(status, "/resources", given.clone());
            if restart {
                restarted = true;
                let count = number(status, "/restartCount").unwrap_or(0) + 1;
                let running = at(status, "/state/running").clone();
                set(status, "/restartCount", json!(count));
                set(
                    status,
                    "/lastState",
                    json!({"terminated": {"exitCode": 0, "reason": "Completed",
                    "startedAt": at(&running, "/startedAt"), "finishedAt": now}}),
                );
                set(status, "/state", json!({"running": {"startedAt": now}}));
                let id = text(status, "/containerID")
                    .rsplit_once('/')
                    .map_or("", |(id, _)| id)
                    .to_owned();
                set(status, "/containerID", json!(format!("{id}/{count}")));
                set(status, "/ready", json!(false));
            }
        }
    }
    if restarted {
        for name in ["ContainersReady", "Ready"] {
            set_condition(pod, condition(name, false, now));
        }
    }
    let shown = super::object::condition(pod, PROGRESS);
    if shown
        .is_some_and(|shown| number(shown, "/observedGeneration").is_none_or(|g| g <= generation))
    {
        drop_condition(pod, PROGRESS);
    }
    restarted
}

/// Whether the resize policies demand a restart for the changed resources.
fn restarts(policies: &Value, before: &Value, after: &Value) -> bool {
    list(policies, "").iter().any(|policy| {
        let name = text(policy, "/resourceName");
        let changed = ["requests", "limits"].iter().any(|kind| {
            let path = format!("/{kind}/{name}");
            at(before, &path) != at(after, &path)
        });
        changed && text(policy, "/restartPolicy") == "RestartContainer"
    })
}

/// Marks its resize as failed.
pub(super) fn failed(pod: &mut Value, generation: i64, why: &str, now: &str) {
    let mut condition = with_reason(pod, PROGRESS, "Error", why, now);
    set(&mut condition, "/observedGeneration", json!(generation));
    set_condition(pod, condition);
}

/// Creates an event about a pod.
pub(super) fn event(cluster: &mut Cluster, pod: &Value, kind: &str, reason: &str, message: &str) {
    let Some(events) = cluster.kinds.by_id("events") else {
        return;
    };
    let namespace = text(pod, "/metadata/namespace");
    let name = format!("{}.{}", text(pod, "/metadata/name"), cluster.suffix(16));
    let now = cluster.clock.now();
    let object = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": at(pod, "/metadata/name"),
            "namespace": namespace, "uid": at(pod, "/metadata/uid"),
            "resourceVersion": at(pod, "/metadata/resourceVersion")},
        "type": kind, "reason": reason, "message": message, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "reportingComponent": "kubelet",
        "reportingInstance": at(pod, "/spec/nodeName"),
        "source": {"component": "kubelet", "host": at(pod, "/spec/nodeName")},
    });
    cluster.make(&events, object);
    let kept = &mut cluster.controllers.kubelet.events;
    kept.push_back(Key::new(namespace, &name));
    if kept.len() > EVENTS_MAX
        && let Some(oldest) = kept.pop_front()
    {
        cluster.remove_now(&events, &oldest);
    }
}
