//! Outcomes of schedules, and their summary. Nothing is checked here.

use std::time::Duration;

use super::run::{BUDGET, PODS};

/// Outcome of a schedule.
pub(crate) struct Outcome {
    pub(crate) virtual_time: Duration,
    pub(crate) takeover: Option<Duration>,
    pub(crate) in_resize: bool,
    pub(crate) killed: bool,
    pub(crate) faults: u64,
    pub(crate) resizes: usize,
    pub(crate) scalings: usize,
    pub(crate) evictions: usize,
    pub(crate) most: f64,
    pub(crate) most_pods: usize,
    /// Whether the resources of `budget` limited the number of pods.
    pub(crate) pods_bounded: bool,
    pub(crate) settled_after: Duration,
}

/// Summarizes all outcomes in a sentence.
pub(crate) fn summarize(all: &[Outcome]) -> String {
    let sum = |of: fn(&Outcome) -> u64| all.iter().map(of).sum::<u64>();
    let mut took: Vec<Duration> = all.iter().filter_map(|outcome| outcome.takeover).collect();
    took.sort();
    let mut confirmed: Vec<Duration> = all.iter().map(|outcome| outcome.settled_after).collect();
    confirmed.sort();
    let at = |sorted: &[Duration], part: usize| {
        let last = sorted.len().saturating_sub(1);
        sorted.get(last * part / 100).copied().unwrap_or_default()
    };
    let most = all.iter().map(|outcome| outcome.most).fold(0.0, f64::max);
    let pods_bounded = all.iter().filter(|outcome| outcome.pods_bounded);
    let most_pods = pods_bounded.clone().map(|outcome| outcome.most_pods).max();
    format!(
        "{} schedules, {} s of virtual time: {} faults, {} resizes, {} scalings and {} evictions taken, {} kills, {} leader failures in a resize; \
         taken over after {:.1?} (median) and at most {:.1?} of {} without faults of the Lease; at most {most} of \
         {BUDGET} cores, and in {} of them at most {} of {PODS} pods; state correct {:.1?} (median) and at most {:.1?} after the last fault",
        all.len(),
        sum(|outcome| outcome.virtual_time.as_secs()),
        sum(|outcome| outcome.faults),
        sum(|outcome| outcome.resizes as u64),
        sum(|outcome| outcome.scalings as u64),
        sum(|outcome| outcome.evictions as u64),
        sum(|outcome| u64::from(outcome.killed)),
        sum(|outcome| u64::from(outcome.in_resize)),
        at(&took, 50),
        at(&took, 100),
        took.len(),
        pods_bounded.count(),
        most_pods.unwrap_or_default(),
        at(&confirmed, 50),
        at(&confirmed, 100),
    )
}
