//! VPA+ of InfAdapter's evaluation, as its published program has it (`adapter/main.py` with `VPA_TYPE` P,
//! `starter.py`): one variant, whose cores follow the target of the VPA's recommender:
//!
//! - the recommender is created a minute after the start; its samples are of each minute;
//! - from 2 minutes on a decision each 30 s: the target, rounded up to whole cores, at least 2;
//! - a target that is not above the cores is passed over, up to four times in a row;
//! - a change is a rolling update: the old pod serves until the new one is ready. Its cores meanwhile are not
//!   counted, as the program's cost does not.

use std::time::Duration;

use super::infadapter::{PASSED_OVER_MAX, is_due};
use super::vpa::{self, Recommender};

/// Fewest cores of a pod.
pub(super) const CORES_MIN: f64 = 2.0;

/// State of VPA+.
#[derive(Debug, Clone, Default)]
pub(crate) struct VpaPlus {
    recommender: Recommender,
    passed_over: u32,
    /// Core-seconds used until the last sample.
    sampled: f64,
}

impl VpaPlus {
    /// Takes in the core-seconds used so far, once a second; returns the cores of the pod when a decision is due.
    pub(super) fn update(&mut self, now: Duration, busy: f64, cores: f64, max: f64) -> Option<f64> {
        let second = now.as_secs();
        if second > 0 && second.is_multiple_of(vpa::PERIOD.as_secs()) {
            let used = (busy - self.sampled) / vpa::PERIOD.as_secs_f64();
            self.sampled = busy;
            // The first minute is before the recommender is created.
            if now > vpa::PERIOD {
                self.recommender.sample(now, used);
            }
        }
        if !is_due(now) {
            return None;
        }
        let target = self.recommender.recommendation().target.ceil();
        let target = target.clamp(CORES_MIN.min(max), max);
        if target <= cores && self.passed_over < PASSED_OVER_MAX {
            self.passed_over += 1;
            return None;
        }
        self.passed_over = 0;
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `make_decision` with `solver_type` v and `VPA_TYPE` P: a target of 4.8 cores becomes 5 at the first decision;
    /// a lower one waits for four decisions.
    #[test]
    fn target_is_followed_up_at_once_and_down_at_the_fifth_decision() {
        let mut vpa = VpaPlus::default();
        let (mut busy, mut cores) = (0.0, 2.0);
        let mut changes = Vec::new();
        for second in 0..=600_u32 {
            let now = Duration::from_secs(second.into());
            if let Some(target) = vpa.update(now, busy, cores, 20.0) {
                changes.push((second, target));
                cores = target;
            }
            busy += 4.0;
        }
        // 4 cores end a bucket at 4.0 to 4.2; with the margin 4.6 to 4.83.
        assert_eq!(changes[0], (120, 5.0));
        assert!(changes.iter().all(|(_, target)| *target == 5.0));
        let at: Vec<u32> = changes.iter().map(|(second, _)| *second).collect();
        assert_eq!(at, [120, 270, 420, 570], "four are passed over");
        // Fewer than 2 are never given, nor more than the budget.
        for (used, max, expected) in [(0.0, 20.0, 2.0), (30.0, 20.0, 20.0)] {
            let mut vpa = VpaPlus::default();
            let decided = (0..=120_u32).find_map(|second| {
                let now = Duration::from_secs(second.into());
                vpa.update(now, used * f64::from(second), 1.0, max)
            });
            assert_eq!(decided, Some(expected));
        }
    }
}
