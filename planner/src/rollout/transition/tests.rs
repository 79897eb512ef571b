//! Rollouts from actual to target capacity, faults on the way, and invariants at every step.

mod replicas;

use proptest::prelude::*;

use super::*;
use crate::capacity::ResourceLimit;
use crate::rollout::STEPS_MAX;

fn allocations(cores: &[u32]) -> Vec<Allocation> {
    let one = |cores: &u32| Allocation::one(Cores::whole(*cores));
    cores.iter().map(one).collect()
}

fn certain(allocations: &[Allocation]) -> Vec<Actual> {
    allocations.iter().copied().map(Actual::certain).collect()
}

fn targets(allocations: &[Allocation]) -> Vec<Target> {
    allocations.iter().copied().map(Target::of).collect()
}

/// Steps, as text, of a rollout of single replicas with every change confirmed.
fn way(actuated: &[u32], target: &[u32], budget: u32) -> Vec<String> {
    let targets = targets(&allocations(target));
    let actual = certain(&allocations(actuated));
    let transition = Transition::new(
        &actual,
        &targets,
        Cores::whole(budget),
        &ResourceLimits::default(),
    );
    walk(transition, |change| {
        Actual::certain(change.target.ready(Allocation::one(Cores::whole(1))))
    })
}

fn walk(mut transition: Transition, answer: fn(&Resize) -> Actual) -> Vec<String> {
    let mut way = Vec::new();
    while way.len() <= STEPS_MAX {
        match transition.next() {
            Step::Resize(changes) => {
                way.push(format!("resize{}", text(&changes)));
                for change in changes {
                    transition.confirmed(change, answer(&change));
                }
            }
            Step::Publish(allocations) => {
                let text = allocations.iter().map(|one| format!(" {one}"));
                way.push(format!("publish{}", text.collect::<String>()));
                transition.published(allocations);
            }
            Step::Done => return way,
        }
    }
    panic!("no end: {way:?}");
}

/// Formats index, replicas if several, cores of each, and the cores with which new ones start.
fn text(changes: &[Resize]) -> String {
    let each = changes.iter().map(|change| {
        let Target {
            replicas,
            each,
            start,
        } = change.target;
        let all = Allocation::new(replicas, each);
        let starts = (replicas > change.ready.replicas().max(1)).then(|| format!(" + {start}"));
        format!(" {}={all}{}", change.variant, starts.unwrap_or_default())
    });
    each.collect()
}

