//! Sponge (EuroMLSys '24, Eq. 3 and Algorithm 1): one instance, its cores and its batch, each second.
//!
//! minimise c + δ·b such that every waiting request, in EDF order and in batches of b, meets the rest of
//! its own SLO, counting the greatest network latency, and h(b, c) ≥ λ:
//!
//! - the request at position i (from 0, by time left) is answered after (⌊i/b⌋ + 1)·l(b, c);
//! - its time left is its SLO minus the time since it arrived minus the greatest network latency of all
//!   waiting requests (cl_max of the paper: the answer to a request that came fast may travel slowly);
//! - requests that only *will* arrive, λ of them a second, wait for their batch to fill, (b − 1)/λ, and
//!   are executed at once when it is full: (b − 1)/λ + l(b, c) ≤ SLO − the network latency at a chosen
//!   percentile of those given (100: the greatest);
//! - a peak of P requests/s for T seconds (not in the paper) may wait for w, the time left after its batch:
//!   h(b, c)·(T + w) ≥ P·T.
//!
//! The paper's Algorithm 1 prints the conditions of lines 8, 9 and 15 the wrong way round. The intended
//! algorithm skips a (c, b) whose latency exceeds the time left, and returns the first for which no
//! request fails. The published program checks neither λ nor each request. [`tests`] covers both.
//!
//! - Exact by trying all (c, b): the tightest request of each batch size is found once, so that each pair
//!   costs one evaluation of the latency model.
//! - Ties (within [`TOLERANCE`]): the fewest cores, then the smallest batch.
//! - Infeasible: the best effort answers the most waiting requests on time; among those the greatest part
//!   of λ, then the least objective.

mod check;
pub mod input;

pub use input::{Input, Peak};
use schemars::JsonSchema;
use serde::Serialize;

use crate::latency_model::Latency;
use crate::{Outcome, TOLERANCE, TimeLimit};

/// Maximum number of cores and maximum batch to choose from.
pub const CHOICES_MAX: u32 = 1024;
/// Maximum number of waiting requests.
pub const WAITING_MAX: usize = 100_000;

/// Checked problem, created from an [`Input`].
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    latency: Latency,
    /// Numbers of cores and batches to choose from, rising.
    cores: Vec<u32>,
    /// Cores of one of them, for the reasons.
    step: f64,
    batches: Vec<u32>,
    /// δ.
    delta: f64,
    /// λ.
    rate_rps: f64,
    peak: Option<Peak>,
    /// Time left of the waiting requests, in ms, least first.
    left_ms: Vec<f64>,
    /// Time left of arriving requests after their network latency, in ms.
    arriving_ms: Option<f64>,
}

/// Cores and batch of the one instance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// c.
    pub cores: u32,
    /// b.
    pub batch: u32,
    /// l(b, c).
    pub latency_ms: f64,
    /// h(b, c).
    pub throughput_rps: f64,
    /// Number of waiting requests answered on time.
    pub on_time: usize,
    /// c + δ·b.
    pub objective: f64,
}

/// Solves `problem`.
pub fn solve(problem: &Problem, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
    let mut best: Option<Plan> = None;
    for batch in &problem.batches {
        if time_limit.is_over() {
            let why = "not all batches were tried in time".to_owned();
            return Outcome::OutOfTime { why, best }.checked(problem);
        }
        let latency_max_ms = problem.latency_max_ms(*batch);
        for cores in &problem.cores {
            let objective = f64::from(*cores) + problem.delta * f64::from(*batch);
            // Both terms rise from here on.
            if best.is_some_and(|best| objective > best.objective * (1.0 + TOLERANCE)) {
                break;
            }
            let latency_ms = problem.latency.ms(*batch, f64::from(*cores));
            let plan = Plan {
                on_time: problem.left_ms.len(),
                ..problem.plan(*cores, *batch, latency_ms)
            };
            if latency_ms <= latency_max_ms
                && problem.carries(&plan)
                && plan.precedes(best.as_ref())
            {
                best = Some(plan);
            }
        }
    }
    match best {
        Some(best) => Outcome::Optimal(best),
        None => problem.infeasible(time_limit),
    }
    .checked(problem)
}

impl Plan {
    /// Whether it is preferred: a smaller objective, or the same with fewer cores, then a smaller batch.
    fn precedes(&self, other: Option<&Plan>) -> bool {
        let Some(other) = other else { return true };
        let tie = TOLERANCE * (1.0 + other.objective.abs());
        if (self.objective - other.objective).abs() > tie {
            return self.objective < other.objective;
        }
        (self.cores, self.batch) < (other.cores, other.batch)
    }
}

impl Problem {
    /// The same with its numbers of cores in steps of that many cores, for the reasons.
    #[must_use]
    pub fn in_steps(self, step: f64) -> Problem {
        Problem { step, ..self }
    }

    /// Maximum latency of a batch of that size: (⌊i/b⌋ + 1)·l ≤ left_i for each waiting request i (the
    /// first of each batch has the least time left), and (b − 1)/λ + l ≤ the time left of arriving
    /// requests.
    fn latency_max_ms(&self, batch: u32) -> f64 {
        let step = usize::try_from(batch).unwrap_or(usize::MAX).max(1);
        let firsts = self.left_ms.iter().step_by(step);
        let each = firsts.zip(1u32..).map(|(left, nth)| left / f64::from(nth));
        let waiting = each.fold(f64::INFINITY, f64::min);
        let arriving = self
            .arriving_ms
            .map_or(f64::INFINITY, |left| left - self.fill_ms(batch));
        waiting.min(arriving)
    }

