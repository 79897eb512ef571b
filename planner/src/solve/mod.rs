//! Demand and what each variant could do → cores and shares. Problems and answers in plain numbers;
//! no type of a solver's leaves this module. Every answer is checked again in plain arithmetic
//! ([`check`]) before it leaves.

pub mod check;
pub mod greedy;
pub mod infadapter;
pub mod quota;

use std::time::Duration;

use crate::config::Objective;

/// What is to be decided. Rates in requests/s, cores whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// λ, above 0.
    pub demand_rps: f64,
    /// B: cores of all variants together.
    pub budget: u32,
    /// α, β and γ.
    pub objective: Objective,
    /// What there is to choose from.
    pub variants: Vec<Candidate>,
}

/// One variant's part of a [`Problem`].
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// For messages.
    pub name: String,
    /// 0 to 1.
    pub accuracy: f64,
    /// rt_m: from loading to the first answer.
    pub readiness: Duration,
    /// Whether it has cores now: only what has none is loaded anew.
    pub loaded: bool,
    /// The numbers of cores it can have, rising.
    pub options: Vec<Choice>,
}

/// One number of cores and what it is good for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// n.
    pub cores: u32,
    /// th_m(n); 0 where it cannot answer in time.
    pub capacity_rps: f64,
}

/// Cores and quotas, in the variants' order.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// n_m.
    pub cores: Vec<u32>,
    /// λ_m / λ, summing to 1.
    pub shares: Vec<f64>,
    /// α·AA − (β·RC + γ·LC).
    pub objective: f64,
}

/// What a solve came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Nothing is better.
    Optimal(Allocation),
    /// Time ran out; nothing is better by more than `gap`, in units of the objective.
    Good {
        /// The best found.
        allocation: Allocation,
        /// The bound minus its objective.
        gap: f64,
    },
    /// No cores within the budget carry the demand.
    Infeasible {
        /// What exceeds what.
        why: String,
        /// The greatest capacity there is, shared out in proportion; `None` if even that could not be found.
        best_effort: Option<Allocation>,
    },
    /// Time ran out and the solver had nothing in hand.
    OutOfTime {
        /// What the solver said.
        why: String,
        /// What carries the demand without a solver ([`greedy`]); `None` means to keep what is there.
        best: Option<Allocation>,
    },
}

impl Problem {
    /// The capacity of variant `index` with so many cores; 0 for a number it cannot have.
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

    /// The capacities with those cores.
    pub fn capacities(&self, cores: &[u32]) -> Vec<f64> {
        cores
            .iter()
            .enumerate()
            .map(|(index, cores)| self.capacity(index, *cores))
            .collect()
    }

    /// The best shares those cores allow and what that is worth; `None` if they are none of the
    /// options, exceed the budget or do not carry the demand.
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
        check::check(self, &allocation)
            .is_ok()
            .then_some(allocation)
    }
}

#[cfg(test)]
mod tests;
