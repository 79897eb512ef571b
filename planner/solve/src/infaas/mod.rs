//! INFaaS (ATC '21, §4.2.1): the number of replicas of each model variant to start and to stop.
//!
//! Model architectures i have variants j, each on one of several resource types, with a cost C, a sustained
//! load L and a loading time T_load; N replicas of it run. The solution consists of integer scaling actions
//! δ that
//!
//! minimise Σ C_ij·(δ_ij + λ·T_load_ij·max(δ_ij, 0)) subject to
//! - Σ_j L_ij·(N_ij + δ_ij) ≥ load_i + slack_i, over the variants within the architecture's SLO (a slower
//!   one carries nothing; its replicas may still be stopped),
//! - the same for the shares of the load that require an accuracy, over the variants that have it ([`accuracy`]),
//! - Σ_ij takes_ijt·(N_ij + δ_ij) ≤ available_t for each resource type t,
//! - 0 ≤ N_ij + δ_ij ≤ [`REPLICAS_MAX`].
//!
//! The slack is absolute, in queries/s. [`solve`] is exact and our own: the architectures are covering
//! knapsacks ([`cover`]), coupled only by the resource rows. Prices on these ([`dual`]) bound the optimum
//! and leave few choices for each architecture, which are joined ([`join`]). [`ilp`] states the problem as
//! an integer programme, [`greedy`] is the paper's heuristic, [`select`] its choice per request.
//!
//! **Gap.** [`Outcome::Optimal`] is proven to [`TOLERANCE`] of the spending (running cost after the action
//! plus λ·loading; the objective less a constant, and never negative). With `gap` above 0 the solver stops
//! as soon as it has proven that much, and returns [`Outcome::Good`] with the difference to its bound.
//!
//! If even the widest beam leaves the proof incomplete, the result is also Good, before the time is over.
//!
//! **Ties.** Plans whose objectives differ by less than [`TOLERANCE`] of the spending are ties; of these the
//! fewest replicas moved (Σ|δ|). If there are so many ties that following them all would take longer than
//! the proof, the fewest found. The same input has the same answer.
//!
//! **Infeasible.** `why` names the architecture that nothing can carry, or the resource type of which even
//! the minimum use exceeds the available amount, or states that the types run out together. The best effort
//! keeps all resource rows and carries as much load as a greedy allocation from nothing achieves, without
//! proof.

mod accuracy;
mod check;
mod cover;
mod dual;
mod effort;
mod exact;
pub mod greedy;
pub mod ilp;
mod input;
mod join;
mod search;
pub mod select;
mod units;

use schemars::JsonSchema;
use serde::Serialize;

pub use accuracy::{ACCURACIES_MAX, AccuracyShare};
pub use exact::solve;
pub use input::{
    AMOUNT_MAX, ARCHITECTURES_MAX, Architecture, Input, LOADING_S_MAX, REPLICAS_MAX, Resource,
    VARIANTS_MAX, Variant,
};
pub use units::RESOURCES_MAX;
use units::Units;

#[cfg(test)]
mod tests;

#[cfg(doc)]
use crate::{Outcome, TOLERANCE};

/// Maximum latency and SLO, in ms: one day.
pub const LATENCY_MS_MAX: f64 = 86_400_000.0;

/// A checked [`Input`].
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    input: Input,
    /// Resources of a replica, by architecture and variant.
    takes: Vec<Vec<Units>>,
}

/// Replicas to start and to stop.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Σ C·(δ + λ·T_load·max(δ, 0)), as in the paper: the change of the cost by the action, below 0 if it
    /// saves.
    pub objective: f64,
    /// Σ C·(N + δ): cost of all replicas after the action.
    pub running_cost: f64,
    /// Σ C·λ·T_load·max(δ, 0): the loading part of the objective.
    pub loading_cost: f64,
    /// Σ |δ|: replicas started and stopped.
    pub moved: u64,
    /// Architectures, in the order of the input.
    pub architectures: Vec<ArchitecturePlan>,
    /// Resource types, in the order of the input.
    pub resources: Vec<Used>,
}

/// Plan of one architecture.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ArchitecturePlan {
    /// Name.
    pub name: String,
    /// Load plus slack.
    pub needed_qps: f64,
    /// Queries/s that its replicas within the SLO sustain after the action.
    pub carried_qps: f64,
    /// Variants, in the order of the input.
    pub variants: Vec<Action>,
}

/// Plan of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Action {
    /// Name.
    pub name: String,
    /// δ: replicas to start, or to stop if it is below 0.
    pub change: i64,
    /// N + δ: replicas after the action.
    pub replicas: u32,
}

/// Use of a resource type after the action.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Used {
    /// Name.
    pub name: String,
    /// Units in use.
    pub used: f64,
    /// Available units.
    pub available: f64,
}

impl Problem {
    /// Input of the problem.
    pub fn input(&self) -> &Input {
        &self.input
    }

    fn available(&self) -> Units {
        Units::collect(self.input.resources.iter().map(|r| r.available))
    }

    /// Returns the plan with those replicas of each variant, with its figures by the formula.
    fn plan(&self, replicas: &[Vec<u32>]) -> Plan {
        let input = &self.input;
        let (mut running_cost, mut loading_cost, mut objective) = (0.0, 0.0, 0.0);
        let (mut used, mut moved) = (Units::default(), 0);
        let mut architectures = Vec::with_capacity(input.architectures.len());
        let parts = input.architectures.iter().zip(&self.takes).zip(replicas);
        for ((architecture, takes), counts) in parts {
            let mut variants = Vec::with_capacity(counts.len());
            let mut carried_qps = 0.0;
            for ((variant, takes), after) in architecture.variants.iter().zip(takes).zip(counts) {
                let change = i64::from(*after) - i64::from(variant.replicas);
                let started = change.max(0) as f64;
                let loading = input.loading_weight_per_s * variant.loading_s * started;
                running_cost += variant.cost * f64::from(*after);
                loading_cost += variant.cost * loading;
                objective += variant.cost * (change as f64 + loading);
                used = used.plus(takes, f64::from(*after));
                moved += change.unsigned_abs();
                if architecture.may_serve(variant) {
                    carried_qps += variant.sustains_qps * f64::from(*after);
                }
                variants.push(Action {
                    name: variant.name.clone(),
                    change,
                    replicas: *after,
                });
            }
            architectures.push(ArchitecturePlan {
                name: architecture.name.clone(),
                needed_qps: architecture.needed_qps(),
                carried_qps,
                variants,
            });
        }
        let resources = input.resources.iter().enumerate();
        let resources = resources.map(|(index, resource)| Used {
            name: resource.name.clone(),
            used: used.at(index),
            available: resource.available,
        });
        Plan {
            objective,
            running_cost,
            loading_cost,
            moved,
            architectures,
            resources: resources.collect(),
        }
    }
}

impl Architecture {
    fn needed_qps(&self) -> f64 {
        self.load_qps + self.slack_qps
    }

    fn may_serve(&self, variant: &Variant) -> bool {
        self.slo_ms
            .is_none_or(|slo_ms| variant.latency_ms <= slo_ms)
    }
}
