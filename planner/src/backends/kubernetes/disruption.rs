//! How many pods of a workload may go at once: what the PodDisruptionBudgets that cover them allow now. Pure.
//!
//! Kubernetes asks budgets for evictions alone, not where a workload is scaled down. But a budget is a person's word
//! on how many are to serve whatever happens, and replicas that are taken away serve no more than those evicted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

/// A budget, and how many it lets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Its name.
    pub(super) budget: String,
    /// Pods that may go now.
    pub(super) pods: u32,
}

/// What the strictest of those budgets allows that cover any of the pods; `None` where none does.
pub(super) fn allowed(budgets: &[Arc<PodDisruptionBudget>], pods: &[Arc<Pod>]) -> Option<Allowed> {
    let covers = |budget: &&Arc<PodDisruptionBudget>| {
        let selector = budget.spec.as_ref()?.selector.clone()?;
        let selector = Selector::try_from(selector).ok()?;
        let covered = |pod: &Arc<Pod>| selector.matches(pod.labels());
        pods.iter().any(covered).then_some(())
    };
    let covering = budgets.iter().filter(|budget| covers(budget).is_some());
    let each = covering.map(|budget| Allowed {
        budget: budget.name_any(),
        pods: pods_of(budget),
    });
    each.min_by(|a, b| (a.pods, &a.budget).cmp(&(b.pods, &b.budget)))
}

/// None as long as nobody has counted for what the budget says now.
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
    fn the_strictest_budget_that_covers_a_pod_counts() {
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
        // It was changed, and nobody has counted since; or it never was counted.
        check(&[three, budget("b", "web", 3, 7)], Some(("b", 0)));
        let mut new = PodDisruptionBudget::clone(&budget("c", "web", 2, 7));
        new.status = None;
        check(&[Arc::new(new)], Some(("c", 0)));
        // Nobody's pods, by a selector that is not there.
        let mut none = PodDisruptionBudget::clone(&budget("d", "web", 2, 7));
        none.spec = None;
        check(&[Arc::new(none)], None);
    }
}
