//! From the cores in force to those wanted, one safe step at a time. Pure.
//!
//! Grow what fits the budget, publish weights for what is there, shrink, grow the rest, publish.
//! At no step do the cores exceed the budget (or what there may have been at the start, if that was more), and
//! no published plan counts on cores that are not in force or are about to go. A change that failed
//! is given up for this time, and where it may have happened all the same, both are reckoned with:
//! the budget counts the more, the plan the fewer.

use weir_api::Cores;

use super::{InForce, Resize};

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Change these, all at once.
    Resize(Vec<Resize>),
    /// Publish a plan for these cores.
    Publish(Vec<Cores>),
    /// Nothing is left to do.
    Done,
}

/// A transition under way.
#[derive(Debug, Clone)]
pub struct Transition {
    budget: Cores,
    variants: Vec<Variant>,
    published: Option<Vec<Cores>>,
}

#[derive(Debug, Clone, Copy)]
struct Variant {
    in_force: InForce,
    target: Cores,
    given_up: bool,
}

impl Transition {
    /// From the cores `in_force` to `target` within `budget`.
    pub fn new(in_force: &[InForce], target: &[Cores], budget: Cores) -> Transition {
        debug_assert_eq!(in_force.len(), target.len());
        let variant = |(in_force, target): (&InForce, &Cores)| Variant {
            in_force: *in_force,
            target: *target,
            given_up: false,
        };
        let variants = in_force.iter().zip(target).map(variant).collect();
        Transition {
            budget,
            variants,
            published: None,
        }
    }

    /// The next step. Its changes are to be answered by [`Transition::confirmed`] or
    /// [`Transition::failed`], its publication by [`Transition::published`].
    pub fn next(&self) -> Step {
        let growth = self.growth();
        if !growth.is_empty() {
            return Step::Resize(growth);
        }
        let safe = self.safe();
        if self.published.as_ref() != Some(&safe) {
            return Step::Publish(safe);
        }
        let shrinking = self.pending(|variant| variant.target < variant.in_force.at_most);
        if shrinking.is_empty() {
            Step::Done
        } else {
            Step::Resize(shrinking)
        }
    }

    /// The backend says that so many cores are in force, which need not be what was asked.
    pub fn confirmed(&mut self, change: Resize, cores: Cores) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.in_force = InForce::certain(cores);
            variant.given_up |= cores != change.cores;
        }
    }

    /// The change failed; `doubtful` if it may be in force all the same.
    pub fn failed(&mut self, change: Resize, doubtful: bool) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.given_up = true;
            if doubtful {
                variant.in_force = variant.in_force.or(change.cores);
            }
        }
    }

    /// The plan for these cores is out.
    pub fn published(&mut self, cores: Vec<Cores>) {
        self.published = Some(cores);
    }

    /// What is in force now.
    pub fn in_force(&self) -> Vec<InForce> {
        self.variants
            .iter()
            .map(|variant| variant.in_force)
            .collect()
    }

    /// The cores a plan may count on: in force now and still after the shrinking.
    fn safe(&self) -> Vec<Cores> {
        let safe = |variant: &Variant| variant.in_force.at_least.min(variant.target);
        self.variants.iter().map(safe).collect()
    }

    /// What can grow within the budget, partly where not wholly. A core is kept back for each that is still
    /// to have its first: without it nothing could take over what others are to lose.
    fn growth(&self) -> Vec<Resize> {
        let mut total: Cores = self
            .variants
            .iter()
            .map(|variant| variant.in_force.at_most)
            .sum();
        let mut growth = self.pending(|variant| variant.target > variant.in_force.at_least);
        let is_first = |change: &Resize| {
            let variant = self.variants.get(change.variant);
            variant.is_some_and(|variant| variant.in_force.at_most == Cores::ZERO)
        };
        let mut firsts = growth.iter().filter(|change| is_first(change)).count();
        growth.retain_mut(|change| {
            let Some(variant) = self.variants.get(change.variant) else {
                return false;
            };
            let InForce { at_least, at_most } = variant.in_force;
            let own = u32::from(is_first(change));
            firsts -= own as usize;
            let free = whole(self.budget.saturating_sub(total.saturating_sub(at_most)));
            let kept = Cores::whole(u32::try_from(firsts).unwrap_or(u32::MAX));
            let most = free.saturating_sub(kept).max(free.min(Cores::whole(own)));
            change.cores = change.cores.min(most);
            total = total.saturating_sub(at_most) + at_most.max(change.cores);
            change.cores > at_least
        });
        growth
    }

    fn pending(&self, which: fn(&Variant) -> bool) -> Vec<Resize> {
        let open = self
            .variants
            .iter()
            .enumerate()
            .filter(|(_, variant)| !variant.given_up && which(variant));
        open.map(|(index, variant)| Resize {
            variant: index,
            cores: variant.target,
        })
        .collect()
    }
}

