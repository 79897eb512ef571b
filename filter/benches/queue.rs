//! Wait queue with 10,000 held: a queue, beside an ordered map instead, and the wait queue of one and of
//! four classes.
#![allow(missing_docs, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_filter::time::Mono;
use weir_filter::waiting::class::{Class, ClassId, Classes};
use weir_filter::waiting::queue::{Place, Queue};
use weir_filter::waiting::wait_queue::WaitQueue;

const HELD: u64 = 10_000;
/// Range of deadlines ahead of the clock.
const SPREAD_NS: u64 = 2_000_000_000;

/// Arrivals: the clock advances by 0.2 ms each, deadlines lie anywhere in the range.
struct Arrivals {
    seed: u64,
    arrival: u64,
}

impl Arrivals {
    fn new() -> Arrivals {
        Arrivals {
            seed: 7,
            arrival: 0,
        }
    }

    fn chance(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    fn next(&mut self) -> Place {
        let ahead = self.chance() % SPREAD_NS;
        self.arrival += 1;
        Place {
            deadline: Mono(self.arrival * 200_000 + ahead),
            arrival: self.arrival,
        }
    }
}

/// Replaces a random place; returns the old and the new one.
fn swap(places: &mut [Place], arrivals: &mut Arrivals) -> (Place, Place) {
    let at = (arrivals.chance() % places.len() as u64) as usize;
    let newcomer = arrivals.next();
    let removed = std::mem::replace(&mut places[at], newcomer);
    (removed, newcomer)
}

fn queue(c: &mut Criterion) {
    let mut arrivals = Arrivals::new();
    let mut queue = Queue::default();
    (0..HELD).for_each(|_| queue.push(arrivals.next(), 0));
    c.bench_function("queue: push + pop", |b| {
        b.iter(|| {
            queue.push(arrivals.next(), 0);
            queue.pop()
        });
    });
    let mut places: Vec<Place> = queue.iter().map(|(place, _)| place).collect();
    c.bench_function("queue: push + cancel", |b| {
        b.iter(|| {
            let (removed, newcomer) = swap(&mut places, &mut arrivals);
            queue.push(newcomer, 0);
            queue.cancel(removed)
        });
    });
    c.bench_function("queue: rank", |b| {
        b.iter(|| {
            let at = arrivals.chance() % HELD;
            queue.rank(places[at as usize])
        });
    });
    let mut rising = Queue::default();
    let mut clock = 0;
    let mut next = || {
        clock += 1;
        Place {
            deadline: Mono(clock),
            arrival: clock,
        }
    };
    (0..HELD).for_each(|_| rising.push(next(), 0));
    c.bench_function("queue: push + pop, one deadline for all", |b| {
        b.iter(|| {
            rising.push(next(), 0);
            rising.pop()
        });
    });
}

fn map(c: &mut Criterion) {
    let mut arrivals = Arrivals::new();
    let mut map: BTreeMap<Place, u32> = (0..HELD).map(|_| (arrivals.next(), 0)).collect();
    c.bench_function("ordered map: push + pop", |b| {
        b.iter(|| {
            map.insert(arrivals.next(), 0);
            map.pop_first()
        });
    });
    let mut places: Vec<Place> = map.keys().copied().collect();
    c.bench_function("ordered map: push + cancel", |b| {
        b.iter(|| {
            let (removed, newcomer) = swap(&mut places, &mut arrivals);
            map.insert(newcomer, 0);
            map.remove(&removed)
        });
    });
    c.bench_function("ordered map: rank", |b| {
        b.iter(|| {
            let at = arrivals.chance() % HELD;
            map.range(..places[at as usize]).count()
        });
    });
}

fn wait_queue(c: &mut Criterion) {
    let class = |i: u8| Class {
        name: format!("c{i}"),
        share: 0.4,
        priority: i / 2,
        max_requests: None,
        streams: false,
        claim: None,
    };
    let four = Classes {
        list: (0..4).map(class).collect(),
        ..Classes::default()
    };
    for (name, classes) in [("1 class", &Classes::default()), ("4 classes", &four)] {
        let mut arrivals = Arrivals::new();
        let mut queue = WaitQueue::new(classes);
        let many = classes.len() as u64;
        let of = |arrivals: &mut Arrivals| ClassId((arrivals.chance() % many) as u8);
        for _ in 0..HELD {
            queue.push(of(&mut arrivals), arrivals.next(), 0);
        }
        queue.set_contended();
        c.bench_function(&format!("room, {name}: push + pop"), |b| {
            b.iter(|| {
                let class = queue.pop().map_or(ClassId(0), |(class, _, _)| class);
                queue.push(class, arrivals.next(), 0);
            });
        });
        c.bench_function(&format!("room, {name}: push + cancel of the newest"), |b| {
            b.iter(|| {
                let (class, place) = (of(&mut arrivals), arrivals.next());
                queue.push(class, place, 0);
                queue.cancel(class, place)
            });
        });
        c.bench_function(&format!("room, {name}: goes first, ahead"), |b| {
            b.iter(|| {
                let (class, place) = (of(&mut arrivals), arrivals.next());
                (queue.is_next(class, place), queue.ahead(class, place))
            });
        });
        c.bench_function(&format!("room, {name}: first 4 of the order"), |b| {
            b.iter(|| {
                let first = queue.order(None).take(4);
                first.fold(0, |sum, urgency| sum ^ black_box(urgency.0))
            });
        });
    }
}

criterion_group!(benches, queue, map, wait_queue);
criterion_main!(benches);
