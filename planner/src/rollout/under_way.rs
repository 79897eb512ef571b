//! Keeps requesting the changes in progress unchanged in the next cycles. Demand and target vary a little from cycle
//! to cycle. A loading server would restart each time other cores are requested, and a kubelet that takes longer than
//! a cycle would never finish. Pure.

use weir_api::Cores;

use crate::capacity::{Actual, Allocation, Resize, Target};
use crate::rollout::MUCH_MORE;

/// Targets requested and not confirmed, by variant.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnderWay(Vec<Option<Target>>);

impl UnderWay {
    /// Creates a record without requests.
    pub(crate) fn new(variants: usize) -> UnderWay {
        UnderWay(vec![None; variants])
    }

    /// Records a change without a timely answer. The request to a serving server was for the cores of its target, not
    /// for those with which a new replica starts; its actual cores may be uncertain in the next cycle.
    pub(crate) fn requested(&mut self, change: &Resize) {
        if let Some(requested) = self.0.get_mut(change.variant) {
            *requested = Some(match change.target.replicas > change.ready.replicas() {
                true => change.target,
                false => Target {
                    start: change.target.each,
                    ..change.target
                },
            });
        }
    }

    /// Drops requests that are fulfilled or will not be.
    pub(crate) fn see(&mut self, actual: &[Actual]) {
        for (requested, actual) in self.0.iter_mut().zip(actual) {
            requested.take_if(|_| actual.reserved <= actual.ready.cores());
        }
    }

    /// Returns the targets to request, given the current `targets`. A growth in progress is requested anew once the
    /// target is much more, because a rise may reach many times what its first sample shows. A serving variant that is
    /// to shrink first gets what was requested. A loading server continues even if it has no target any more, while the
    /// budget covers it: it may have one again in the next cycle.
    pub(crate) fn keep(&self, actual: &[Actual], targets: &[Target], budget: Cores) -> Vec<Target> {
        let mut kept = targets.to_vec();
        let all: Cores = actual.iter().map(|one| one.reserved).sum();
        let each = kept.iter_mut().zip(&self.0).zip(targets.iter().zip(actual));
        for ((target, requested), (desired, actual)) in each {
            let ready = actual.ready;
            let is_too_little = |requested: &Target| {
                let growth = |cores: Cores| cores.saturating_sub(ready.cores()).as_f64();
                let free = budget.saturating_sub(all.saturating_sub(actual.reserved));
                let more = growth(desired.cores(ready).min(free));
                ready != Allocation::NONE && more >= growth(requested.cores(ready)) * MUCH_MORE
            };
            let goes_on = |requested: &Target| match requested.cores(ready) > ready.cores() {
                true => desired.replicas > 0 && !is_too_little(requested),
                false => desired.cores(ready) < requested.cores(ready),
            };
            if let Some(requested) = requested.filter(goes_on) {
                *target = requested;
            }
        }
        for (index, requested) in self.0.iter().enumerate() {
            let (Some(requested), Some(own)) = (requested, actual.get(index)) else {
                continue;
            };
            let all: Cores = actual.iter().zip(&kept).map(cores).sum();
            let loads = own.ready == Allocation::NONE;
            let fits = all + requested.cores(own.ready) <= budget;
            if let Some(target) = kept.get_mut(index).filter(|target| target.replicas == 0)
                && loads
                && fits
            {
                *target = *requested;
            }
        }
        kept
    }
}

fn cores((actual, target): (&Actual, &Target)) -> Cores {
    target.cores(actual.ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(cores: [u32; 3]) -> Vec<Target> {
        cores.map(|cores| Target::one(Cores::whole(cores))).to_vec()
    }

    /// Actual capacity with ready and reserved cores.
    fn actual(each: [(u32, u32); 3]) -> Vec<Actual> {
        let one = |(ready, reserved)| Actual {
            reserved: Cores::whole(reserved),
            ..Actual::certain(Allocation::one(Cores::whole(ready)))
        };
        each.map(one).to_vec()
    }

    /// Change of a variant with `ready` cores.
    fn change(variant: usize, ready: u32, target: Target) -> Resize {
        Resize {
            variant,
            target,
            ready: Allocation::one(Cores::whole(ready)),
            limited: false,
        }
    }

    #[test]
    fn growth_continues_as_requested_until_actual() {
        let budget = Cores::whole(12);
        let mut under_way = UnderWay::new(3);
        under_way.requested(&change(1, 0, Target::one(Cores::whole(5))));
        let loads = actual([(4, 4), (0, 5), (0, 0)]);
        under_way.see(&loads);
        let keep = |under_way: &UnderWay, desired| under_way.keep(&loads, &cores(desired), budget);
        assert_eq!(keep(&under_way, [4, 6, 0]), cores([4, 5, 0]));
        assert_eq!(keep(&under_way, [4, 3, 1]), cores([4, 5, 1]));
        // Without a target, it continues while the budget covers it.
        assert_eq!(keep(&under_way, [4, 0, 3]), cores([4, 5, 3]));
        assert_eq!(keep(&under_way, [4, 0, 4]), cores([4, 0, 4]));
        under_way.see(&actual([(4, 4), (5, 5), (0, 0)]));
        assert_eq!(keep(&under_way, [4, 6, 0]), cores([4, 6, 0]));
    }

    #[test]
    fn serving_variant_grows_as_requested_and_may_end() {
        let mut under_way = UnderWay::new(3);
        under_way.requested(&change(0, 4, Target::one(Cores::whole(8))));
        let grows = actual([(4, 8), (0, 0), (2, 2)]);
        under_way.see(&grows);
        let keep = |under_way: &UnderWay, desired| {
            let kept = under_way.keep(&grows, &cores([desired, 0, 2]), Cores::whole(20));
            kept[0].each.millis() / 1000
        };
        assert_eq!(keep(&under_way, 9), 8);
        assert_eq!(keep(&under_way, 0), 0);
        // Four were requested: twice as many are requested anew.
        assert_eq!(keep(&under_way, 11), 8);
        assert_eq!(keep(&under_way, 12), 12);
        // A requested decrease is completed first, then growth is requested at once.
        under_way.requested(&change(0, 8, Target::one(Cores::whole(4))));
        for (desired, target) in [(0, 4), (1, 4), (6, 6)] {
            assert_eq!(keep(&under_way, desired), target);
        }
        // A request for 7 of the 8 target cores stands even while the actual cores are uncertain.
        let part = Target {
            each: Cores::whole(7),
            ..Target::one(Cores::whole(8))
        };
        under_way.requested(&change(0, 4, part));
        let uncertain = actual([(0, 7), (0, 0), (2, 2)]);
        let kept = under_way.keep(&uncertain, &cores([9, 0, 2]), Cores::whole(20));
        assert_eq!(kept, cores([7, 0, 2]));
    }
}
