//! `pods/resize`: the accepted changes, and the refusals of the others with their messages.
//!
//! As a real API server of 1.36 answers (the recorded cases of `tests/kube_api/resize.yaml`). The kubelet decides
//! whether and when the change takes effect.

use std::collections::BTreeSet;

use serde_json::Value;

use super::object::{at, list, map, set, text};
use super::pods::{Amount, check_spec, qos_class, requests};
use super::status::Cause;

/// The pod that a resize requests: the old one with the new one's resources and resize policies. Other changes are
/// dropped, except added containers, which [`check`] rejects.
pub(super) fn taken(old: &Value, new: &Value) -> Value {
    let mut pod = old.clone();
    for containers in ["/spec/containers", "/spec/initContainers"] {
        for container in list(new, containers) {
            let name = text(container, "/name");
            let known = list(old, containers)
                .iter()
                .position(|other| text(other, "/name") == name);
            match known {
                Some(i) => {
                    for field in ["resources", "resizePolicy"] {
                        let path = format!("{containers}/{i}/{field}");
                        match container.get(field) {
                            Some(value) => set(&mut pod, &path, value.clone()),
                            None => drop(super::object::remove(&mut pod, &path)),
                        }
                    }
                }
                None => {
                    if let Some(Value::Array(all)) = pod.pointer_mut(containers) {
                        all.push(container.clone());
                    }
                }
            }
        }
    }
    pod
}

/// Violations of a resize from `old` to `new` (as [`taken`]).
pub(super) fn check(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = check_spec(new);
    let class = text(old, "/status/qosClass");
    if !class.is_empty() && class != qos_class(new) {
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(Cause::invalid("spec", &Value::from(class), why));
    }
    if !on_a_node_that_can(old) {
        let why = "Pod running on node without support for resize";
        causes.push(Cause::forbidden("spec", why));
    }
    for containers in ["containers", "initContainers"] {
        let path = format!("/spec/{containers}");
        let (before, after) = (list(old, &path), list(new, &path));
        if before.len() != after.len() {
            let why = "containers may not be added or removed on resize";
            causes.push(Cause::forbidden(format!("spec.{containers}"), why));
            return causes;
        }
        for (i, (before, after)) in before.iter().zip(after).enumerate() {
            for kind in ["requests", "limits"] {
                let path = format!("/resources/{kind}");
                if !names(before, &path).is_subset(&names(after, &path)) {
                    let why = format!("resource {kind} cannot be removed");
                    causes.push(Cause::forbidden(
                        format!("spec.{containers}[{i}].resources.{kind}"),
                        &why,
                    ));
                }
            }
        }
    }
    if at(&without_cpu_and_memory(old), "/spec") != at(&without_cpu_and_memory(new), "/spec") {
        let why = "only cpu and memory resources are mutable";
        causes.push(Cause::forbidden("spec", why));
    }
    causes
}

fn names<'a>(container: &'a Value, path: &str) -> BTreeSet<&'a str> {
    let amounts = map(container, path).into_iter().flatten();
    amounts.map(|(name, _)| name.as_str()).collect()
}

/// Whether every running container's status contains its resources.
fn on_a_node_that_can(pod: &Value) -> bool {
    let running = |status: &&Value| status.pointer("/state/running").is_some();
    let statuses = list(pod, "/status/containerStatuses").iter();
    statuses
        .filter(running)
        .all(|status| status.get("resources").is_some())
}

fn without_cpu_and_memory(pod: &Value) -> Value {
    let mut pod = pod.clone();
    for containers in ["/spec/containers", "/spec/initContainers"] {
        let Some(Value::Array(containers)) = pod.pointer_mut(containers) else {
            continue;
        };
        for container in containers {
            for path in ["/resources/requests", "/resources/limits"] {
                if let Some(Value::Object(amounts)) = container.pointer_mut(path) {
                    amounts.retain(|name, _| name != "cpu" && name != "memory");
                }
            }
        }
    }
    pod
}

/// The 1.36 API server's message if the node can never hold the pod's requests.
pub(super) fn beyond_node(pod: &Value, node: &Value) -> Option<String> {
    let allocatable = node.pointer("/status/allocatable")?;
    let (name, requested, allocatable) = requests(pod).beyond(Amount::of(allocatable))?;
    Some(format!(
        "node didn't have enough allocatable resources: {name}, requested: {requested}, allocatable: {allocatable}"
    ))
}
