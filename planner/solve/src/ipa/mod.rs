//! IPA (JSys '24, Eq. 3–10): for each stage of a pipeline one variant m, batch b and number of replicas n.
//!
//! Maximise α·PAS − β·Σ n·R − δ·Σ b (Eq. 10) subject to
//! - Σ (l + q) ≤ SLA along every path from the entry to an end (Eq. 10b), where l = l(b, R) is the latency
//!   of a batch on one replica's R cores and q = (b − 1)/λ the time until the batch is full (Eq. 7);
//! - n·h ≥ λ (Eq. 10c) with h = b/l: every stage receives the whole λ;
//! - exactly one variant for each stage (Eq. 10d).
//!
//! PAS (Eq. 8) is the product of the stages' accuracies, in percent 100·Π(a/100), over any number of stages.
//! Alternatively, PAS′ (appendix C) is the sum of ranks: the distinct accuracies of a stage in rising order
//! have ranks i/(count − 1), 0 to 1, and a single one has rank 1. β is not negative, so n is the minimum
//! that carries λ, ⌈λ/h⌉.
//!
//! [`solve`] is exact: layers of partial choices, pruned by dominance and by a bound from multipliers on the
//! paths' latencies (`labels`, `bound`). [`ilp`] states the same problem as integer programmes. [`base`] is
//! the paper's base allocation (Eq. 1).
//!
//! **Ties.** Objectives within [`TOLERANCE`](crate::TOLERANCE) of the best are equal, relative to the
//! greater of the greatest α·PAS and the least cost β·Σ n·R + δ·Σ b that any choice has. Among them: the
//! fewest cores (to the millionth), then the smallest sum of batches, then the earliest variants and batches
//! in the input's order, stage by stage (in topological order, if the input's order is not one).
//!
//! **Infeasible.** If a stage has no choice that carries λ, the reason names it, and there is no best
//! effort. Otherwise the minimum latency exceeds the SLA. The best effort is then the choice with the least
//! latency of the longest path; of several the cheapest.

mod choices;
mod graph;
mod input;

pub mod base;
mod check;

mod bound;
mod items;
mod labels;
mod pareto;
mod search;

pub mod ilp;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Outcome, TimeLimit};
pub use choices::{BatchOption, GivenStage, GivenVariant};
use choices::{Choice, Stage};
use graph::Graph;
pub use input::{
    ACCURACY_MIN_PERCENT, BATCH_MAX, Batches, CHOICES_MAX, CORES_MAX, CORES_MIN, Input, PATHS_MAX,
    RATE_MAX, REPLICAS_MAX, STAGES_MAX, StageInput, VARIANTS_MAX, VariantInput, WEIGHT_MAX,
};

/// α, β and δ of Eq. 10; by default those of the paper's video pipeline (Table 15).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weights {
    /// α: of PAS in percent, or of PAS′.
    pub alpha: f64,
    /// β: of each core.
    pub beta: f64,
    /// δ: of each request of a batch.
    pub delta: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            alpha: 2.0,
            beta: 1.0,
            delta: 1e-6,
        }
    }
}

/// Definition of a pipeline's accuracy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Accuracy {
    /// PAS: the product of the stages' accuracies, in percent.
    #[default]
    Product,
    /// PAS′: the sum of the stages' normalised ranks.
    Ranks,
}

/// Checked problem, made from an [`Input`] or from [`GivenStage`]s.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    arrival_rps: f64,
    sla_ms: f64,
    weights: Weights,
    accuracy: Accuracy,
    /// Stages in the input's order.
    stages: Vec<Stage>,
    graph: Graph,
}

/// A variant, batch and number of replicas for each stage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Stages in the input's order.
    pub stages: Vec<StagePlan>,
    /// PAS: 100·Π(a/100).
    pub accuracy_percent: f64,
    /// PAS′, if it is the chosen accuracy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_ranks: Option<f64>,
    /// Σ n·R.
    pub cores: f64,
    /// Σ (l + q) along the longest path.
    pub latency_ms: f64,
    /// α·PAS − β·Σ n·R − δ·Σ b.
    pub objective: f64,
}

/// One stage's part of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StagePlan {
    /// Name of the stage.
    pub stage: String,
    /// Name of the variant.
    pub variant: String,
    /// b.
    pub batch: u32,
    /// n.
    pub replicas: u32,
    /// n·R.
    pub cores: f64,
    /// l(b, R).
    pub latency_ms: f64,
    /// q: wait of the first request of a batch for the last.
    pub queue_ms: f64,
    /// Accuracy of the variant.
    pub accuracy_percent: f64,
}

