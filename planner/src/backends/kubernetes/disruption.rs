//! Number of pods of a workload that may be taken away at once, by the PodDisruptionBudgets that cover them. Pure.
//!
//! Kubernetes applies these budgets to evictions only, not to a scale-down. But a budget states how many pods must
//! serve at any time, and a replica scaled away serves no more than an evicted one.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

/// Number of pods that a budget lets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DisruptionAllowance {
    /// Name of the budget.
    pub(super) budget: String,
    /// Pods that may go now.
    pub(super) pods: u32,
}

/// Returns the strictest limit of the budgets that cover any of the pods; `None` if none does.
pub(super) fn allowed(
    budgets: &[Arc<PodDisruptionBudget>],
    pods: &[Arc<Pod>],
) -> Option<DisruptionAllowance> {
    let covers = |budget: &&Arc<PodDisruptionBudget>| {
        let selector = budget.spec.as_ref()?.selector.clone()?;
        let selector = Selector::try_from(selector).ok()?;
        let covered = |pod: &Arc<Pod>| selector.matches(pod.labels());
        pods.iter().any(covered).then_some(())
    };
    let covering = budgets.iter().filter(|budget| covers(budget).is_some());
    let each = covering.map(|budget| DisruptionAllowance {
        budget: budget.name_any(),
        pods: pods_of(budget),
    });
    each.min_by(|a, b| (a.pods, &a.budget).cmp(&(b.pods, &b.budget)))
}

/// Returns 0 until the disruption controller has processed the budget's current spec.
fn pods_of(budget: &PodDisruptionBudget) -> u32 {
    let counted = budget
        .status
        .as_ref()
        .filter(|status| status.observed_generation >= budget.metadata.generation);
    let allowed = counted.and_then(|status| status.disruptions_allowed);
    u32::try_from(allowed.unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(name: &str, app: &str, generation: i64, allows: i32) -> Arc<PodDisruptionBudget> {
        let budget = json!({
            "metadata": {"name": name, "generation": generation},
            "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1},
            "status": {"observedGeneration": 2, "disruptionsAllowed": allows, "currentHealthy": 0,
                "desiredHealthy": 0, "expectedPods": 0},
        });
        Arc::new(serde_json::from_value(budget).unwrap())
    }

    #[test]
    fn strictest_covering_budget_counts() {
        let pod = json!({"metadata": {"name": "web-1", "labels": {"app": "web"}}});
        let pods = [Arc::new(serde_json::from_value(pod).unwrap())];
        let check = |budgets: &[Arc<PodDisruptionBudget>], expected: Option<(&str, u32)>| {
            let found = allowed(budgets, &pods);
            let found = found.as_ref().map(|one| (one.budget.as_str(), one.pods));
            assert_eq!(found, expected, "{budgets:?}");
        };
        check(&[], None);
        check(&[budget("a", "other", 2, 0)], None);
        let three = budget("a", "web", 2, 3);
        check(&[three.clone(), budget("b", "other", 2, 0)], Some(("a", 3)));
        check(&[three.clone(), budget("b", "web", 2, 1)], Some(("b", 1)));
        // Changed and not yet processed, or never processed.
        check(&[three, budget("b", "web", 3, 7)], Some(("b", 0)));
        let mut new = PodDisruptionBudget::clone(&budget("c", "web", 2, 7));
        new.status = None;
        check(&[Arc::new(new)], Some(("c", 0)));
        // A budget without a selector covers no pods.
        let mut none = PodDisruptionBudget::clone(&budget("d", "web", 2, 7));
        none.spec = None;
        check(&[Arc::new(none)], None);
    }
}