    /// (b − 1)/λ.
    fn fill_ms(&self, batch: u32) -> f64 {
        f64::from(batch - 1) * 1000.0 / self.rate_rps
    }

    fn plan(&self, cores: u32, batch: u32, latency_ms: f64) -> Plan {
        Plan {
            cores,
            batch,
            latency_ms,
            throughput_rps: f64::from(batch) * 1000.0 / latency_ms,
            on_time: 0,
            objective: f64::from(cores) + self.delta * f64::from(batch),
        }
    }

    fn carries(&self, plan: &Plan) -> bool {
        plan.throughput_rps >= self.rate_to_carry(plan) * (1.0 - TOLERANCE)
    }

    /// The greater of λ and the part of the peak that cannot wait: of P·T requests a throughput of P·T / (T + w) answers
    /// the last after a wait of w, the time left after its batch.
    fn rate_to_carry(&self, plan: &Plan) -> f64 {
        let spare_ms = |left: f64| (left - self.fill_ms(plan.batch) - plan.latency_ms).max(0.0);
        let spare_s = self.arriving_ms.map_or(0.0, spare_ms) / 1e3;
        let peak = |peak: Peak| peak.rate_rps * peak.seconds / (peak.seconds + spare_s);
        self.rate_rps.max(self.peak.map_or(0.0, peak))
    }

    /// Result if no choice serves all requests: the best effort, and the limiting constraint.
    fn infeasible(&self, time_limit: &TimeLimit<'_>) -> Outcome<Plan> {
        let mut most: Option<Plan> = None;
        let mut all = true;
        for batch in &self.batches {
            if time_limit.is_over() {
                all = false;
                break;
            }
            let longest = self.longest_each_ms(*batch);
            for cores in &self.cores {
                let latency_ms = self.latency.ms(*batch, f64::from(*cores));
                if !latency_ms.is_finite() {
                    continue;
                }
                let on_time = longest.len() - longest.partition_point(|most| *most < latency_ms);
                let plan = Plan {
                    on_time,
                    ..self.plan(*cores, *batch, latency_ms)
                };
                if self.serves_more(&plan, most.as_ref()) {
                    most = Some(plan);
                }
            }
        }
        Outcome::Infeasible {
            why: self.why(most.as_ref(), all),
            best_effort: most,
        }
    }

    /// Per waiting request, the maximum latency of a batch for it to be on time; rising.
    fn longest_each_ms(&self, batch: u32) -> Vec<f64> {
        let step = usize::try_from(batch).unwrap_or(usize::MAX).max(1);
        let batches = self.left_ms.chunks(step).zip(1u32..);
        let mut longest: Vec<f64> = batches
            .flat_map(|(members, nth)| members.iter().map(move |left| left / f64::from(nth)))
            .collect();
        longest.sort_by(f64::total_cmp);
        longest
    }

    fn serves_more(&self, plan: &Plan, other: Option<&Plan>) -> bool {
        let Some(other) = other else { return true };
        let rate = |plan: &Plan| self.rate_to_carry(plan);
        let carried = |plan: &Plan| plan.throughput_rps.min(rate(plan));
        if plan.on_time != other.on_time {
            return plan.on_time > other.on_time;
        }
        let tie = TOLERANCE * (1.0 + carried(other));
        if (carried(plan) - carried(other)).abs() > tie {
            return carried(plan) > carried(other);
        }
        plan.precedes(Some(other))
    }

    /// Describes the limiting constraint. `all`: whether every choice was tried.
    fn why(&self, most: Option<&Plan>, all: bool) -> String {
        let (cores, batch) = (self.cores.last(), self.batches.last());
        let bounds = format!(
            "{} cores and batches of {}",
            (f64::from(cores.copied().unwrap_or(0)) * self.step * 1e3).round() / 1e3,
            batch.copied().unwrap_or(0)
        );
        let Some(most) = most else {
            if !all {
                return format!(
                    "no choice up to {bounds} serves all; what serves the most was not found in time"
                );
            }
            return format!("the model has no latency for any choice up to {bounds}");
        };
        let waiting = self.left_ms.len();
        if most.on_time < waiting {
            let min = self.left_ms.first().copied().unwrap_or(0.0);
            return format!(
                "of {waiting} waiting requests {} at {} can be on time with up to {bounds}; the most \
                 urgent has {min:.1} ms left, and a batch takes {:.1} ms",
                most.on_time,
                if all { "most" } else { "least" },
                most.latency_ms
            );
        }
        if !self.carries(most) {
            if !all {
                return format!(
                    "no choice up to {bounds} serves all; what serves the most was not found in time"
                );
            }
            return format!(
                "a rate of {:.1} requests/s exceeds the {:.1} that up to {bounds} can carry",
                self.rate_to_carry(most),
                most.throughput_rps
            );
        }
        let left = self.arriving_ms.unwrap_or(0.0);
        format!(
            "with up to {bounds} no batch that carries the rate fills and executes within the {left:.1} ms there are"
        )
    }
}

#[cfg(test)]
mod tests;
