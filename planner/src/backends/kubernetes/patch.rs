//! Builds the smallest strategic-merge patch of `pods/resize` for the target cores of a pod. Pure.
//!
//! The request becomes the target. A limit equal to the request moves with it; a higher limit keeps its ratio and
//! stays above the request; a missing limit stays missing. So the QoS class of the pod, which the API server does not
//! allow to change, stays the same. Memory is never touched.

use serde_json::{Value, json};
use weir_api::Cores;

use super::pod::{ActuatedCpu, Class, Cpu, PodState};
use crate::quantity::format_cores;

/// Step and minimum of CPU amounts, in millicores: a CFS quota is at least 1000 µs, and the systemd cgroup driver
/// rounds to such steps.
pub const STEP_MILLIS: u32 = 10;

/// Change of a container's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// New request.
    pub request: Cores,
    /// New limit, if it changes.
    pub limit: Option<Cores>,
}

/// Reasons why a pod cannot be patched now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum NotPatchable {
    #[error("it is ending")]
    Ending,
    #[error("its node does not say what it has, and so cannot resize it (Kubernetes before 1.33?)")]
    NoSupport,
    #[error("it is Guaranteed and its request is not its limit")]
    Unequal,
}

/// Rounds down to a step; one step is the minimum.
pub fn step(target_cores: Cores) -> Cores {
    let steps = (target_cores.millis() / STEP_MILLIS).max(1);
    Cores::from_millis(steps.saturating_mul(STEP_MILLIS))
}

/// Returns the change that makes `target_cores` the pod's request; `None` if it is already.
///
/// # Errors
/// The API server would refuse it.
pub fn change(pod: &PodState, target_cores: Cores) -> Result<Option<Change>, NotPatchable> {
    let target_cores = step(target_cores);
    let Cpu { request, limit } = pod.desired;
    if request == target_cores {
        return Ok(None);
    }
    if !pod.stays() {
        return Err(NotPatchable::Ending);
    }
    if pod.actual == ActuatedCpu::Untold {
        return Err(NotPatchable::NoSupport);
    }
    if pod.class == Class::Guaranteed && limit != Some(request) {
        return Err(NotPatchable::Unequal);
    }
    let moved = limit.map(|limit| moved(limit, request, target_cores));
    Ok(Some(Change {
        request: target_cores,
        limit: moved.filter(|moved| Some(*moved) != limit),
    }))
}

/// Scales the limit in proportion to the request, rounded to the nearest step.
fn moved(limit: Cores, request: Cores, target_cores: Cores) -> Cores {
    if limit <= request {
        return target_cores;
    }
    let step_m = u64::from(STEP_MILLIS);
    let product = u64::from(limit.millis()) * u64::from(target_cores.millis());
    let exact = product / u64::from(request.millis().max(1));
    let steps = exact.saturating_add(step_m / 2) / step_m;
    let nearest = u32::try_from(steps.saturating_mul(step_m)).unwrap_or(u32::MAX);
    let above = target_cores.millis().saturating_add(STEP_MILLIS);
    Cores::from_millis(nearest.max(above))
}

