//! Themis (Razavi, Salmani, Mühlhäuser, Koldehofe, Wang: A Tale of Two Scales, arXiv 2407.14843): a
//! pipeline of stages, first scaled vertically, which works at once, then horizontally, which is cheaper.
//!
//! Of each stage: its latency law l(b, c), the n₀ instances that run, the greatest batch and cores of an
//! instance and the most instances. With λ the load and q(b) = (b−1)/λ the longest wait for a batch to
//! fill, two programmes over all stages:
//!
//! - **vertical**: the instances stay, n = n₀; choose b and c. They take effect at once.
//! - **horizontal**: instances of few cores, c = `horizontal_cores` (by Amdahl's law those of one core
//!   are the most efficient); choose b and n.
//!
//! Each minimises Σ n·c, then Σ b, subject to Σ (l(b, c) + q(b)) ≤ SLO, n·b/l(b, c) ≥ λ at each stage and
//! Σ n·c ≤ the budget. (With the batches weighed by a δ so small that it never costs a core.) What is left
//! of ties goes to the least latency, then to the fewest cores and the least batch at the first stage, then
//! at the second, and so on.
//!
//! Both are multiple-choice knapsacks along the latency budget, solved exactly by dynamic programming over
//! the Pareto front of (latency, cost): [`front`].
//!
//! **Policy.** What is known of the paper here is its abstract and summaries; this is our reading. While
//! the load is not known to last, the running instances absorb it by more cores: [`Phase::Vertical`]. Where
//! they cannot, or once it lasts (`lasting`: the caller's word, as the paper's predictor gives it), it is
//! [`Phase::Horizontal`]: the additional instances are started while the old ones carry on with the
//! vertical plan (with their present cores, where there is none); when they are ready, the old ones shrink
//! in place. A lasting load that cannot be carried horizontally stays vertical. The plan says both, and how
//! many cores the hand-over takes while old and new run side by side.
//!
//! **Best effort.** Where neither meets all constraints: as much of λ as the pipeline's narrowest stage can
//! carry within the budget, and with that the least latency within the budget, then the fewest cores;
//! by the programme that carries more, then the one of less latency, then the vertical. Where there is no
//! time for the least latency it is the fewest cores.

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

use crate::law::Latency;
use crate::{Outcome, Patience};
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

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// What to do now.
    pub phase: Phase,
    /// Cores and batches of the running instances, effective at once; absent where they cannot carry the
    /// load in time within the budget.
    pub vertical: Option<Scaling>,
    /// The instances to start now or, in the vertical phase, once the load has lasted; absent where they
    /// could not carry it in time within the budget.
    pub horizontal: Option<Scaling>,
    /// From what runs to `horizontal`.
    pub handover: Option<Handover>,
}

/// Which of the two programmes is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Resize the running instances.
    Vertical,
    /// Start the additional instances, then shrink the old ones.
    Horizontal,
}

/// The settings of all stages.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Scaling {
    /// In the order of the input.
    pub stages: Vec<Setting>,
    /// Σ n·c.
    pub cores: u32,
    /// Σ (l + q), in ms.
    pub latency_ms: f64,
}

/// The setting of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Setting {
    /// The stage.
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

/// Cores while old and new instances run side by side. At each stage these are the old ones, with their
/// cores of the vertical plan (or, where there is none, of now), and those to be started beyond their
/// number; the old ones become new ones in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Handover {
    /// Cores if all stages are handed over at once.
    pub at_once_cores: u32,
    /// The most cores at a time if the stages are handed over one after another, in order.
    pub in_turn_cores: u32,
    /// What the budget allows.
    pub fits: Fits,
}

/// How a hand-over keeps to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fits {
    /// All stages at once.
    AtOnce,
    /// Only one stage after another.
    InTurn,
    /// Not without going beyond it for a while, or stopping old instances before new ones are ready.
    Never,
}

/// Solves both programmes and says what to do now.
pub fn solve(problem: &Problem, patience: &Patience<'_>) -> Outcome<Plan> {
    // The smaller one first: what it leaves of its half is the other's.
    let horizontal = front::solve(problem, Phase::Horizontal, &patience.part(0.5));
    let vertical = front::solve(problem, Phase::Vertical, patience);
    join::join(problem, vertical, horizontal, patience).checked(problem)
}
