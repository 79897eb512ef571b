//! Comparison with an order computed the slow way: the next request, the whole order, and ranks.

use std::collections::BTreeMap;

use super::*;
use crate::waiting::class::Class;
use proptest::prelude::*;

mod near_capacity;

fn classes(list: &[(f64, u8)], max_skips: u32) -> Classes {
    let class = |(i, (share, priority)): (usize, &(f64, u8))| Class {
        name: format!("c{i}"),
        share: *share,
        priority: *priority,
        max_requests: None,
        streams: false,
        claim: None,
    };
    Classes {
        list: list.iter().enumerate().map(class).collect(),
        default: ClassId(0),
        max_skips,
    }
}

fn place(deadline: u64, arrival: u64) -> Place {
    Place {
        deadline: Mono(deadline),
        arrival,
    }
}

#[derive(Debug, Clone)]
enum Step {
    Push(u8, u64),
    Pop,
    Expire(u64),
    Cancel(usize),
    Contend,
    /// A newcomer of that class that need not wait if it is next.
    Pass(u8, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..8_u8, 0..60_u64).prop_map(|(c, d)| Step::Push(c, d)),
        2 => Just(Step::Pop),
        1 => (0..60_u64).prop_map(Step::Expire),
        1 => (0..100_usize).prop_map(Step::Cancel),
        1 => Just(Step::Contend),
        2 => (0..8_u8, 0..60_u64).prop_map(|(c, d)| Step::Pass(c, d)),
    ]
}

prop_compose! {
    fn any_classes()(list in prop::collection::vec((0.01..1.0_f64, 0..4_u8), 1..=8), max_skips in 1..6_u32) -> Classes {
        classes(&list, max_skips)
    }
}

/// A wait queue and a list of its contents.
struct Pair {
    queue: WaitQueue,
    class_count: u8,
    model: BTreeMap<(u8, Place), u32>,
    arrivals: u64,
}

impl Pair {
    fn new(classes: &Classes) -> Pair {
        Pair {
            queue: WaitQueue::new(classes),
            class_count: classes.len() as u8,
            model: BTreeMap::new(),
            arrivals: 0,
        }
    }

    fn arrive(&mut self, class: u8, deadline: u64) -> (ClassId, Place) {
        self.arrivals += 1;
        (
            ClassId(class % self.class_count),
            place(deadline, self.arrivals),
        )
    }

    fn push(&mut self, class: ClassId, place: Place) {
        let stream = self.arrivals as u32;
        self.queue.push(class, place, stream);
        self.model.insert((class.0, place), stream);
    }

    /// Checks that a request that left was there, and first of its class.
    fn left(&mut self, (class, place, stream): (ClassId, Place, u32)) {
        let first = self.model.keys().find(|(c, _)| *c == class.0).copied();
        assert_eq!(first, Some((class.0, place)));
        assert_eq!(self.model.remove(&(class.0, place)), Some(stream));
    }

    fn pop(&mut self) -> Option<(ClassId, Place, u32)> {
        let order: Vec<Urgency> = self.queue.order(None).take(3).collect();
        let left = self.queue.pop();
        match left {
            Some((class, place, stream)) => {
                let cap = (1 << 60) - 1;
                assert_eq!(order[0].0 & cap, place.deadline.0);
                self.left((class, place, stream));
            }
            None => assert!(order.is_empty() && self.model.is_empty()),
        }
        left
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push(class, deadline) => {
                let (class, place) = self.arrive(class, deadline);
                self.push(class, place);
            }
            Step::Pop => drop(self.pop()),
            Step::Expire(until) => {
                let late = |place: Place| place.deadline.0 <= until;
                let min = self.model.keys().map(|(_, place)| *place).min();
                let left = self.queue.pop_where(|_, place| late(place));
                assert_eq!(left.map(|(_, place, _)| place), min.filter(|p| late(*p)));
                left.into_iter().for_each(|left| self.left(left));
            }
            Step::Cancel(at) => {
                let Some((&(class, place), _)) = self.model.iter().nth(at) else {
                    return;
                };
                self.model.remove(&(class, place));
                assert!(self.queue.cancel(ClassId(class), place));
                assert!(!self.queue.cancel(ClassId(class), place));
            }
            Step::Contend => self.queue.set_contended(),
            Step::Pass(class, deadline) => {
                let (class, place) = self.arrive(class, deadline);
                if self.queue.is_next(class, place) {
                    let then: Vec<Urgency> = self.queue.order(Some((class, place))).collect();
                    assert_eq!(then.len(), self.queue.len() + 1);
                    assert_eq!(then[0].0 << 4, place.deadline.0 << 4);
                    self.queue.charge(class);
                    assert!(self.queue.order(None).eq(then.into_iter().skip(1)));
                } else {
                    self.push(class, place);
                    assert_ne!(self.pop().map(|(_, other, _)| other), Some(place));
                }
            }
        }
    }

    fn agree(&self) {
        assert_eq!(self.queue.len(), self.model.len());
        assert_eq!(self.queue.is_empty(), self.model.is_empty());
        for class in 0..self.class_count {
            let held = self.model.keys().filter(|(c, _)| *c == class).count();
            assert_eq!(self.queue.len_of(ClassId(class)), held);
        }
        let earliest = self.model.keys().map(|(_, place)| place.deadline).min();
        assert_eq!(self.queue.earliest(), earliest);
        assert!(!(self.queue.is_contended() && self.queue.is_empty()));
    }
}

