//! What came of schedules, counted and told. Nothing is judged here.

use std::time::Duration;

use super::play::{BUDGET, PODS};

/// What came of a schedule.
pub(crate) struct Played {
    pub(crate) virtual_time: Duration,
    pub(crate) took_over: Option<Duration>,
    pub(crate) in_resize: bool,
    pub(crate) killed: bool,
    pub(crate) faults: u64,
    pub(crate) resizes: usize,
    pub(crate) scalings: usize,
    pub(crate) evictions: usize,
    pub(crate) most: f64,
    pub(crate) most_pods: usize,
    /// Whether these were bounded.
    pub(crate) bound: bool,
    pub(crate) settled_after: Duration,
}

/// What came of them all, in words.
pub(crate) fn told(all: &[Played]) -> String {
    let sum = |of: fn(&Played) -> u64| all.iter().map(of).sum::<u64>();
    let mut took: Vec<Duration> = all.iter().filter_map(|played| played.took_over).collect();
    took.sort();
    let mut settled: Vec<Duration> = all.iter().map(|played| played.settled_after).collect();
    settled.sort();
    let at = |sorted: &[Duration], part: usize| {
        let last = sorted.len().saturating_sub(1);
        sorted.get(last * part / 100).copied().unwrap_or_default()
    };
    let most = all.iter().map(|played| played.most).fold(0.0, f64::max);
    let bound = all.iter().filter(|played| played.bound);
    let most_pods = bound.clone().map(|played| played.most_pods).max();
    format!(
        "{} schedules, {} s of their time: {} faults, {} resizes, {} scalings and {} evictions taken, {} kills, {} struck in a resize; \
         taken over after {:.1?} (median) and at most {:.1?} of {} where no fault befell the Lease; at most {most} of \
         {BUDGET} cores, and in {} of them at most {} of {PODS} pods; all in order {:.1?} (median) and at most {:.1?} after the last fault",
        all.len(),
        sum(|played| played.virtual_time.as_secs()),
        sum(|played| played.faults),
        sum(|played| played.resizes as u64),
        sum(|played| played.scalings as u64),
        sum(|played| played.evictions as u64),
        sum(|played| u64::from(played.killed)),
        sum(|played| u64::from(played.in_resize)),
        at(&took, 50),
        at(&took, 100),
        took.len(),
        bound.count(),
        most_pods.unwrap_or_default(),
        at(&settled, 50),
        at(&settled, 100),
    )
}
