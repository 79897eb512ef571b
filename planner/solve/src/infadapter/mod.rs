//! InfAdapter (EuroMLSys '23, Eq. 1): a *set* of variants with their cores and quotas.
//!
//! maximise α·AA − (β·RC + γ·LC), where AA is the mean accuracy of the answers, RC the cores in use and LC
//! the longest loading among the variants loaded anew, subject to λ ≤ Σ th_m(n_m), λ_m ≤ th_m(n_m),
//! p_m(n_m) ≤ L and Σ n_m ≤ B. The problem's [`Scale`] sets the units of the terms.
//!
//! - [`solve`] is our own algorithm ([`exact`]): labels by cores and load, with a bound by two Lagrange
//!   multipliers. [`ilp`] is the same problem for HiGHS or microlp.
//! - With the cores given, the shares are a fractional knapsack ([`quota`]): the most accurate first.
//! - Ties (objectives within [`TOLERANCE`](crate::TOLERANCE) of each other): the fewest cores; among those
//!   the first that the search met, which depends on nothing but the problem.
//! - Infeasible: the best effort is the greatest capacity that the budget allows, with shares in
//!   proportion. Out of time: the best allocation in which one variant carries the load that the others'
//!   minimum cores do not ([`greedy`]).
//!
//! The published program forbids the more accurate variants to over-provision together and so misses the
//! optimum in a third of the cases; here λ_m ≤ th_m is the only such constraint.

mod capacity;
pub mod check;
mod dual;
pub mod exact;
pub mod greedy;
mod hull;
pub mod ilp;
pub mod input;
mod item;
mod labels;
mod plan;
pub mod quota;

use std::time::Duration;

pub use exact::solve;
pub use input::Input;
pub use plan::{Plan, VariantPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Check;

/// Maximum number of variants.
pub const VARIANTS_MAX: usize = 64;
/// Maximum number of choices of cores, over all variants.
pub const OPTIONS_MAX: usize = 8192;
/// Maximum number of whole cores in a budget.
pub const BUDGET_MAX: u32 = 65_536;

/// Checked problem. Rates in requests/s; cores are counted in whole steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// λ, above 0.
    pub demand_rps: f64,
    /// B: cores of all variants together, in steps.
    pub budget: u32,
    /// Cores of one step, for the reasons; usually 1.
    pub step: f64,
    /// α, β and γ.
    pub weights: Weights,
    /// Units of the weighed terms.
    pub scale: Scale,
    /// Variants to choose from, one or more.
    pub variants: Vec<Candidate>,
    /// Current cores, by variant, if they are whole: a fallback.
    pub in_force: Option<Vec<u32>>,
}

/// α, β and γ of Eq. 1, each 0 or more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Weight of the answers' mean accuracy.
    pub alpha: f64,
    /// Weight of the cores in use.
    pub beta: f64,
    /// Weight of the longest loading.
    pub gamma: f64,
}

/// Units of AA, RC and LC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// All three 0 to 1: accuracy as a fraction, cores over the budget, loading over the longest of all
    /// variants.
    #[default]
    Normalised,
    /// Accuracy in percent, cores, seconds.
    Raw,
}

/// One variant's part of a [`Problem`].
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Name for messages.
    pub name: String,
    /// Accuracy, 0 to 1.
    pub accuracy: f64,
    /// rt_m: time from loading to the first answer.
    pub readiness: Duration,
    /// Whether it has cores now; otherwise it must be loaded anew.
    pub loaded: bool,
    /// Allowed numbers of cores, rising; one or more.
    pub options: Vec<Choice>,
}

/// Number of cores, with its capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// n.
    pub cores: u32,
    /// th_m(n); 0 if it cannot answer in time.
    pub capacity_rps: f64,
}

/// Cores and quotas, in the variants' order.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Allocation {
    /// n_m.
    pub cores: Vec<u32>,
    /// λ_m / λ, summing to 1.
    pub shares: Vec<f64>,
    /// α·AA − (β·RC + γ·LC).
    pub objective: f64,
}

impl Problem {
    /// Cores of that many steps.
    pub(crate) fn cores(&self, steps: u32) -> f64 {
        // The product of a decimal step is not always the decimal that it stands for.
        (f64::from(steps) * self.step * 1e3).round() / 1e3
    }

    /// Capacity of variant `index` with that many cores; 0 for a number it cannot have.
    pub fn capacity(&self, index: usize, cores: u32) -> f64 {
        let options = self
            .variants
            .get(index)
            .map(|variant| variant.options.as_slice())
            .unwrap_or_default();
        options
            .iter()
            .find(|option| option.cores == cores)
            .map_or(0.0, |option| option.capacity_rps)
    }

    /// Capacities with those cores.
    pub fn capacities(&self, cores: &[u32]) -> Vec<f64> {
        cores
            .iter()
            .enumerate()
            .map(|(index, cores)| self.capacity(index, *cores))
            .collect()
    }

    /// Returns the allocation of those cores with their best shares; `None` if they are not options, exceed
    /// the budget or do not carry the demand.
    pub fn allocation(&self, cores: &[u32]) -> Option<Allocation> {
        let capacities = self.capacities(cores);
        let accuracies: Vec<f64> = self
            .variants
            .iter()
            .map(|variant| variant.accuracy)
            .collect();
        let shares = quota::by_accuracy(&capacities, &accuracies, self.demand_rps)?;
        let objective = check::objective(self, cores, &shares);
        let allocation = Allocation {
            cores: cores.to_vec(),
            shares,
            objective,
        };
        self.check(&allocation).is_ok().then_some(allocation)
    }

    /// Value of accuracy: α·AA for answers that are all of that accuracy (0 to 1).
    pub(crate) fn value_of(&self, accuracy: f64) -> f64 {
        match self.scale {
            Scale::Normalised => self.weights.alpha * accuracy,
            Scale::Raw => self.weights.alpha * accuracy * 100.0,
        }
    }

    /// Cost of one core: β·RC for one.
    pub(crate) fn core_cost(&self) -> f64 {
        match self.scale {
            Scale::Normalised => self.weights.beta / f64::from(self.budget.max(1)),
            Scale::Raw => self.weights.beta,
        }
    }

    /// Cost of loading `variant` anew if none takes longer: γ·LC; 0 if it is loaded.
    pub(crate) fn loading_cost(&self, variant: &Candidate) -> f64 {
        if variant.loaded {
            return 0.0;
        }
        let own = variant.readiness.as_secs_f64();
        match self.scale {
            Scale::Raw => self.weights.gamma * own,
            Scale::Normalised => {
                let all = self.variants.iter().map(|variant| variant.readiness);
                let longest = all.max().unwrap_or_default().as_secs_f64();
                if longest > 0.0 {
                    self.weights.gamma * own / longest
                } else {
                    0.0
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
