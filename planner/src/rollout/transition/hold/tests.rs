//! The serving replicas carry the demand at every moment. Measures how often the target is reached if some order of
//! steps reaches it without a loss.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use weir_api::Cores;

use super::super::{Step, Transition};
use super::*;
use crate::capacity::{Actual, Resize, ResourceLimits};
use crate::rollout::STEPS_MAX;

/// Rates of variants: requests/s per core, less an offset.
#[derive(Debug, Clone)]
struct Rates(Vec<(u32, u32)>);

impl Rates {
    fn rps(&self, cores: &[u32]) -> u32 {
        let each = self.0.iter().zip(cores);
        each.map(|((slope, offset), cores)| (slope * cores).saturating_sub(*offset))
            .sum()
    }

    fn carried(&self, demand: u32, allocations: &[Allocation]) -> f64 {
        let cores: Vec<u32> = allocations
            .iter()
            .map(|one| one.cores().millis() / 1000)
            .collect();
        f64::from(self.rps(&cores)) / f64::from(demand)
    }
}

fn certain(cores: &[u32]) -> Vec<Actual> {
    let one = |cores: &u32| Actual::certain(Allocation::one(Cores::whole(*cores)));
    cores.iter().map(one).collect()
}

fn targets(cores: &[u32]) -> Vec<Target> {
    cores
        .iter()
        .map(|cores| Target::one(Cores::whole(*cores)))
        .collect()
}

/// Variants, a demand, a budget, and servers that need some cycles to grow.
#[derive(Debug, Clone)]
struct Case {
    rates: Rates,
    demand: u32,
    budget: u32,
    start: Vec<u32>,
    desired: Vec<u32>,
    /// Cycles that a growth takes, by variant.
    cycles: Vec<u32>,
}

/// Simulated servers.
struct Servers<'a> {
    case: &'a Case,
    real: Vec<u32>,
    /// Requested cores, and the cycles until they are actual, by variant.
    pending: Vec<Option<(u32, u32)>>,
    published: Vec<Allocation>,
    /// Part of the demand that is carried.
    min: f64,
}

impl Servers<'_> {
    fn actual(&self) -> Vec<Actual> {
        let each = self.real.iter().zip(&self.pending);
        let one = |(real, pending): (&u32, &Option<(u32, u32)>)| {
            let now = Actual::certain(Allocation::one(Cores::whole(*real)));
            pending.map_or(now, |(cores, _)| now.or(Target::one(Cores::whole(cores))))
        };
        each.map(one).collect()
    }

    fn resize(&mut self, transition: &mut Transition, change: Resize) {
        let cores = change.cores().millis() / 1000;
        let index = change.variant;
        let takes = self.case.cycles[index];
        if cores > self.real[index] && takes > 0 {
            let begun = self.pending[index].is_some_and(|(requested, _)| requested == cores);
            if !begun {
                self.pending[index] = Some((cores, takes));
            }
            transition.failed(change, true);
        } else {
            (self.real[index], self.pending[index]) = (cores, None);
            transition.confirmed(change, certain(&[cores])[0]);
        }
        self.see();
    }

    /// Checks that published capacity is actual, and carries as much as before, or all of the demand.
    fn see(&mut self) {
        let used: u32 = self
            .actual()
            .iter()
            .map(|one| one.reserved.millis() / 1000)
            .sum();
        let budget = self.case.budget.max(self.case.start.iter().sum());
        assert!(used <= budget, "{used} cores: {:?}", self.case);
        for (published, real) in self.published.iter().zip(&self.real) {
            assert!(published.cores() <= Cores::whole(*real), "{:?}", self.case);
        }
        let carried = self.case.rates.carried(self.case.demand, &self.published);
        assert!(
            carried >= self.min - 1e-6,
            "{carried} carried, {} before: {:?}",
            self.min,
            self.case
        );
        self.min = carried.min(1.0);
    }

    /// Runs one cycle, then lets its time pass.
    fn cycle(&mut self) {
        let case = self.case;
        let budget = Cores::whole(case.budget);
        // Changes in progress continue.
        let under_way = self.pending.iter().zip(&case.desired);
        let requested: Vec<u32> = under_way
            .map(|(p, desired)| p.map_or(*desired, |(cores, _)| cores))
            .collect();
        let mut transition = Transition::new(
            &self.actual(),
            &targets(&requested),
            budget,
            &ResourceLimits::default(),
        );
        for _ in 0..STEPS_MAX {
            transition.hold(&|allocations| case.rates.carried(case.demand, allocations));
            match transition.next() {
                Step::Resize(changes) => {
                    for change in changes {
                        self.resize(&mut transition, change);
                    }
                }
                Step::Publish(allocations) => {
                    self.published.clone_from(&allocations);
                    self.see();
                    transition.published(allocations);
                }
                Step::Done => break,
            }
        }
        for (real, pending) in self.real.iter_mut().zip(&mut self.pending) {
            if let Some((cores, cycles)) = pending {
                *cycles -= 1;
                if *cycles == 0 {
                    *real = *cores;
                    *pending = None;
                }
            }
        }
    }
}