/// Without the fraction of a core.
fn whole(cores: Cores) -> Cores {
    Cores::whole(cores.millis() / 1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cycle::STEPS_MAX;

    fn whole_all(cores: &[u32]) -> Vec<Cores> {
        cores.iter().copied().map(Cores::whole).collect()
    }

    /// The whole way where every change is confirmed, as text.
    fn way(actuated: &[u32], target: &[u32], budget: u32) -> Vec<String> {
        let in_force: Vec<InForce> = whole_all(actuated)
            .into_iter()
            .map(InForce::certain)
            .collect();
        let mut transition = Transition::new(&in_force, &whole_all(target), Cores::whole(budget));
        let mut way = Vec::new();
        while way.len() <= STEPS_MAX {
            match transition.next() {
                Step::Resize(changes) => {
                    let text = changes
                        .iter()
                        .map(|c| format!(" {}={}", c.variant, c.cores));
                    way.push(format!("resize{}", text.collect::<String>()));
                    for change in changes {
                        transition.confirmed(change, change.cores);
                    }
                }
                Step::Publish(cores) => {
                    let text = cores.iter().map(|cores| format!(" {cores}"));
                    way.push(format!("publish{}", text.collect::<String>()));
                    transition.published(cores);
                }
                Step::Done => return way,
            }
        }
        panic!("no end: {way:?}");
    }

    #[test]
    fn make_before_break() {
        assert_eq!(way(&[4, 4], &[4, 4], 8), ["publish 4 4"]);
        assert_eq!(way(&[2, 2], &[4, 3], 8), ["resize 0=4 1=3", "publish 4 3"]);
        assert_eq!(way(&[4, 4], &[2, 4], 8), ["publish 2 4", "resize 0=2"]);
        // There is room: all grows before anything shrinks.
        let roomy = ["resize 1=6", "publish 2 6", "resize 0=2"];
        assert_eq!(way(&[4, 2], &[2, 6], 10), roomy);
        // There is little: grow what fits, move the weight, shrink, grow the rest, move the weight.
        let tight = [
            "resize 1=4",
            "publish 2 4",
            "resize 0=2",
            "resize 1=6",
            "publish 2 6",
        ];
        assert_eq!(way(&[4, 2], &[2, 6], 8), tight);
        // Each that has none gets a first core before any gets a second.
        let firsts = [
            "resize 0=1 2=1",
            "publish 1 0 1",
            "resize 1=0",
            "resize 0=5 2=3",
            "publish 5 0 3",
        ];
        assert_eq!(way(&[0, 7, 0], &[5, 0, 3], 9), firsts);
        // Above the budget already: nothing grows before something has shrunk.
        assert_eq!(way(&[6, 6], &[2, 6], 8), ["publish 2 6", "resize 0=2"]);
    }

    /// How a backend takes a change.
    #[derive(Debug, Clone, Copy)]
    enum Fate {
        Confirmed,
        Refused,
        LostBefore,
        LostAfter,
        Halfway,
    }

    fn any_fate() -> impl Strategy<Value = Fate> {
        use Fate::*;
        prop_oneof![
            4 => Just(Confirmed),
            1 => Just(Refused),
            1 => Just(LostBefore),
            1 => Just(LostAfter),
            1 => Just(Halfway)
        ]
    }

    /// Backends with their real cores, and what they and the filters were last told.
    struct World {
        budget: Cores,
        real: Vec<Cores>,
        published: Vec<Cores>,
        fates: std::vec::IntoIter<Fate>,
    }

    impl World {
        fn resize(&mut self, transition: &mut Transition, change: Resize) {
            let real = &mut self.real[change.variant];
            let fate = self.fates.next().unwrap_or(Fate::Confirmed);
            match fate {
                Fate::Confirmed | Fate::LostAfter => *real = change.cores,
                Fate::Halfway => {
                    *real = Cores::from_millis(real.millis().midpoint(change.cores.millis()))
                }
                Fate::Refused | Fate::LostBefore => {}
            }
            match fate {
                Fate::Confirmed | Fate::Halfway => transition.confirmed(change, *real),
                Fate::Refused => transition.failed(change, false),
                Fate::LostBefore | Fate::LostAfter => transition.failed(change, true),
            }
        }

        fn check(&self, used_at_start: Cores) {
            let used: Cores = self.real.iter().copied().sum();
            assert!(
                used <= self.budget.max(used_at_start),
                "{used} cores of {}",
                self.budget
            );
            for (published, real) in self.published.iter().zip(&self.real) {
                assert!(published <= real, "{published} published, {real} there");
            }
        }
    }

    proptest! {
        #[test]
        fn never_above_the_budget_and_never_promised_what_is_not_there(
            start in prop::collection::vec(0u32..9, 1..5),
            budget in 4u32..24,
            wishes in prop::collection::vec(prop::collection::vec(0u32..9, 4), 1..4),
            fates in prop::collection::vec(any_fate(), 0..24),
        ) {
            let trusty = fates.iter().all(|fate| matches!(fate, Fate::Confirmed));
            let start = whole_all(&start);
            let budget = Cores::whole(budget);
            let published = vec![Cores::ZERO; start.len()];
            let mut world = World { budget, real: start.clone(), published, fates: fates.into_iter() };
            let mut in_force: Vec<InForce> = start.into_iter().map(InForce::certain).collect();
            for wish in wishes {
                let mut target = whole_all(&wish[..in_force.len()]);
                while target.iter().copied().sum::<Cores>() > budget {
                    let greatest = target.iter_mut().max().unwrap();
                    *greatest = greatest.saturating_sub(Cores::whole(1));
                }
                let used: Cores = in_force.iter().map(|cores| cores.at_most).sum();
                let mut transition = Transition::new(&in_force, &target, budget);
                // What was published before holds until the first publication of this turn.
                let mut steps = 0;
                loop {
                    match transition.next() {
                        Step::Resize(changes) => {
                            for change in changes {
                                world.resize(&mut transition, change);
                                world.check(used);
                            }
                        }
                        Step::Publish(cores) => {
                            world.published.clone_from(&cores);
                            world.check(used);
                            transition.published(cores);
                        }
                        Step::Done => break,
                    }
                    steps += 1;
                    prop_assert!(steps <= STEPS_MAX, "no end");
                }
                in_force = transition.in_force();
                for (known, real) in in_force.iter().zip(&world.real) {
                    prop_assert!((known.at_least..=known.at_most).contains(real));
                }
                if trusty {
                    prop_assert_eq!(&world.real, &target);
                    prop_assert_eq!(&world.published, &target);
                }
            }
        }
    }
}
