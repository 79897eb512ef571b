//! Evictions and disruption budgets: the number of pods that may be disrupted now, and the refusal if it is 0.

use serde_json::{Value, json};

use super::object::{Key, at, holds, number, set, text};
use super::patch;
use super::request::ApiRequest;
use super::select::Labels;
use super::status::{Cause, Refusal};
use super::world::World;
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

fn standing(world: &World, budget: &Value) -> BudgetStatus {
    let namespace = text(budget, "/metadata/namespace");
    let labels = Labels::of(at(budget, "/spec/selector"));
    let pods = world.store.list("pods", namespace, None);
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
pub(super) fn refresh(world: &mut World, namespace: &str) {
    let budgets = world.store.list(BUDGETS, namespace, None);
    let budgets: Vec<Key> = budgets.map(|(key, _)| key.clone()).collect();
    for key in budgets {
        let Some(budget) = world.store.get(BUDGETS, &key) else {
            continue;
        };
        let standing = standing(world, &budget);
        world.amend(BUDGETS, &key, |budget| {
            let generation = number(budget, "/metadata/generation");
            set(budget, "/status/observedGeneration", json!(generation));
            set(budget, "/status/currentHealthy", json!(standing.healthy));
            set(budget, "/status/desiredHealthy", json!(standing.desired));
            set(budget, "/status/expectedPods", json!(standing.expected));
            set(
                budget,
                "/status/disruptionsAllowed",
                json!(standing.allowed()),
            );
        });
    }
}

/// Handles POST to `pods/eviction`.
pub(super) fn evict(world: &mut World, asked: &ApiRequest) -> Result<Answer, Refusal> {
    let pod = world
        .store
        .get("pods", &asked.key)
        .ok_or_else(|| asked.not_found())?;
    let body = patch::body(asked)?;
    let budgets = world.store.list(BUDGETS, &asked.key.namespace, None);
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
        let standing = standing(world, budget);
        let spare = !holds(&pod, "Ready") && standing.healthy >= standing.desired;
        if standing.allowed() == 0 && !spare {
            let name = text(budget, "/metadata/name");
            let message = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                standing.desired, standing.healthy
            );
            let cause = Cause::new("DisruptionBudget", "", message);
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(Refusal::new(429, "TooManyRequests", message).with(vec![cause]));
        }
    }
    let options = at(&body, "/deleteOptions").clone();
    delete_with(world, asked, &asked.kind, &options)?;
    Ok((201, success(None)))
}
