//! Check of a plan in plain arithmetic, from the raw input.

use super::{Architecture, ArchitecturePlan, Plan, Problem, REPLICAS_MAX};
use crate::{Check, TOLERANCE};

impl Check for Problem {
    type Plan = Plan;

    fn check(&self, plan: &Plan) -> Result<(), String> {
        self.check_best_effort(plan)?;
        for (architecture, part) in self.input.architectures.iter().zip(&plan.architectures) {
            let needed = architecture.load_qps + architecture.slack_qps;
            let required = architecture.accuracies.iter().map(|one| one.percent);
            for percent in std::iter::once(0.0).chain(required) {
                let above = architecture.accuracies.iter();
                let above = above.filter(|one| one.percent >= percent);
                let share = match percent > 0.0 {
                    true => above.map(|one| one.share).sum(),
                    false => 1.0,
                };
                let (needed, carried) = (needed * share, carried(architecture, part, percent));
                if carried < needed * (1.0 - TOLERANCE) {
                    return Err(format!(
                        "{}: {carried} queries/s are carried of {needed} that require {percent} %",
                        architecture.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks the resource types' amounts, that no number of replicas is below 0, and that the
    /// plan's figures match its actions.
    fn check_best_effort(&self, plan: &Plan) -> Result<(), String> {
        let input = &self.input;
        let (count, parts) = (input.architectures.len(), plan.architectures.len());
        if count != parts {
            return Err(format!("{parts} architectures of {count}"));
        }
        let mut objective = 0.0;
        let mut used = vec![0.0; input.resources.len()];
        for (architecture, part) in input.architectures.iter().zip(&plan.architectures) {
            check_counts(architecture, part)?;
            for (variant, action) in architecture.variants.iter().zip(&part.variants) {
                let (change, after) = (action.change as f64, f64::from(action.replicas));
                let loading = input.loading_weight_per_s * variant.loading_s * change.max(0.0);
                objective += variant.cost * (change + loading);
                for (used, resource) in used.iter_mut().zip(&input.resources) {
                    let each = match &variant.takes {
                        Some(takes) => takes.get(&resource.name).copied().unwrap_or_default(),
                        None => f64::from(u8::from(variant.resource == resource.name)),
                    };
                    *used += each * after;
                }
            }
        }
        for (used, resource) in used.iter().zip(&input.resources) {
            if *used > resource.available * (1.0 + TOLERANCE) {
                return Err(format!(
                    "{}: {used} units are used of {}",
                    resource.name, resource.available
                ));
            }
        }
        let size = plan.running_cost + plan.loading_cost + plan.objective.abs();
        let off = (objective - plan.objective).abs();
        if off.is_nan() || off > TOLERANCE * size {
            return Err(format!("an objective of {} is {objective}", plan.objective));
        }
        Ok(())
    }
}

/// Queries/s of the replicas that are fast and accurate enough.
fn carried(architecture: &Architecture, part: &ArchitecturePlan, percent: f64) -> f64 {
    let both = architecture.variants.iter().zip(&part.variants);
    both.filter(|(variant, _)| {
        let accuracy = variant.accuracy_percent.unwrap_or_default();
        architecture
            .slo_ms
            .is_none_or(|slo| variant.latency_ms <= slo)
            && accuracy >= percent
    })
    .map(|(variant, action)| variant.sustains_qps * f64::from(action.replicas))
    .sum()
}

fn check_counts(architecture: &Architecture, part: &ArchitecturePlan) -> Result<(), String> {
    let name = &architecture.name;
    let (count, actions) = (architecture.variants.len(), part.variants.len());
    if count != actions {
        return Err(format!("{name}: {actions} variants of {count}"));
    }
    for (variant, action) in architecture.variants.iter().zip(&part.variants) {
        let after = i64::from(variant.replicas) + action.change;
        if after < 0 || after != i64::from(action.replicas) || action.replicas > REPLICAS_MAX {
            return Err(format!(
                "{name}: {}: {} replicas and {:+} make {}, at most {REPLICAS_MAX}",
                variant.name, variant.replicas, action.change, action.replicas
            ));
        }
    }
    Ok(())
}