proptest! {
    /// Nothing is lost or doubled, each leaves as the first of its class, and the order is as predicted.
    #[test]
    fn predicted_order_is_kept_and_nothing_is_lost(
        classes in any_classes(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut pair = Pair::new(&classes);
        for step in &steps {
            pair.step(step);
            pair.agree();
        }
        let predicted: Vec<Urgency> = pair.queue.order(None).collect();
        prop_assert_eq!(pair.queue.head(), predicted.first().copied());
        let is_line = classes.len() == 1 || pair.queue.is_empty();
        prop_assert_eq!(pair.queue.single_class_order(None).map(Vec::from_iter), is_line.then(|| predicted.clone()));
        let mut actual = Vec::new();
        while let Some(first) = pair.queue.scheduler.next_class() {
            let tier = pair.queue.scheduler.tier(first);
            let (class, place, _) = pair.pop().unwrap();
            prop_assert_eq!(usize::from(class.0), first);
            actual.push(Urgency::of(tier, place.deadline));
        }
        prop_assert_eq!(predicted, actual);
    }

    /// A single class is a queue: tier 0, by deadline, for any events.
    #[test]
    fn single_class_is_ordered_by_deadline(steps in prop::collection::vec(step(), 0..120)) {
        let mut pair = Pair::new(&Classes::default());
        for step in &steps {
            pair.step(step);
            let min = pair.model.keys().next().map(|(_, place)| place.deadline.0);
            prop_assert_eq!(pair.queue.order(None).next().map(|u| u.0), min);
            for (i, (_, place)) in pair.model.keys().enumerate() {
                prop_assert_eq!(pair.queue.ahead(ClassId(0), *place), i as u32);
            }
        }
        let expected: Vec<u32> = pair.model.values().copied().collect();
        let drained = std::iter::from_fn(|| pair.queue.pop());
        let drained: Vec<u32> = drained.map(|(_, _, stream)| stream).collect();
        prop_assert_eq!(drained, expected);
    }

    /// With one priority and requests of each class always waiting, grants over shares never differ by more
    /// than one grant of each.
    #[test]
    fn grants_follow_shares_within_one_grant(
        shares in prop::collection::vec(0.02..1.0_f64, 2..=8),
        deadlines in prop::collection::vec(0..1000_u64, 400),
    ) {
        let list: Vec<(f64, u8)> = shares.iter().map(|share| (*share, 3)).collect();
        let mut queue = WaitQueue::new(&classes(&list, 1));
        let mut arrivals = 0;
        let mut arrive = |queue: &mut WaitQueue, class: u8, deadline: u64| {
            arrivals += 1;
            queue.push(ClassId(class), place(deadline, arrivals), 0);
        };
        (0..list.len() as u8).for_each(|class| arrive(&mut queue, class, 0));
        queue.set_contended();
        let mut grants = vec![0_u32; list.len()];
        for deadline in deadlines {
            let (class, _, _) = queue.pop().unwrap();
            grants[usize::from(class.0)] += 1;
            arrive(&mut queue, class.0, deadline);
            for (a, share_a) in shares.iter().enumerate() {
                for (b, share_b) in shares.iter().enumerate() {
                    let (got_a, got_b) = (f64::from(grants[a]), f64::from(grants[b]));
                    let apart = (got_a / share_a - got_b / share_b).abs();
                    let bound = 1.0 / share_a + 1.0 / share_b;
                    prop_assert!(apart <= bound + 0.1, "{grants:?} {shares:?}");
                }
            }
        }
    }

    /// No class waits longer than the bound, for any number of requests of higher priority.
    #[test]
    fn class_is_skipped_at_most_max_skips_times(
        priorities in prop::collection::vec(0..8_u8, 2..=8),
        max_skips in 1..10_u32,
        contended in any::<bool>(),
    ) {
        let list: Vec<(f64, u8)> = priorities.iter().map(|p| (0.1, *p)).collect();
        let mut queue = WaitQueue::new(&classes(&list, max_skips));
        (0..list.len()).for_each(|class| queue.push(id(class), place(0, class as u64), 0));
        if contended {
            queue.set_contended();
        }
        let lower = priorities.iter().filter(|p| *p < priorities.iter().max().unwrap()).count();
        let most = max_skips + (lower as u32).saturating_sub(1);
        let mut passed = [0_u32; 8];
        for arrival in 100..600 {
            let (class, _, _) = queue.pop().unwrap();
            let grant = priorities[usize::from(class.0)];
            for (passed, priority) in passed.iter_mut().zip(&priorities) {
                *passed += u32::from(grant > *priority);
            }
            passed[usize::from(class.0)] = 0;
            prop_assert!(passed.iter().all(|passed| *passed <= most), "{passed:?} > {most}");
            queue.push(class, place(arrival, arrival), 0);
        }
    }

    /// With two classes the rank of a newcomer is predicted, to one grant with shares.
    #[test]
    fn rank_of_a_newcomer_is_predicted(
        list in prop::collection::vec((0.05..1.0_f64, 0..2_u8), 2),
        max_skips in 1..6_u32,
        steps in prop::collection::vec(step(), 0..120),
        class in 0..2_u8,
        deadline in 0..60_u64,
    ) {
        let mut pair = Pair::new(&classes(&list, max_skips));
        steps.iter().for_each(|step| pair.step(step));
        let (class, newcomer) = pair.arrive(class, deadline);
        let foreseen = i64::from(pair.queue.ahead(class, newcomer));
        pair.push(class, newcomer);
        let mut ahead = 0;
        while pair.pop().map(|(_, place, _)| place) != Some(newcomer) {
            ahead += 1;
        }
        let slack = i64::from(list[0].1 == list[1].1);
        prop_assert!((foreseen - ahead).abs() <= slack, "{foreseen} {ahead}");
    }
}

#[test]
fn higher_priority_goes_first_after_skipped_classes() {
    let mut queue = WaitQueue::new(&classes(&[(0.5, 0), (0.5, 7)], 2));
    for i in 0..4 {
        queue.push(ClassId(0), place(i, i), 0);
        queue.push(ClassId(1), place(10 + i, 10 + i), 1);
    }
    let tier = |urgency: Urgency| (urgency.0 >> 60, urgency.0 << 4 >> 4);
    let order: Vec<(u64, u64)> = queue.order(None).map(tier).collect();
    let expected = [
        (1, 10),
        (1, 11),
        (0, 0),
        (1, 12),
        (1, 13),
        (0, 1),
        (8, 2),
        (8, 3),
    ];
    assert_eq!(order, expected);
    assert!(queue.is_next(ClassId(1), place(5, 99)));
    assert!(!queue.is_next(ClassId(0), place(0, 0)));
}

#[test]
fn least_urgent_is_the_latest_of_the_lowest_priority() {
    let mut queue = WaitQueue::new(&classes(&[(0.5, 0), (0.5, 0), (1.0, 5)], 9));
    assert_eq!(queue.least_urgent(), None);
    let mut push = |class, deadline, arrival| {
        queue.push(ClassId(class), place(deadline, arrival), arrival as u32);
        let stream = |found: Option<(Precedence, u32)>| found.map(|(_, stream)| stream);
        let of = [0, 1, 2].map(|class| stream(queue.least_urgent_of(ClassId(class))));
        (stream(queue.least_urgent()), of)
    };
    assert_eq!(push(2, 50, 1), (Some(1), [None, None, Some(1)]));
    assert_eq!(push(2, 40, 2), (Some(1), [None, None, Some(1)]));
    assert_eq!(push(0, 20, 3), (Some(3), [Some(3), None, Some(1)]));
    assert_eq!(push(1, 30, 4), (Some(4), [Some(3), Some(4), Some(1)]));
    assert_eq!(push(1, 10, 5), (Some(4), [Some(3), Some(4), Some(1)]));
    // The later arrival is evicted first among equals; a higher priority precedes all deadlines.
    let of = |class, deadline, arrival| queue.precedence(ClassId(class), place(deadline, arrival));
    assert!(of(0, 20, 3) < of(1, 20, 4));
    assert!(of(2, 90, 5) < of(0, 10, 6));
}

#[test]
fn urgency_orders_by_tier_then_deadline() {
    assert_eq!(Urgency::of(0, Mono(77)), Urgency(77));
    assert!(Urgency::of(0, Mono(u64::MAX)) < Urgency::of(1, Mono(0)));
    assert!(Urgency::of(3, Mono(1)) < Urgency::of(3, Mono(2)));
    assert_eq!(Urgency::of(200, Mono(0)), Urgency::of(15, Mono(0)));
}
