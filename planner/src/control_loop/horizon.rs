//! Durations of in-place resizes → how far ahead to plan. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::capacity::{Actual, Allocation, Resize, Target};

/// Upper limit of the horizon: extrapolating a rise further is unreliable.
const HORIZON_MAX: Duration = Duration::from_secs(4);
/// Number of changes remembered.
const CHANGES: usize = 8;
/// Changes to wait for: another variant may have to give up the cores first, which takes as long.
const CHANGES_ON_THE_WAY: u32 = 2;

/// Pending change of each variant with its start, and the durations of the latest changes of all variants.
#[derive(Debug, Clone, Default)]
pub(super) struct Horizon {
    requested: Vec<Option<(Target, Duration)>>,
    took: VecDeque<Duration>,
}

impl Horizon {
    /// Creates an empty record.
    pub(super) fn new(variants: usize) -> Horizon {
        Horizon {
            requested: vec![None; variants],
            took: VecDeque::new(),
        }
    }

    /// Records a change requested at `at`. Starts are ignored, because they include loading.
    pub(super) fn record_request(&mut self, change: &Resize, at: Duration) {
        let Some(requested) = self.requested.get_mut(change.variant) else {
            return;
        };
        let ready = change.ready;
        let is_in_place = ready != Allocation::NONE && change.target.replicas <= ready.replicas();
        let same = requested.filter(|(target, _)| *target == change.target);
        *requested = is_in_place.then(|| same.unwrap_or((change.target, at)));
    }

    /// Drops the pending change of a variant after its refusal.
    pub(super) fn refused(&mut self, variant: usize) {
        if let Some(requested) = self.requested.get_mut(variant) {
            *requested = None;
        }
    }

    /// Takes in the actual state at `at`.
    pub(super) fn see(&mut self, actual: &[Actual], at: Duration) {
        for (requested, actual) in self.requested.iter_mut().zip(actual) {
            let is_certain = actual.reserved <= actual.ready.cores();
            if let Some((_, requested)) = requested.take_if(|_| is_certain) {
                self.took.push_back(at.saturating_sub(requested));
            }
        }
        while self.took.len() > CHANGES {
            self.took.pop_front();
        }
    }

    /// Time from a sample until a change requested then takes effect, by the longest of the latest changes. `sample` is
    /// the sampling interval: each change waits for one sample.
    pub(super) fn time(&self, sample: Duration) -> Duration {
        let longest = self.took.iter().max().copied().unwrap_or_default();
        ((longest + sample) * CHANGES_ON_THE_WAY).min(HORIZON_MAX)
    }
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;

    const SAMPLE: Duration = Duration::from_millis(250);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn change(ready: u32, to: u32) -> Resize {
        Resize {
            variant: 0,
            target: Target::one(Cores::whole(to)),
            ready: Allocation::ones(&[Cores::whole(ready)])[0],
            limited: false,
        }
    }

    /// Ready and reserved cores.
    fn actual(ready: u32, reserved: u32) -> [Actual; 1] {
        [Actual {
            reserved: Cores::whole(reserved),
            ..Actual::certain(Allocation::one(Cores::whole(ready)))
        }]
    }

    #[test]
    fn horizon_covers_two_changes() {
        let mut horizon = Horizon::new(1);
        assert_eq!(horizon.time(SAMPLE), SAMPLE * 2);
        horizon.record_request(&change(4, 6), ms(0));
        horizon.see(&actual(4, 6), ms(250));
        // A repeated request keeps its start; a different one starts anew.
        horizon.record_request(&change(4, 6), ms(500));
        horizon.see(&actual(6, 6), ms(750));
        assert_eq!(horizon.time(SAMPLE), (ms(750) + SAMPLE) * 2);
        horizon.record_request(&change(6, 8), ms(1000));
        horizon.record_request(&change(6, 9), ms(1900));
        horizon.see(&actual(9, 9), ms(2900));
        assert_eq!(horizon.time(SAMPLE), (ms(1000) + SAMPLE) * 2);
        for _ in 0..CHANGES {
            horizon.record_request(&change(9, 6), ms(4000));
            horizon.see(&actual(6, 6), ms(4100));
        }
        assert_eq!(horizon.time(SAMPLE), (ms(100) + SAMPLE) * 2);
        horizon.record_request(&change(6, 1), ms(5000));
        horizon.see(&actual(1, 1), ms(60_000));
        assert_eq!(horizon.time(SAMPLE), HORIZON_MAX);
    }

    #[test]
    fn refused_changes_and_starts_are_not_measured() {
        let mut horizon = Horizon::new(1);
        horizon.record_request(&change(4, 6), ms(0));
        horizon.refused(0);
        horizon.see(&actual(4, 4), ms(900));
        horizon.record_request(&change(0, 6), ms(1000));
        horizon.see(&actual(6, 6), ms(9000));
        assert_eq!(horizon.time(SAMPLE), SAMPLE * 2);
    }
}
