//! Solve of policy infaas within the maximum replicas of each variant, and the best effort under overload.

use crate::policy::replica;
use crate::service::{Service, Variant};
use crate::solve::infaas::{
    ArchitecturePlan, Input, Plan, Problem, RESOURCES_MAX, Resource, solve,
};
use crate::solve::{InputError, Outcome, TimeLimit};

/// Number of parts of the demand that are tried for the best effort.
const PARTS_MAX: usize = 7;

/// Returns the optimum. If demand exceeds the capacity and parts of it require accuracies, the best effort carries the
/// same part of each: as much load as possible would be carried by the cheapest variants, and nothing of the others.
pub(super) fn solved(
    service: &Service,
    input: Input,
    time_limit: &TimeLimit<'_>,
) -> Result<Outcome<Plan>, InputError> {
    let outcome = within_replicas(service, input.clone(), time_limit)?;
    let requires = |input: &Input| {
        input
            .architectures
            .iter()
            .any(|one| !one.accuracies.is_empty())
    };
    Ok(match outcome {
        Outcome::Infeasible { why, best_effort } if requires(&input) => Outcome::Infeasible {
            why,
            best_effort: same_part(service, &input, time_limit).or(best_effort),
        },
        outcome => outcome,
    })
}

/// Returns the plan for the largest part of load and slack that can be carried, of those that are tried.
fn same_part(service: &Service, input: &Input, time_limit: &TimeLimit<'_>) -> Option<Plan> {
    let (mut low, mut high) = (0.0, 1.0);
    let mut best = None;
    for _ in 0..PARTS_MAX {
        if time_limit.is_over() {
            break;
        }
        let part = f64::midpoint(low, high);
        let mut reduced = input.clone();
        for one in &mut reduced.architectures {
            one.load_qps *= part;
            one.slack_qps *= part;
        }
        match within_replicas(service, reduced, time_limit) {
            Ok(Outcome::Optimal(plan) | Outcome::Good { best: plan, .. }) => {
                low = part;
                best = Some(plan);
            }
            _ => high = part,
        }
    }
    best
}

/// Returns the optimum within the maximum replicas of each variant.
fn within_replicas(
    service: &Service,
    mut input: Input,
    time_limit: &TimeLimit<'_>,
) -> Result<Outcome<Plan>, InputError> {
    loop {
        let problem: Problem = input.clone().try_into()?;
        let outcome = solve(&problem, time_limit);
        let plan = outcome.plan();
        let too_many: Vec<&Variant> = service
            .variants
            .iter()
            .filter(|variant| planned(plan, variant) > replica::most(variant))
            .collect();
        if too_many.is_empty() || input.resources.len() + too_many.len() > RESOURCES_MAX {
            return Ok(outcome);
        }
        for variant in too_many {
            let name = format!("replicas of {}", variant.name);
            input.resources.push(Resource {
                name: name.clone(),
                available: f64::from(replica::most(variant)),
            });
            let mut all = input
                .architectures
                .iter_mut()
                .flat_map(|one| &mut one.variants);
            let takes = all.find(|one| one.name == variant.name);
            if let Some(takes) = takes.and_then(|one| one.takes.as_mut()) {
                takes.insert(name, 1.0);
            }
        }
    }
}

pub(super) fn planned(plan: Option<&Plan>, variant: &Variant) -> u32 {
    let mut actions = plan.into_iter().flat_map(|plan| &plan.architectures);
    let of = |one: &ArchitecturePlan| {
        let action = one
            .variants
            .iter()
            .find(|action| action.name == variant.name);
        action.map(|action| action.replicas)
    };
    actions.find_map(of).unwrap_or(0)
}
