//! Start requests and their completions → how long variants take to become ready. Pure.
//!
//! Completions are seen once a cycle, so a difference of a few cycles is ignored. A time that differs much more from
//! the service file's replaces it, and the *why* of the decision reports it.

use std::time::Duration;

use crate::capacity::{Actual, Allocation, Resize};

/// Relative tolerance on the readiness time of the service file.
const WRONG_MIN: f64 = 0.25;
/// Additional tolerance, in cycles.
const CYCLES: u32 = 2;

/// Pending start and last start duration of each variant.
#[derive(Debug, Clone, Default)]
pub(super) struct Readiness(Vec<One>);

#[derive(Debug, Clone, Copy, Default)]
struct One {
    requested: Option<Duration>,
    took: Option<Duration>,
}

impl Readiness {
    /// Creates an empty record.
    pub(super) fn new(variants: usize) -> Readiness {
        Readiness(vec![One::default(); variants])
    }

    /// Records a change requested at `at`.
    pub(super) fn record_request(&mut self, change: &Resize, at: Duration) {
        let Some(one) = self.0.get_mut(change.variant) else {
            return;
        };
        match change.target.replicas > 0 && change.ready == Allocation::NONE {
            // A repeated request keeps its start.
            true => one.requested = one.requested.or(Some(at)),
            false => one.requested = None,
        }
    }

    /// Drops the pending start of a variant after its refusal.
    pub(super) fn refused(&mut self, variant: usize) {
        if let Some(one) = self.0.get_mut(variant) {
            one.requested = None;
        }
    }

    /// Takes in the actual state at `at`.
    pub(super) fn see(&mut self, actual: &[Actual], at: Duration) {
        for (one, actual) in self.0.iter_mut().zip(actual) {
            if actual.ready != Allocation::NONE
                && let Some(requested) = one.requested.take()
            {
                one.took = Some(at.saturating_sub(requested));
            }
        }
    }

    /// Measured readiness time of a variant, if it differs from the `configured` one.
    pub(super) fn learnt(
        &self,
        variant: usize,
        configured: Duration,
        cycle: Duration,
    ) -> Option<Duration> {
        let took = self.0.get(variant)?.took?;
        let may_be = configured.mul_f64(WRONG_MIN) + cycle * CYCLES;
        (took.abs_diff(configured) > may_be).then_some(took)
    }
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;
    use crate::capacity::Target;

    const CYCLE: Duration = Duration::from_secs(1);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn change(ready: u32, to: u32) -> Resize {
        Resize {
            variant: 0,
            target: Target::one(Cores::whole(to)),
            ready: Allocation::one(Cores::whole(ready)),
            limited: false,
        }
    }

    fn actual(cores: u32) -> [Actual; 1] {
        [Actual::certain(Allocation::one(Cores::whole(cores)))]
    }

    #[test]
    fn start_time_far_from_configured_one_is_learnt() {
        for (takes, configured, learnt) in [
            (15, 5, Some(s(15))),
            (15, 15, None),
            (17, 15, None),
            (1, 15, Some(s(1))),
            (7, 5, None),
            (2, 0, None),
            (3, 0, Some(s(3))),
        ] {
            let mut readiness = Readiness::new(1);
            for second in 0..takes {
                readiness.see(&actual(0), s(second));
                readiness.record_request(&change(0, 3), s(second));
            }
            assert_eq!(readiness.learnt(0, s(configured), CYCLE), None);
            readiness.see(&actual(3), s(takes));
            assert_eq!(
                readiness.learnt(0, s(configured), CYCLE),
                learnt,
                "{takes} {configured}"
            );
        }
    }

    #[test]
    fn refused_or_abandoned_start_is_not_measured() {
        let mut readiness = Readiness::new(1);
        readiness.record_request(&change(0, 3), s(0));
        readiness.refused(0);
        readiness.record_request(&change(0, 3), s(20));
        readiness.see(&actual(3), s(21));
        assert_eq!(readiness.learnt(0, s(0), CYCLE), None);
        readiness.record_request(&change(0, 3), s(30));
        readiness.record_request(&change(0, 0), s(31));
        readiness.see(&actual(3), s(60));
        // More cores for a serving variant are no start.
        readiness.record_request(&change(3, 6), s(61));
        readiness.see(&actual(6), s(90));
        assert_eq!(readiness.learnt(0, s(0), CYCLE), None);
    }
}
