//! Evictions and disruption budgets: the number of pods that may be disrupted now, and the refusal if it is 0.

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::object::{Key, at, holds, number, set, text};
use super::patch;
use super::request::ApiRequest;
use super::select::Labels;
use super::status::{Cause, Refusal};
use super::write::{Answer, delete_with, success};

/// Kind id of disruption budgets.
pub(super) const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Status of a disruption budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BudgetStatus {
    healthy: i64,
    desired: i64,
    expected: i64,
}

impl BudgetStatus {
    fn allowed(self) -> i64 {
        (self.healthy - self.desired).max(0)
    }
}

/// A number, or a percentage of `of` rounded up.
pub(super) fn share(value: &Value, of: i64) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some(
                of.saturating_mul(percent)
                    .saturating_add(99)
                    .div_euclid(100),
            )
        }
        _ => None,
    }
}

fn budget_status(cluster: &Cluster, budget: &Value) -> BudgetStatus {
    let namespace = text(budget, "/metadata/namespace");
    let labels = Labels::of(at(budget, "/spec/selector"));
    let pods = cluster.store.list("pods", namespace, None);
    let pods = pods.map(|(_, pod)| pod);
    let (mut healthy, mut expected) = (0, 0);
    for pod in pods.filter(|pod| labels.as_ref().is_some_and(|labels| labels.select(pod))) {
        expected += 1;
        let going = !text(pod, "/metadata/deletionTimestamp").is_empty();
        healthy += i64::from(holds(pod, "Ready") && !going);
    }
    let min = share(at(budget, "/spec/minAvailable"), expected);
    let most = share(at(budget, "/spec/maxUnavailable"), expected);
    let desired = min.or(most.map(|most| (expected - most).max(0)));
    BudgetStatus {
        healthy,
        desired: desired.unwrap_or(0),
        expected,
    }
}

/// Updates the status of every budget of a namespace.
pub(super) fn refresh(cluster: &mut Cluster, namespace: &str) {
    let budgets = cluster.store.list(BUDGETS, namespace, None);
    let budgets: Vec<Key> = budgets.map(|(key, _)| key.clone()).collect();
    for key in budgets {
        let Some(budget) = cluster.store.get(BUDGETS, &key) else {
            continue;
        };
        let status = budget_status(cluster, &budget);
        cluster.amend(BUDGETS, &key, |budget| {
            let generation = number(budget, "/metadata/generation");
            set(budget, "/status/observedGeneration", json!(generation));
            set(budget, "/status/currentHealthy", json!(status.healthy));
            set(budget, "/status/desiredHealthy", json!(status.desired));
            set(budget, "/status/expectedPods", json!(status.expected));
            set(
                budget,
                "/status/disruptionsAllowed",
                json!(status.allowed()),
            );
        });
    }
}

/// Handles POST to `pods/eviction`.
pub(super) fn evict(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    let pod = cluster
        .store
        .get("pods", &request.key)
        .ok_or_else(|| request.not_found())?;
    let body = patch::body(request)?;
    let budgets = cluster.store.list(BUDGETS, &request.key.namespace, None);
    let budgets: Vec<_> = budgets
        .map(|(_, budget)| budget.clone())
        .filter(|budget| {
            Labels::of(at(budget, "/spec/selector")).is_some_and(|labels| labels.select(&pod))
        })
        .collect();
    if budgets.len() > 1 {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Refusal::new(500, "InternalError", message));
    }
    // A pod that is pending or already terminating disrupts nothing.
    let pending = text(&pod, "/status/phase") == "Pending";
    let going = !text(&pod, "/metadata/deletionTimestamp").is_empty();
    if let Some(budget) = budgets.first().filter(|_| !pending && !going) {
        let status = budget_status(cluster, budget);
        let spare = !holds(&pod, "Ready") && status.healthy >= status.desired;
        if status.allowed() == 0 && !spare {
            let name = text(budget, "/metadata/name");
            let message = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                status.desired, status.healthy
            );
            let cause = Cause::new("DisruptionBudget", "", message);
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(Refusal::new(429, "TooManyRequests", message).with(vec![cause]));
        }
    }
    let options = at(&body, "/deleteOptions").clone();
    delete_with(cluster, request, &request.kind, &options)?;
    Ok((201, success(None)))
}
