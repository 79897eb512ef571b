//! The waiting room of one variant: earliest deadline first, first come first among equals.
//! It knows neither slots nor limits; the engine bounds how many are held in all.

use std::collections::BTreeMap;

use crate::time::Mono;

/// A place in the queue: by deadline, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// When the request's time is up.
    pub deadline: Mono,
    /// Counts arrivals, so that equals keep their order and no two places are the same.
    pub arrival: u64,
}

/// Held requests in EDF order.
#[derive(Debug, Default)]
pub struct Queue {
    places: BTreeMap<Place, u32>,
}

impl Queue {
    /// How many are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Holds `stream` at `place`.
    pub fn push(&mut self, place: Place, stream: u32) {
        let before = self.places.insert(place, stream);
        debug_assert!(before.is_none(), "two requests in one place");
    }

    /// Takes out the one with the earliest deadline.
    pub fn pop(&mut self) -> Option<(Place, u32)> {
        self.places.pop_first()
    }

    /// Takes out the one at `place`; whether it was there.
    pub fn cancel(&mut self, place: Place) -> bool {
        self.places.remove(&place).is_some()
    }

    /// The deadlines held, earliest first.
    pub fn deadlines(&self) -> impl Iterator<Item = Mono> + Clone + '_ {
        self.places.keys().map(|place| place.deadline)
    }

    /// The earliest deadline held.
    #[must_use]
    pub fn earliest(&self) -> Option<Mono> {
        self.places
            .first_key_value()
            .map(|(place, _)| place.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u64),
        Pop,
        Cancel(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..50_u64).prop_map(Step::Push),
            1 => Just(Step::Pop),
            1 => (0..100_usize).prop_map(Step::Cancel),
        ]
    }

    proptest! {
        /// Against a plain list: what leaves is always the earliest, equals leave in order of
        /// arrival, and nothing is lost or doubled.
        #[test]
        fn leaves_by_deadline_and_loses_nothing(steps in prop::collection::vec(step(), 0..200)) {
            let mut queue = Queue::default();
            let mut model: Vec<(Place, u32)> = Vec::new();
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(deadline) => {
                        let place = Place { deadline: Mono(deadline), arrival: i as u64 };
                        queue.push(place, i as u32);
                        model.push((place, i as u32));
                        model.sort();
                    }
                    Step::Pop => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(queue.pop(), expected);
                    }
                    Step::Cancel(at) if at < model.len() => {
                        let (place, _) = model.remove(at);
                        prop_assert!(queue.cancel(place));
                        prop_assert!(!queue.cancel(place));
                    }
                    Step::Cancel(_) => {}
                }
                prop_assert_eq!(queue.len(), model.len());
                let deadlines: Vec<Mono> = model.iter().map(|(place, _)| place.deadline).collect();
                prop_assert_eq!(queue.earliest(), deadlines.first().copied());
                prop_assert_eq!(queue.deadlines().collect::<Vec<_>>(), deadlines);
            }
        }
    }
}
