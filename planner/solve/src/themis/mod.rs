//! Themis (Razavi, Salmani, Mühlhäuser, Koldehofe, Wang: A Tale of Two Scales, arXiv 2407.14843): a
//! pipeline of stages, first scaled vertically, which works at once, then horizontally, which is cheaper.
//!
//! Each stage has a latency model l(b, c), n₀ running instances, the maximum batch and cores of an instance
//! and the maximum number of instances. With λ the load and q(b) = (b−1)/λ the longest wait for a batch to
//! fill, there are two programmes over all stages:
//!
//! - **vertical**: the instances stay, n = n₀; choose b and c. They take effect at once.
//! - **horizontal**: instances of few cores, c = `horizontal_cores` (by Amdahl's law those of one core are
//!   the most efficient); choose b and n.
//!
//! Each minimises Σ n·c, then Σ b, subject to Σ (l(b, c) + q(b)) ≤ SLO, n·b/l(b, c) ≥ λ at each stage and Σ
//! n·c ≤ the budget. (This equals a weight δ of the batches so small that it never costs a core.) Remaining
//! ties go to the least latency, then to the fewest cores and the smallest batch at the first stage, then
//! at the second, and so on.
//!
//! Both are multiple-choice knapsacks along the latency budget, solved exactly by dynamic programming over
//! the Pareto front of (latency, cost): [`front`].
//!
//! **Policy.** We know only the paper's abstract and summaries; this is our reading. Until the load is
//! known to last, the running instances absorb it with more cores: [`Phase::Vertical`]. If they cannot, or
//! once it lasts (`lasting`, set by the caller, as the paper's predictor does), the phase is
//! [`Phase::Horizontal`]. The additional instances are started while the old ones carry on with the
//! vertical plan (with their present cores, if there is none). When they are ready, the old ones shrink in
//! place. A lasting load that cannot be carried horizontally stays vertical. The plan has both programmes'
//! settings, and the cores of the hand-over while old and new run side by side.
//!
//! **Best effort.** If neither programme meets all constraints: the greatest part of λ that the pipeline's
//! narrowest stage can carry within the budget, and with that the least latency within the budget, then the
//! fewest cores; by the programme that carries more, then the one of less latency, then the vertical. If
//! there is no time to minimise the latency, the fewest cores.

mod best_effort;
mod check;
mod choices;
mod front;
pub mod ilp;
mod input;
mod join;
mod relaxed;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;

use crate::latency_model::Latency;
use crate::{Outcome, TimeLimit};
pub use input::{
    BATCH_MAX, BUDGET_MAX, CORES_MAX, INSTANCES_MAX, Input, LOAD_MAX_RPS, Running, STAGES_MAX,
    StageInput,
};

/// A pipeline and its load; made from an [`Input`].
#[derive(Debug, Clone)]
pub struct Problem {
    load_rps: f64,
    lasting: bool,
    slo_ms: f64,
    budget_cores: u32,
    horizontal_cores: u32,
    stages: Vec<Stage>,
}

#[derive(Debug, Clone)]
struct Stage {
    name: String,
    latency: Latency,
    running: Running,
    cores_max: u32,
    batch_max: u32,
    wait_ms: Option<f64>,
    instances_max: u32,
}

/// Scaling plan of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Phase to apply now.
    pub phase: Phase,
    /// Cores and batches of the running instances, effective at once; absent if they cannot carry the load
    /// in time within the budget.
    pub vertical: Option<Scaling>,
    /// Instances to start now or, in the vertical phase, once the load has lasted; absent if they could not
    /// carry it in time within the budget.
    pub horizontal: Option<Scaling>,
    /// Hand-over from the running instances to `horizontal`.
    pub handover: Option<Handover>,
}

/// The programme that applies now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Resize the running instances.
    Vertical,
    /// Start the additional instances, then shrink the old ones.
    Horizontal,
}

/// Settings of all stages.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Scaling {
    /// Stages in the order of the input.
    pub stages: Vec<Setting>,
    /// Σ n·c.
    pub cores: u32,
    /// Σ (l + q), in ms.
    pub latency_ms: f64,
}

/// Setting of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Setting {
    /// Name of the stage.
    pub name: String,
    /// n.
    pub instances: u32,
    /// c: cores of each instance.
    pub cores: u32,
    /// b: requests executed together.
    pub batch: u32,
    /// l(b, c), in ms.
    pub latency_ms: f64,
    /// q(b): the longest wait for the batch to fill, in ms.
    pub wait_ms: f64,
    /// n·b/l: requests/s that the stage carries.
    pub throughput_rps: f64,
}

/// Cores while old and new instances run side by side. At each stage these are the old instances, with
/// their cores of the vertical plan (or their current ones, if there is none), and the instances to be
/// started beyond their number; the old ones become new ones in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Handover {
    /// Cores if all stages are handed over at once.
    pub simultaneous_cores: u32,
    /// Maximum number of cores if the stages are handed over one after another, in order.
    pub sequential_cores: u32,
    /// Order that the budget allows.
    pub fits: Fits,
}

/// Relation of a hand-over to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fits {
    /// All stages may be handed over at once.
    Simultaneous,
    /// Only one stage after another.
    Sequential,
    /// Only by exceeding it for a while, or by stopping old instances before new ones are ready.
    Never,
}

/// Solves both programmes and selects the phase.
pub fn solve(problem: &Problem, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    // The smaller programme first: the other one gets the rest of its half of the time.
    let horizontal = front::solve(problem, Phase::Horizontal, &time_limit.part(0.5));
    let vertical = front::solve(problem, Phase::Vertical, time_limit);
    join::join(problem, vertical, horizontal, time_limit).checked(problem)
}
