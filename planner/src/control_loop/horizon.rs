//! Moments at which servers that serve were asked to have other cores, and had them → how far ahead to plan. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::capacity::{Actual, Allocation, Resize, Target};

/// Furthest ahead: a rise that is drawn out for longer says little.
const HORIZON_MAX: Duration = Duration::from_secs(4);
/// Changes remembered.
const CHANGES: usize = 8;
/// Cores that are another's have to be given up first, in as much time.
const CHANGES_ON_THE_WAY: u32 = 2;

/// Change that is awaited of each variant, and since when; of all together, the time that the last ones took.
#[derive(Debug, Clone, Default)]
pub(super) struct Horizon {
    asked: Vec<Option<(Target, Duration)>>,
    took: VecDeque<Duration>,
}

impl Horizon {
    /// Nothing was seen yet.
    pub(super) fn new(variants: usize) -> Horizon {
        Horizon {
            asked: vec![None; variants],
            took: VecDeque::new(),
        }
    }

    /// A change is asked for `at` that time. What begins to serve says nothing: it loads.
    pub(super) fn ask(&mut self, change: &Resize, at: Duration) {
        let Some(asked) = self.asked.get_mut(change.variant) else {
            return;
        };
        let ready = change.ready;
        let is_in_place = ready != Allocation::NONE && change.target.replicas <= ready.replicas();
        let same = asked.filter(|(target, _)| *target == change.target);
        *asked = is_in_place.then(|| same.unwrap_or((change.target, at)));
    }

    /// It was refused.
    pub(super) fn refused(&mut self, variant: usize) {
        if let Some(asked) = self.asked.get_mut(variant) {
            *asked = None;
        }
    }

    /// What is in force `at` that time.
    pub(super) fn see(&mut self, actual: &[Actual], at: Duration) {
        for (asked, there) in self.asked.iter_mut().zip(actual) {
            let is_certain = there.reserved <= there.ready.cores();
            if let Some((_, asked)) = asked.take_if(|_| is_certain) {
                self.took.push_back(at.saturating_sub(asked));
            }
        }
        while self.took.len() > CHANGES {
            self.took.pop_front();
        }
    }

    /// From what a look shows until what is asked for then is in force, by the longest of the latest changes. `look` is
    /// the time from one to the next: each change waits for one.
    pub(super) fn time(&self, look: Duration) -> Duration {
        let longest = self.took.iter().max().copied().unwrap_or_default();
        ((longest + look) * CHANGES_ON_THE_WAY).min(HORIZON_MAX)
    }
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;

    const LOOK: Duration = Duration::from_millis(250);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn change(ready: u32, to: u32) -> Resize {
        Resize {
            variant: 0,
            target: Target::one(Cores::whole(to)),
            ready: Allocation::ones(&[Cores::whole(ready)])[0],
            bound: false,
        }
    }

    /// Ready, and what there may be.
    fn there(ready: u32, reserved: u32) -> [Actual; 1] {
        [Actual {
            reserved: Cores::whole(reserved),
            ..Actual::certain(Allocation::one(Cores::whole(ready)))
        }]
    }

    #[test]
    fn plans_go_as_far_ahead_as_two_changes_take() {
        let mut horizon = Horizon::new(1);
        assert_eq!(horizon.time(LOOK), LOOK * 2);
        horizon.ask(&change(4, 6), ms(0));
        horizon.see(&there(4, 6), ms(250));
        // Asked again for the same, it goes on; asked for another, it begins anew.
        horizon.ask(&change(4, 6), ms(500));
        horizon.see(&there(6, 6), ms(750));
        assert_eq!(horizon.time(LOOK), (ms(750) + LOOK) * 2);
        horizon.ask(&change(6, 8), ms(1000));
        horizon.ask(&change(6, 9), ms(1900));
        horizon.see(&there(9, 9), ms(2900));
        assert_eq!(horizon.time(LOOK), (ms(1000) + LOOK) * 2);
        for _ in 0..CHANGES {
            horizon.ask(&change(9, 6), ms(4000));
            horizon.see(&there(6, 6), ms(4100));
        }
        assert_eq!(horizon.time(LOOK), (ms(100) + LOOK) * 2);
        horizon.ask(&change(6, 1), ms(5000));
        horizon.see(&there(1, 1), ms(60_000));
        assert_eq!(horizon.time(LOOK), HORIZON_MAX);
    }

    #[test]
    fn what_is_refused_or_loads_says_nothing() {
        let mut horizon = Horizon::new(1);
        horizon.ask(&change(4, 6), ms(0));
        horizon.refused(0);
        horizon.see(&there(4, 4), ms(900));
        horizon.ask(&change(0, 6), ms(1000));
        horizon.see(&there(6, 6), ms(9000));
        assert_eq!(horizon.time(LOOK), LOOK * 2);
    }
}