impl Change {
    /// Returns the body of the patch. It names the version that was read, so that a concurrent write is a conflict.
    pub fn body(&self, pod: &PodState) -> Value {
        let mut resources = json!({"requests": {"cpu": format_cores(self.request)}});
        if let (Some(limit), Some(all)) = (self.limit, resources.as_object_mut()) {
            all.insert("limits".to_owned(), json!({"cpu": format_cores(limit)}));
        }
        json!({
            "metadata": {"resourceVersion": pod.version},
            "spec": {"containers": [{"name": pod.container, "resources": resources}]},
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::Pod;
    use proptest::prelude::*;

    use super::*;

    /// Pod with the container `app` and, if `other` is an object, a second one, in millicores and MiB.
    fn pod(app: &Value, other: &Value) -> Pod {
        let mut containers = vec![json!({"name": "app", "resources": app})];
        if other.is_object() {
            containers.push(json!({"name": "other", "resources": other}));
        }
        let class = class(&containers);
        serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "1", "resourceVersion": "7", "generation": 1},
            "spec": {"containers": containers},
            "status": {"qosClass": class},
        }))
        .unwrap()
    }

    /// QoS class by Kubernetes' documentation, for amounts in whole millicores and MiB.
    fn class(containers: &[Value]) -> &'static str {
        let amount = |container: &Value, path: &str| -> Option<u64> {
            let text = container.pointer(path)?.as_str()?;
            let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
            let number: u64 = digits.parse().ok()?;
            Some(if path.ends_with("cpu") && !text.ends_with('m') {
                number * 1000
            } else {
                number
            })
        };
        let mut all = Vec::new();
        for container in containers {
            for name in ["cpu", "memory"] {
                let limit = amount(container, &format!("/resources/limits/{name}"));
                let request = amount(container, &format!("/resources/requests/{name}")).or(limit);
                all.push((request, limit));
            }
        }
        if all.iter().all(|pair| *pair == (None, None)) {
            return "BestEffort";
        }
        match all.iter().all(|(r, l)| l.is_some() && r == l) {
            true => "Guaranteed",
            false => "Burstable",
        }
    }

    fn resources(
        request: Option<u32>,
        limit: Option<u32>,
        memory: (Option<u32>, Option<u32>),
    ) -> Value {
        let amounts = |cpu: Option<u32>, memory: Option<u32>| {
            let mut all = BTreeMap::new();
            cpu.map(|cpu| all.insert("cpu", format!("{cpu}m")));
            memory.map(|memory| all.insert("memory", format!("{memory}Mi")));
            all
        };
        json!({"requests": amounts(request, memory.0), "limits": amounts(limit, memory.1)})
    }

    /// Merges maps as the API server does.
    fn merge(into: &mut Value, patch: &Value) {
        for (name, value) in patch.as_object().unwrap() {
            match value.is_object() {
                true => merge(&mut into[name], value),
                false => into[name] = value.clone(),
            }
        }
    }

    fn state(app: &Value) -> PodState {
        PodState::of(&pod(app, &Value::Null), "app").unwrap()
    }

    /// Checks request and limit → target → request and limit of the patch.
    fn check(have: (u32, Option<u32>), target_cores: u32, patched: Option<(u32, Option<u32>)>) {
        let state = state(&resources(Some(have.0), have.1, (Some(64), None)));
        let change = change(&state, Cores::from_millis(target_cores)).unwrap();
        let got = change.map(|change| (change.request.millis(), change.limit.map(Cores::millis)));
        assert_eq!(got, patched, "{have:?} {target_cores}");
    }

    #[test]
    fn limit_moves_with_request() {
        check((500, None), 800, Some((800, None)));
        check((500, Some(500)), 800, Some((800, Some(800))));
        check((500, Some(1000)), 800, Some((800, Some(1600))));
        check((500, Some(1000)), 500, None);
        // Rounded down to whole steps, at least one.
        check((500, Some(500)), 809, Some((800, Some(800))));
        check((500, Some(500)), 3, Some((10, Some(10))));
        check((10, Some(10)), 0, None);
        // A limit above the request stays above it, so that the class cannot change.
        check((1000, Some(1010)), 10, Some((10, Some(20))));
        check((100, Some(150)), 110, Some((110, Some(170))));
        check((110, Some(170)), 100, Some((100, Some(150))));
        // The largest value does not overflow.
        check((1, Some(u32::MAX)), 4_000_000, Some((4_000_000, None)));
    }

    #[test]
    fn patch_contains_only_changed_fields() {
        let state = state(&resources(Some(1000), Some(1000), (Some(64), Some(64))));
        let change = change(&state, Cores::from_millis(2500)).unwrap().unwrap();
        assert_eq!(
            change.body(&state),
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"containers": [{"name": "app",
                "resources": {"requests": {"cpu": "2500m"}, "limits": {"cpu": "2500m"}}}]}})
        );
        let without = Change {
            limit: None,
            ..change
        };
        let body = without.body(&state);
        assert_eq!(
            body["spec"]["containers"][0]["resources"],
            json!({"requests": {"cpu": "2500m"}})
        );
    }

    #[test]
    fn change_that_would_be_refused_is_not_sent() {
        let good = state(&resources(Some(1000), Some(1000), (Some(64), Some(64))));
        let two = Cores::whole(2);
        let ending = PodState {
            ending: true,
            ..good.clone()
        };
        assert_eq!(change(&ending, two), Err(NotPatchable::Ending));
        let untold = PodState {
            actual: ActuatedCpu::Untold,
            ..good.clone()
        };
        assert_eq!(change(&untold, two), Err(NotPatchable::NoSupport));
        let limit = Some(Cores::whole(3));
        let desired = Cpu {
            limit,
            ..good.desired
        };
        let unequal = PodState { desired, ..good };
        assert_eq!(change(&unequal, two), Err(NotPatchable::Unequal));
    }

    fn memory() -> impl Strategy<Value = (Option<u32>, Option<u32>)> {
        let some = prop::option::of(1u32..4);
        (some.clone(), some).prop_map(|(request, limit)| match (request, limit) {
            (Some(request), Some(limit)) => (Some(request.min(limit)), Some(limit)),
            other => other,
        })
    }

    fn any_resources() -> impl Strategy<Value = Value> {
        let cpu = (1u32..5000, prop::option::of(1u32..6000));
        (cpu, memory()).prop_map(|((request, limit), memory)| {
            let request = limit.map_or(request, |limit| request.min(limit));
            resources(Some(request), limit, memory)
        })
    }

    proptest! {
        #[test]
        fn no_patch_changes_qos_class_or_removes_fields(
            app in any_resources(),
            other in prop::option::of(any_resources()),
            targets in prop::collection::vec(0u32..9000, 1..6),
        ) {
            let other = other.unwrap_or(Value::Null);
            let mut app = app;
            let before = pod(&app, &other);
            let class_before = before.status.unwrap().qos_class;
            for target_cores in targets {
                let state = PodState::of(&pod(&app, &other), "app").unwrap();
                let memory = (app["requests"]["memory"].clone(), app["limits"]["memory"].clone());
                let Some(change) = change(&state, Cores::from_millis(target_cores)).unwrap() else {
                    prop_assert_eq!(state.desired.request, step(Cores::from_millis(target_cores)));
                    continue;
                };
                let body = change.body(&state);
                merge(&mut app, &body["spec"]["containers"][0]["resources"]);
                let after = pod(&app, &other);
                let now = PodState::of(&after, "app").unwrap();
                prop_assert_eq!(&after.status.unwrap().qos_class, &class_before);
                prop_assert_eq!(now.desired.request, step(Cores::from_millis(target_cores)));
                prop_assert_eq!(now.desired.limit.is_some(), state.desired.limit.is_some());
                prop_assert!(now.desired.limit.is_none_or(|limit| limit >= now.desired.request));
                prop_assert!(now.desired.request.millis().is_multiple_of(STEP_MILLIS));
                prop_assert!(change.limit.is_none_or(|limit| limit.millis().is_multiple_of(STEP_MILLIS)));
                prop_assert_eq!(memory, (app["requests"]["memory"].clone(), app["limits"]["memory"].clone()));
                prop_assert!(super::super::patch::change(&now, Cores::from_millis(target_cores)).unwrap().is_none());
            }
        }
    }
}