/// Whether some order of single-variant changes leads from the start to the target while the serving capacity carries
/// the demand at each moment. Growing cores count from the beginning, shrinking ones until the end.
fn some_order_does(case: &Case) -> bool {
    let carries = |cores: &[u32]| case.rates.rps(cores) >= case.demand;
    let within = |cores: &[u32]| cores.iter().sum::<u32>() <= case.budget;
    let mut seen = BTreeSet::from([case.start.clone()]);
    let mut next = VecDeque::from([case.start.clone()]);
    while let Some(state) = next.pop_front() {
        if state == case.desired {
            return true;
        }
        for index in 0..state.len() {
            for cores in 0..=case.budget {
                let mut changed = state.clone();
                changed[index] = cores;
                let possible = carries(&changed) && within(&changed);
                if possible && seen.insert(changed.clone()) {
                    next.push_back(changed);
                }
            }
        }
    }
    false
}

fn any_case() -> impl Strategy<Value = Case> {
    (2usize..4, 3u32..9).prop_flat_map(|(count, budget)| {
        let each = prop::collection::vec((4u32..30, 0u32..8), count);
        let cores = || prop::collection::vec(0..=budget, count);
        let cycles = prop::collection::vec(0u32..4, count);
        (each, cores(), cores(), cycles, 1u32..100).prop_map(
            move |(each, start, desired, cycles, demand)| {
                let mut case = Case {
                    rates: Rates(each),
                    demand,
                    budget,
                    start,
                    desired,
                    cycles,
                };
                let Case { start, desired, .. } = &mut case;
                for cores in [start, desired] {
                    while cores.iter().sum::<u32>() > budget {
                        *cores.iter_mut().max().unwrap() -= 1;
                    }
                }
                case
            },
        )
    })
}

fn played(case: &Case) -> Vec<u32> {
    let mut servers = Servers {
        case,
        real: case.start.clone(),
        pending: vec![None; case.start.len()],
        published: certain(&case.start).iter().map(|one| one.ready).collect(),
        min: 0.0,
    };
    let now = case.rates.carried(case.demand, &servers.published);
    // With more demand than capacity it may begin with a loss, to free capacity for what carries more.
    servers.min = if now < 1.0 { 0.0 } else { 1.0 };
    for _ in 0..200 {
        servers.cycle();
    }
    servers.real
}

/// Returns `count` cases of [`any_case`] that carry the demand at both ends.
fn cases(count: usize) -> impl Iterator<Item = Case> {
    let mut runner = TestRunner::deterministic();
    let any = any_case();
    let cases = std::iter::repeat_with(move || any.new_tree(&mut runner).unwrap().current());
    let carries = |case: &Case| {
        let ends = [&case.start, &case.desired];
        ends.iter()
            .all(|cores| case.rates.rps(cores) >= case.demand)
    };
    cases.filter(carries).take(count)
}

#[test]
fn demand_is_always_carried_and_target_nearly_always_reached() {
    let (mut possible, mut reached) = (0, 0);
    for case in cases(10_000) {
        // Each step is checked on the way.
        let end = played(&case);
        if some_order_does(&case) {
            possible += 1;
            reached += u32::from(end == case.desired);
        }
    }
    println!("{reached} of {possible} reached");
    assert!(possible > 5000, "{possible}");
    // Growth of a variant that carries little may take the capacity that another needs.
    assert!(reached * 100 >= possible * 95, "{reached} of {possible}");
}

#[test]
fn budget_is_kept_even_if_demand_needs_more() {
    // Two of five cores are to go, and neither variant carries the demand without them.
    let rates = Rates(vec![(20, 0), (10, 0)]);
    let carried = |allocations: &[Allocation]| rates.carried(60, allocations);
    let budget = Cores::whole(3);
    let (actual, desired) = (certain(&[1, 4]), targets(&[2, 1]));
    let mut transition = Transition::new(&actual, &desired, budget, &ResourceLimits::default());
    transition.hold(&carried);
    let Step::Publish(safe) = transition.next() else {
        panic!("{:?}", transition.next());
    };
    assert!(
        safe.iter().map(|one| one.cores()).sum::<Cores>() <= budget,
        "{safe:?}"
    );
}

/// Returns the first step of a transition from `start` to `desired` on 8 cores. 100 requests/s are expected, and the
/// part `arriving` of them arrives already.
fn first_step(start: &[u32], desired: &[u32], arriving: f64) -> Step {
    let rates = Rates(vec![(20, 0), (10, 0)]);
    let carried = |allocations: &[Allocation]| rates.carried(100, allocations);
    let (actual, budget) = (certain(start), Cores::whole(8));
    let transition = Transition::new(
        &actual,
        &targets(desired),
        budget,
        &ResourceLimits::default(),
    );
    let mut transition = transition.serving(arriving);
    transition.hold(&carried);
    transition.next()
}

#[test]
fn capacity_is_freed_only_while_arriving_requests_are_served() {
    let publishes = |cores: [u32; 2]| Step::Publish(Allocation::ones(&cores.map(Cores::whole)));
    for (arriving, expected) in [
        // Of the 90 that are carried, 90 and 70 arrive.
        (0.9, [1, 7]),
        (0.7, [1, 5]),
        // More arrives than is carried: capacity is freed at no extra loss.
        (0.95, [1, 3]),
        (0.0, [1, 3]),
    ] {
        assert_eq!(
            first_step(&[1, 7], &[5, 3], arriving),
            publishes(expected),
            "{arriving}"
        );
    }
    // The growth beside it will serve what arrives: no more capacity is freed until then.
    let Step::Resize(grows) = first_step(&[1, 5], &[5, 3], 0.95) else {
        panic!("it does not grow");
    };
    assert_eq!(grows[0].cores(), Cores::whole(3));
}
