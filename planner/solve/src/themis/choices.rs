//! Choices at each stage.

use super::{Phase, Problem, Scaling, Setting, Stage};
use crate::{TOLERANCE, TimeLimit};

/// One stage's setting, with its derived values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub(super) instances: u32,
    pub(super) cores: u32,
    pub(super) batch: u32,
    /// n·c.
    pub(super) cost: u32,
    /// l + q.
    pub(super) ms: f64,
    /// n·b/l.
    pub(super) rps: f64,
}

impl Problem {
    /// q(b).
    pub(super) fn wait_ms(&self, stage: &Stage, batch: u32) -> f64 {
        let fill_ms = || f64::from(batch.saturating_sub(1)) * 1000.0 / self.load_rps;
        stage.wait_ms.unwrap_or_else(fill_ms)
    }

    /// Returns by stage every setting that carries `rps`, whatever its cost and latency; `None` if
    /// time is over. Of settings that differ only in the number of instances, only the fewest.
    pub(super) fn choices(
        &self,
        phase: Phase,
        rps: f64,
        time_limit: &TimeLimit<'_>,
    ) -> Option<Vec<Vec<Choice>>> {
        let mut stages = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            let cores = match phase {
                Phase::Vertical => 1..=stage.cores_max,
                Phase::Horizontal => self.horizontal_cores..=self.horizontal_cores,
            };
            let mut choices = Vec::new();
            for cores in cores {
                if time_limit.is_over() {
                    return None;
                }
                let batches = 1..=stage.batch_max;
                choices.extend(batches.filter_map(|b| self.choice(stage, phase, cores, b, rps)));
            }
            stages.push(choices);
        }
        Some(stages)
    }

    fn choice(
        &self,
        stage: &Stage,
        phase: Phase,
        cores: u32,
        batch: u32,
        rps: f64,
    ) -> Option<Choice> {
        let latency_ms = stage.latency.ms(batch, f64::from(cores));
        if !latency_ms.is_finite() || latency_ms <= 0.0 {
            return None;
        }
        let each_rps = f64::from(batch) * 1000.0 / latency_ms;
        let enough = |instances: u32| carries(f64::from(instances) * each_rps, rps);
        let instances = match phase {
            Phase::Vertical => stage.running.instances,
            Phase::Horizontal => {
                let about = (rps / each_rps).ceil().max(1.0);
                if about > f64::from(stage.instances_max) + 1.0 {
                    return None;
                }
                // One fewer may suffice, within the tolerance.
                let fewer = (about as u32 - 1).max(1);
                if enough(fewer) { fewer } else { fewer + 1 }
            }
        };
        let fits = (1..=stage.instances_max).contains(&instances) && enough(instances);
        fits.then(|| Choice {
            instances,
            cores,
            batch,
            cost: instances * cores,
            ms: latency_ms + self.wait_ms(stage, batch),
            rps: f64::from(instances) * each_rps,
        })
    }

    /// Converts one choice per stage to the plan's form.
    pub(super) fn scaling(&self, choices: &[Choice]) -> Scaling {
        let settings = self
            .stages
            .iter()
            .zip(choices)
            .map(|(stage, choice)| Setting {
                name: stage.name.clone(),
                instances: choice.instances,
                cores: choice.cores,
                batch: choice.batch,
                latency_ms: stage.latency.ms(choice.batch, f64::from(choice.cores)),
                wait_ms: self.wait_ms(stage, choice.batch),
                throughput_rps: choice.rps,
            });
        Scaling {
            stages: settings.collect(),
            cores: choices.iter().map(|choice| choice.cost).sum(),
            latency_ms: choices.iter().map(|choice| choice.ms).sum(),
        }
    }

    /// Whether a pipeline of this latency answers in time.
    pub(super) fn in_time(&self, ms: f64) -> bool {
        ms <= self.slo_ms * (1.0 + TOLERANCE)
    }
}

/// Whether a capacity of `capacity_rps` carries `rps`.
pub(super) fn carries(capacity_rps: f64, rps: f64) -> bool {
    capacity_rps >= rps * (1.0 - TOLERANCE)
}

/// Sorted by cost, batch and latency, without dominated ones (another is no worse in all three).
pub(super) fn undominated(mut choices: Vec<Choice>) -> Vec<Choice> {
    choices.sort_by(|a, b| {
        let by_cost = (a.cost, a.batch).cmp(&(b.cost, b.batch));
        by_cost.then(a.ms.total_cmp(&b.ms))
    });
    let mut min = f64::INFINITY;
    choices.retain(|choice| {
        let kept = choice.ms < min;
        min = min.min(choice.ms);
        kept
    });
    choices
}