/// Returns the best plan, by the tie rule of the module documentation.
pub fn solve(problem: &Problem, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    match problem.infeasible(time_limit) {
        Some(outcome) => outcome.checked(problem),
        None => search::best(problem, time_limit).checked(problem),
    }
}

impl Problem {
    /// Returns the plan of one choice (an index) for each stage; `None` if an index is invalid.
    fn plan(&self, picks: &[usize]) -> Option<Plan> {
        let mut chosen = Vec::with_capacity(self.stages.len());
        for (stage, pick) in self.stages.iter().zip(picks) {
            chosen.push((stage, stage.choices.get(*pick)?));
        }
        if chosen.len() != self.stages.len() {
            return None;
        }
        let times: Vec<f64> = chosen.iter().map(|(_, choice)| choice.time_ms()).collect();
        let stages: Option<Vec<StagePlan>> = chosen
            .iter()
            .map(|(stage, choice)| stage.plan(choice))
            .collect();
        let stages = stages?;
        let ranks = chosen.iter().map(|(_, choice)| choice.rank).sum();
        let product = stages.iter().map(|s| s.accuracy_percent / 100.0);
        let accuracy_percent = 100.0 * product.product::<f64>();
        let (value, accuracy_ranks) = match self.accuracy {
            Accuracy::Product => (accuracy_percent, None),
            Accuracy::Ranks => (ranks, Some(ranks)),
        };
        let cores = stages.iter().map(|stage| stage.cores).sum();
        let batches: u32 = stages.iter().map(|stage| stage.batch).sum();
        let Weights { alpha, beta, delta } = self.weights;
        Some(Plan {
            accuracy_percent,
            accuracy_ranks,
            cores,
            latency_ms: self.graph.longest(&times).0,
            objective: alpha * value - beta * cores - delta * f64::from(batches),
            stages,
        })
    }

    fn cost(&self, choice: &Choice) -> f64 {
        self.weights.beta * choice.cores + self.weights.delta * f64::from(choice.batch)
    }

    /// Maximum latency that counts as within the SLA: half of the tolerance above it, so that sums in
    /// another order stay within the whole tolerance.
    fn limit_ms(&self) -> f64 {
        self.sla_ms * (1.0 + crate::TOLERANCE / 2.0)
    }

    /// Returns the outcome if nothing meets the constraints; `None` if something does.
    fn infeasible(&self, time_limit: &TimeLimit<'_>) -> Option<Outcome<Plan>> {
        if let Some(stage) = self.stages.iter().find(|stage| stage.choices.is_empty()) {
            let why = format!(
                "an arrival of {} requests/s exceeds the {} that stage '{}' carries with the most replicas of any variant",
                self.arrival_rps, stage.most_rps, stage.name
            );
            return Some(Outcome::Infeasible {
                why,
                best_effort: None,
            });
        }
        let fastest: Vec<f64> = self.stages.iter().map(Stage::min_ms).collect();
        let (min_ms, path) = self.graph.longest(&fastest);
        if min_ms <= self.limit_ms() {
            return None;
        }
        let names: Vec<&str> = path
            .iter()
            .filter_map(|stage| self.stages.get(*stage))
            .map(|stage| stage.name.as_str())
            .collect();
        let why = format!(
            "the least latency along {} is {min_ms} ms, above the SLA of {} ms",
            names.join(" → "),
            self.sla_ms
        );
        // The same problem with the minimum latency as the SLA, at the least cost.
        let mut min = self.clone();
        min.sla_ms = min_ms;
        min.weights.alpha = 0.0;
        let best_effort = match search::best(&min, time_limit) {
            Outcome::Optimal(plan) | Outcome::Good { best: plan, .. } => Some(plan),
            Outcome::Infeasible { .. } | Outcome::OutOfTime { .. } => None,
        };
        let weights = self.weights;
        let best_effort = best_effort.map(|plan| self.with_accuracy(plan, weights.alpha));
        Some(Outcome::Infeasible { why, best_effort })
    }

    /// Adds the accuracy term to a `plan` made without it.
    fn with_accuracy(&self, plan: Plan, alpha: f64) -> Plan {
        let value = plan.accuracy_ranks.unwrap_or(plan.accuracy_percent);
        Plan {
            objective: plan.objective + alpha * value,
            ..plan
        }
    }
}

#[cfg(test)]
mod tests;
