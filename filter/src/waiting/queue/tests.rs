//! Comparison with a plain sorted list: order of leaving, ranks, and no loss.

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// Deadlines from 0 up to this.
    Push(u64),
    /// This many at rising deadlines.
    Rise(usize),
    Pop(usize),
    /// Every n-th leaves.
    Thin(usize),
    Cancel(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..50_u64).prop_map(Step::Push),
        6 => (0..100_000_u64).prop_map(Step::Push),
        2 => (1..400_usize).prop_map(Step::Rise),
        2 => (1..200_usize).prop_map(Step::Pop),
        1 => (2..20_usize).prop_map(Step::Thin),
        4 => (0..1000_usize).prop_map(Step::Cancel),
    ]
}

/// A queue and a plain sorted list.
#[derive(Default)]
struct Pair {
    queue: Queue,
    model: Vec<(Place, u32)>,
    arrivals: u64,
}

impl Pair {
    fn push(&mut self, deadline: u64) {
        let place = Place {
            deadline: Mono(deadline),
            arrival: self.arrivals,
        };
        let stream = self.arrivals as u32;
        self.arrivals += 1;
        self.queue.push(place, stream);
        let at = self.model.partition_point(|entry| entry.0 < place);
        self.model.insert(at, (place, stream));
    }

    fn cancel(&mut self, at: usize) {
        let (place, _) = self.model.remove(at);
        assert!(self.queue.cancel(place));
        assert!(!self.queue.cancel(place));
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push(deadline) => self.push(deadline),
            Step::Rise(many) => {
                let last = self.model.last().map_or(0, |(place, _)| place.deadline.0);
                (0..many as u64).for_each(|i| self.push(last + i / 3));
            }
            Step::Pop(many) => {
                for _ in 0..many {
                    let expected = (!self.model.is_empty()).then(|| self.model.remove(0));
                    assert_eq!(self.queue.pop(), expected);
                }
            }
            Step::Thin(every) => {
                let mut at = 0;
                while at < self.model.len() {
                    self.cancel(at);
                    at += every - 1;
                }
            }
            Step::Cancel(at) if at < self.model.len() => self.cancel(at),
            Step::Cancel(_) => {}
        }
    }

    fn agree(&self) {
        assert_eq!(self.queue.len(), self.model.len());
        assert_eq!(self.queue.is_empty(), self.model.is_empty());
        assert_eq!(self.queue.first(), self.model.first().copied());
        assert_eq!(self.queue.latest(), self.model.last().copied());
        assert!(self.queue.iter().eq(self.model.iter().copied()));
        let deadlines = self.model.iter().map(|(place, _)| place.deadline);
        assert_eq!(self.queue.earliest(), deadlines.clone().next());
        assert!(self.queue.deadlines().eq(deadlines));
        for (rank, (place, _)) in self.model.iter().enumerate() {
            assert_eq!(self.queue.rank(*place), rank);
            let behind = Place {
                arrival: u64::MAX,
                ..*place
            };
            let later = self.model.partition_point(|entry| entry.0 < behind);
            assert_eq!(self.queue.rank(behind), later);
        }
    }

    /// Checks the chunks: bounded, not empty, not too many, in order.
    fn sound(&self) {
        let chunks = &self.queue.chunks;
        for (chunk, next) in chunks.iter().zip(chunks.iter().skip(1)) {
            assert!(chunk.latest() < Some(next.from));
        }
        for chunk in chunks {
            assert!((1..=CHUNK_MAX).contains(&chunk.entries.len()));
            assert!(chunk.entries.capacity() <= 2 * CHUNK_MAX);
            assert!(chunk.entries.iter().all(|entry| entry.0 >= chunk.from));
        }
        let most = 3 + 4 * self.queue.len() / JOIN_MAX;
        assert!(chunks.len() <= most, "{} of {most}", chunks.len());
        assert!(chunks.capacity() <= 4 * chunks.len() + 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The earliest always leaves first, equals leave in order of arrival, nothing is lost or doubled, every
    /// rank is right, and memory is released.
    #[test]
    fn queue_equals_a_sorted_list(steps in prop::collection::vec(step(), 0..60)) {
        let mut pair = Pair::default();
        for step in &steps {
            pair.step(step);
            pair.agree();
            pair.sound();
        }
        pair.step(&Step::Pop(100_000));
        pair.sound();
    }
}

#[test]
fn empty_queue_has_no_entries() {
    let mut queue = Queue::default();
    let place = Place {
        deadline: Mono(5),
        arrival: 0,
    };
    assert_eq!(
        (queue.pop(), queue.first(), queue.latest()),
        (None, None, None)
    );
    assert_eq!((queue.rank(place), queue.cancel(place)), (0, false));
}
