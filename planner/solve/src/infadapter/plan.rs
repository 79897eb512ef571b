//! Allocation in readable form: by variant name, with derived values.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Allocation, Problem};

/// Set of variants with their cores and shares of the traffic.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Variants in the order of the input.
    pub variants: Vec<VariantPlan>,
    /// Cores of all variants together.
    pub cores: u32,
    /// Mean accuracy of the answers.
    pub accuracy_percent: f64,
    /// α·AA − (β·RC + γ·LC).
    pub objective: f64,
}

/// One variant's part.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VariantPlan {
    /// Name.
    pub name: String,
    /// n: planned cores.
    pub cores: u32,
    /// Share of the traffic, 0 to 1.
    pub share: f64,
    /// th(n): capacity of those cores.
    pub capacity_rps: f64,
    /// Whether it is loaded anew.
    pub loads: bool,
}

impl Plan {
    /// Creates the readable form of an allocation of `problem`.
    pub fn new(problem: &Problem, allocation: &Allocation) -> Plan {
        let parts = allocation.cores.iter().zip(&allocation.shares);
        let each = problem.variants.iter().zip(parts).enumerate();
        let variants: Vec<VariantPlan> = each
            .map(|(index, (variant, (cores, share)))| VariantPlan {
                name: variant.name.clone(),
                cores: *cores,
                share: *share,
                capacity_rps: problem.capacity(index, *cores),
                loads: !variant.loaded && *cores > 0,
            })
            .collect();
        let accuracies = problem.variants.iter().map(|variant| variant.accuracy);
        let accuracy: f64 = accuracies.zip(&allocation.shares).map(|(a, s)| a * s).sum();
        Plan {
            variants,
            cores: allocation.cores.iter().sum(),
            accuracy_percent: accuracy * 100.0,
            objective: allocation.objective,
        }
    }
}
