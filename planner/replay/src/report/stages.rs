//! Stages of a pipeline in the report: how many requests reached each, and what part of the time was waited and executed
//! there.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::rounded;
use crate::request::{Fate, Outcome, Passage, Play};
use crate::scenario::Scenario;

/// Summary of a stage of a pipeline. Times are means of the requests that the last stage answered, and percentages are
/// of the times of all stages together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfStage {
    /// Name.
    pub name: String,
    /// Requests that reached it.
    pub arrived: u64,
    /// Requests that it answered in time for the next stage, or for their clients.
    pub passed: u64,
    /// Wait at the proxies, ms.
    pub queue_ms: f64,
    /// The same, percent.
    pub queue_percent: f64,
    /// Way to the servers and wait in their queues, ms.
    pub server_queue_ms: f64,
    /// The same, percent.
    pub server_queue_percent: f64,
    /// Execution, ms.
    pub service_ms: f64,
    /// The same, percent.
    pub service_percent: f64,
}

/// Sums over the answered requests.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    queue: Duration,
    server_queue: Duration,
    service: Duration,
}

/// Variants that have served an answered request, in the order of the stages.
pub(super) fn variants<'a>(play: &'a Play, outcome: &Outcome) -> impl Iterator<Item = u16> + 'a {
    let last = match outcome.fate {
        Fate::Answered(variant) if play.passages.is_empty() => Some(variant),
        _ => None,
    };
    let passages = passages(play, outcome).iter();
    let variants = passages.map(|passage| passage.variant);
    last.into_iter().chain(variants)
}

/// Passages of a request through all stages of a pipeline.
fn passages<'a>(play: &'a Play, outcome: &Outcome) -> &'a [Passage] {
    let stages = play.passages.len() / play.outcomes.len().max(1);
    let first = outcome.request as usize * stages;
    let passages = play.passages.get(first..first + stages);
    passages.unwrap_or_default()
}

/// Summary of each stage; empty if there is one.
pub(super) fn by_stage(scenario: &Scenario, play: &Play) -> Vec<OfStage> {
    if play.passages.is_empty() {
        return Vec::new();
    }
    let stages = &scenario.service.stages;
    let mut counts = vec![(0, 0); stages.len()];
    let mut sums = vec![Times::default(); stages.len()];
    let mut answered = 0_u32;
    for outcome in &play.outcomes {
        let passages = passages(play, outcome);
        let is_answered = matches!(outcome.fate, Fate::Answered(_));
        answered += u32::from(is_answered);
        let next = passages.iter().skip(1).map(|next| next.arrived.is_some());
        let passed = next.chain([is_answered]);
        let stages = counts.iter_mut().zip(&mut sums);
        for ((passage, passed), ((arrivals, passes), sum)) in
            passages.iter().zip(passed).zip(stages)
        {
            *arrivals += u64::from(passage.arrived.is_some());
            *passes += u64::from(passed);
            if is_answered {
                sum.add(passage);
            }
        }
    }
    let all: Duration = sums.iter().map(Times::total).sum();
    let each = stages.iter().zip(counts).zip(sums);
    let of_stage = |((stage, (arrived, passed)), sum): (
        (&weir_planner::service::Stage, (u64, u64)),
        Times,
    )| {
        let mean_ms =
            |time: Duration| rounded(time.as_secs_f64() * 1e3 / f64::from(answered.max(1)));
        let percent = |time: Duration| {
            rounded(100.0 * time.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE))
        };
        OfStage {
            name: stage.name.clone(),
            arrived,
            passed,
            queue_ms: mean_ms(sum.queue),
            queue_percent: percent(sum.queue),
            server_queue_ms: mean_ms(sum.server_queue),
            server_queue_percent: percent(sum.server_queue),
            service_ms: mean_ms(sum.service),
            service_percent: percent(sum.service),
        }
    };
    each.map(of_stage).collect()
}

impl Times {
    fn add(&mut self, passage: &Passage) {
        let Passage {
            arrived: Some(arrived),
            dispatched: Some(dispatched),
            executed: Some((started, ended)),
            ..
        } = *passage
        else {
            return;
        };
        self.queue += dispatched.saturating_sub(arrived);
        self.server_queue += started.saturating_sub(dispatched);
        self.service += ended.saturating_sub(started);
    }

    fn total(&self) -> Duration {
        self.queue + self.server_queue + self.service
    }
}