#[test]
fn growth_precedes_publication_and_shrinking() {
    assert_eq!(way(&[4, 4], &[4, 4], 8), ["publish 4 4"]);
    assert_eq!(way(&[2, 2], &[4, 3], 8), ["resize 0=4 1=3", "publish 4 3"]);
    assert_eq!(way(&[4, 4], &[2, 4], 8), ["publish 2 4", "resize 0=2"]);
    // Enough budget: all growth comes before any shrinking.
    let roomy = ["resize 1=6", "publish 2 6", "resize 0=2"];
    assert_eq!(way(&[4, 2], &[2, 6], 10), roomy);
    // Little budget: grow what fits, shift weight, shrink, grow the rest, shift weight.
    let tight = [
        "resize 1=4",
        "publish 2 4",
        "resize 0=2",
        "resize 1=6",
        "publish 2 6",
    ];
    assert_eq!(way(&[4, 2], &[2, 6], 8), tight);
    // Each variant without cores gets a first core before any gets a second.
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

/// Allocations from replicas and cores of each.
fn several(each: &[(u32, u32)]) -> Vec<Allocation> {
    let one = |(n, cores): &(u32, u32)| Allocation::new(*n, Cores::whole(*cores));
    each.iter().map(one).collect()
}

fn at_once(change: &Resize) -> Actual {
    Actual::certain(Allocation::new(change.target.replicas, change.target.each))
}

/// Serving replicas are changed, new ones start.
fn starts(change: &Resize) -> Actual {
    let serving = change.target.ready(change.ready);
    let more = change.target.replicas - serving.replicas();
    Actual {
        ready: serving,
        starting: Allocation::new(more, change.target.start),
        reserved: change.cores(),
        replicas_reserved: change.target.replicas,
    }
}

/// Result of a change at a backend.
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

/// Backends with their actual cores, and the allocations that were published last.
struct Sim {
    budget: Cores,
    real: Vec<Cores>,
    published: Vec<Allocation>,
    fates: std::vec::IntoIter<Fate>,
}

impl Sim {
    fn resize(&mut self, transition: &mut Transition, change: Resize) {
        let real = &mut self.real[change.variant];
        let fate = self.fates.next().unwrap_or(Fate::Confirmed);
        match fate {
            Fate::Confirmed | Fate::LostAfter => *real = change.cores(),
            Fate::Halfway => {
                *real = Cores::from_millis(real.millis().midpoint(change.cores().millis()))
            }
            Fate::Refused | Fate::LostBefore => {}
        }
        match fate {
            Fate::Confirmed | Fate::Halfway => {
                transition.confirmed(change, Actual::certain(Allocation::one(*real)))
            }
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
            assert!(
                published.cores() <= *real,
                "{published} published, {real} there"
            );
        }
    }
}

proptest! {
    #[test]
    fn resources_never_exceed_their_limits(
        start in prop::collection::vec(0u32..6, 3),
        desired in prop::collection::vec(0u32..6, 3),
        most in 0u64..30,
        each in prop::collection::vec(0u64..5, 3),
        fates in prop::collection::vec(any_fate(), 0..12),
    ) {
        let of = |counts: &[u32]| -> Vec<Allocation> {
            counts.iter().map(|count| Allocation::new(*count, Cores::whole(1))).collect()
        };
        let limits = ResourceLimits(vec![ResourceLimit { name: String::new(), most, each }]);
        let used = |counts: &[u32]| limits.0[0].used(counts);
        let (mut real, mut fates) = (start.clone(), fates.into_iter());
        let actual = certain(&of(&start));
        let mut transition = Transition::new(&actual, &targets(&of(&desired)), Cores::whole(99), &limits);
        for _ in 0..STEPS_MAX {
            let changes = match transition.next() {
                Step::Resize(changes) => changes,
                Step::Publish(allocations) => {
                    transition.published(allocations);
                    continue;
                }
                Step::Done => break,
            };
            for change in changes {
                let (now, target) = (real[change.variant], change.target.replicas);
                let fate = fates.next().unwrap_or(Fate::Confirmed);
                real[change.variant] = match fate {
                    Fate::Confirmed | Fate::LostAfter => target,
                    Fate::Halfway => now.midpoint(target),
                    Fate::Refused | Fate::LostBefore => now,
                };
                let actual = of(&[real[change.variant]])[0];
                match fate {
                    Fate::Confirmed | Fate::Halfway => transition.confirmed(change, Actual::certain(actual)),
                    Fate::Refused => transition.failed(change, false),
                    Fate::LostBefore | Fate::LostAfter => transition.failed(change, true),
                }
                prop_assert!(used(&real) <= most.max(used(&start)), "{real:?}");
            }
        }
        let known: Vec<u32> = transition.actual().iter().map(|one| one.replicas_reserved).collect();
        prop_assert!(known.iter().zip(&real).all(|(known, real)| known >= real));
    }

    #[test]
    fn cores_never_exceed_budget_and_plans_count_only_actual_cores(
        start in prop::collection::vec(0u32..9, 1..5),
        budget in 4u32..24,
        all_targets in prop::collection::vec(prop::collection::vec(0u32..9, 4), 1..4),
        fates in prop::collection::vec(any_fate(), 0..24),
    ) {
        let trusty = fates.iter().all(|fate| matches!(fate, Fate::Confirmed));
        let real: Vec<Cores> = start.iter().copied().map(Cores::whole).collect();
        let budget = Cores::whole(budget);
        let published = vec![Allocation::NONE; start.len()];
        let mut sim = Sim { budget, real, published, fates: fates.into_iter() };
        let mut actual = certain(&allocations(&start));
        for targets_now in all_targets {
            let targets_now = &targets_now[..actual.len()];
            let mut target: Vec<Cores> = targets_now.iter().copied().map(Cores::whole).collect();
            while target.iter().copied().sum::<Cores>() > budget {
                let max = target.iter_mut().max().unwrap();
                *max = max.saturating_sub(Cores::whole(1));
            }
            let used: Cores = actual.iter().map(|cores| cores.reserved).sum();
            let targets: Vec<Target> = target.iter().copied().map(Target::one).collect();
            let mut transition = Transition::new(&actual, &targets, budget, &ResourceLimits::default());
            // The earlier plan holds until the first publication of this transition.
            let mut steps = 0;
            loop {
                match transition.next() {
                    Step::Resize(changes) => {
                        for change in changes {
                            sim.resize(&mut transition, change);
                            sim.check(used);
                        }
                    }
                    Step::Publish(allocations) => {
                        sim.published.clone_from(&allocations);
                        sim.check(used);
                        transition.published(allocations);
                    }
                    Step::Done => break,
                }
                steps += 1;
                prop_assert!(steps <= STEPS_MAX, "no end");
            }
            actual = transition.actual();
            for (known, real) in actual.iter().zip(&sim.real) {
                prop_assert!((known.ready.cores()..=known.reserved).contains(real));
            }
            if trusty {
                let published: Vec<Cores> = sim.published.iter().map(|a| a.cores()).collect();
                prop_assert_eq!(&sim.real, &target);
                prop_assert_eq!(&published, &target);
            }
        }
    }
}
