//! Which variant serves a request: a smooth weighted choice by quota among those that can answer
//! in time, and the most accurate that still can where none of them does.
//!
//! Each request earns every variant its share of credit and costs the chosen one a whole request.
//! Chosen is, of those in credit, the one whose credit would soonest reach a whole request if it
//! were passed over (Tijdeman's rule for the chairman assignment problem): so no variant is ever a
//! whole request away from its quota, which the usual smooth round robin (most credit first) does
//! not keep for more than two. Credit is clamped to one round either way: a debt run up while a
//! variant could not be chosen would flood it later.

use std::time::Duration;

/// What the choice needs to know of a variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its quota, 0 to 1.
    pub share: f64,
    /// Whether it has slots at all.
    pub has_slots: bool,
    /// Predicted service time.
    pub service: Duration,
    /// Accuracy, percent.
    pub accuracy: f64,
}

/// What the request asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// Time left.
    pub left: Duration,
    /// Least accuracy, percent.
    pub min_accuracy: f64,
}

/// Why no variant was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// No variant has a slot.
    NoCapacity,
    /// None that may serve it can finish in time.
    Infeasible,
}

/// The credits of the variants, by their place in the engine's table.
#[derive(Debug, Default)]
pub struct Router {
    credits: Vec<f64>,
}

impl Router {
    /// Picks one of `candidates` (by index) for `wish`.
    ///
    /// # Errors
    /// Why none will do.
    pub fn choose<I>(&mut self, candidates: I, wish: Wish) -> Result<usize, NoRoute>
    where
        I: Iterator<Item = Candidate> + Clone,
    {
        if let Some(index) = self.by_quota(candidates.clone(), wish) {
            return Ok(index);
        }
        let mut any_slots = false;
        let mut best: Option<(usize, Candidate)> = None;
        for (index, candidate) in candidates.enumerate().filter(|(_, c)| c.has_slots) {
            any_slots = true;
            let better = best.is_none_or(|(_, best)| candidate.beats(&best));
            if candidate.suits(wish) && better {
                best = Some((index, candidate));
            }
        }
        match best {
            Some((index, _)) => Ok(index),
            None if any_slots => Err(NoRoute::Infeasible),
            None => Err(NoRoute::NoCapacity),
        }
    }

    fn by_quota(
        &mut self,
        candidates: impl Iterator<Item = Candidate>,
        wish: Wish,
    ) -> Option<usize> {
        let mut soonest: Option<(usize, f64)> = None;
        for (index, candidate) in candidates.enumerate() {
            if index >= self.credits.len() {
                self.credits.push(0.0);
            }
            let Some(credit) = self.credits.get_mut(index) else {
                continue;
            };
            *credit = (*credit + candidate.share).min(1.0);
            if candidate.share <= 0.0 || !candidate.suits(wish) {
                continue;
            }
            let due = due(*credit, candidate.share);
            if soonest.is_none_or(|(_, least)| due < least) {
                soonest = Some((index, due));
            }
        }
        let (chosen, _) = soonest?;
        let credit = self.credits.get_mut(chosen)?;
        *credit = (*credit - 1.0).max(-1.0);
        Some(chosen)
    }
}

/// After how many more requests a variant would be owed a whole one. One that is not in credit
/// comes after all that are; that it is chosen at all means the others cannot be.
fn due(credit: f64, share: f64) -> f64 {
    const AFTER_ALL: f64 = 1e9;
    if credit > 0.0 {
        (1.0 - credit) / share
    } else {
        AFTER_ALL - credit
    }
}

impl Candidate {
    fn suits(&self, wish: Wish) -> bool {
        self.has_slots && self.service <= wish.left && self.accuracy >= wish.min_accuracy
    }

    fn beats(&self, other: &Candidate) -> bool {
        (self.accuracy, other.service) > (other.accuracy, self.service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variant(share: f64, service_ms: u64, accuracy: f64) -> Candidate {
        Candidate {
            share,
            has_slots: true,
            service: Duration::from_millis(service_ms),
            accuracy,
        }
    }

    fn wish(left_ms: u64) -> Wish {
        Wish {
            left: Duration::from_millis(left_ms),
            min_accuracy: 0.0,
        }
    }

    proptest! {
        /// After any number of requests each variant is within one of its quota, for any quotas
        /// and however many variants: smooth, not merely right on average.
        #[test]
        fn shares_follow_the_quotas_within_one_request(
            weights in prop::collection::vec(0.0..1.0_f64, 1..8),
            requests in 1..500_usize,
        ) {
            let sum: f64 = weights.iter().sum();
            prop_assume!(sum > 0.01);
            let candidates: Vec<_> = weights.iter().map(|w| variant(w / sum, 10, 70.0)).collect();
            let mut router = Router::default();
            let mut counts = vec![0_usize; candidates.len()];
            for _ in 0..requests {
                counts[router.choose(candidates.iter().copied(), wish(100)).unwrap()] += 1;
            }
            for (count, candidate) in counts.iter().zip(&candidates) {
                let due = candidate.share * requests as f64;
                prop_assert!((*count as f64 - due).abs() <= 1.0 + 1e-6, "{count} of {due}");
            }
        }
    }

    #[test]
    fn a_variant_that_cannot_make_it_is_passed_over_and_does_not_flood_afterwards() {
        let candidates = [variant(0.5, 10, 70.0), variant(0.5, 500, 78.0)];
        let mut router = Router::default();
        for _ in 0..100 {
            assert_eq!(router.choose(candidates.into_iter(), wish(100)), Ok(0));
        }
        let next: Vec<_> = (0..10)
            .map(|_| router.choose(candidates.into_iter(), wish(1000)).unwrap())
            .collect();
        let slow = next.iter().filter(|i| **i == 1).count();
        assert!(
            (5..=7).contains(&slow),
            "one round of credit at most: {next:?}"
        );
    }

    #[test]
    fn where_no_quota_suits_the_most_accurate_that_can_takes_it() {
        let candidates = [
            variant(1.0, 500, 78.0),
            variant(0.0, 100, 76.0),
            variant(0.0, 50, 70.0),
        ];
        let mut router = Router::default();
        let mut choose = |wish| router.choose(candidates.into_iter(), wish);
        assert_eq!(choose(wish(600)), Ok(0));
        assert_eq!(choose(wish(200)), Ok(1));
        assert_eq!(choose(wish(60)), Ok(2));
        assert_eq!(choose(wish(40)), Err(NoRoute::Infeasible));
        assert_eq!(
            choose(Wish {
                min_accuracy: 77.0,
                ..wish(200)
            }),
            Err(NoRoute::Infeasible)
        );
        assert_eq!(
            choose(Wish {
                min_accuracy: 76.0,
                ..wish(200)
            }),
            Ok(1)
        );
    }

    #[test]
    fn without_slots_there_is_no_capacity() {
        let closed = Candidate {
            has_slots: false,
            ..variant(1.0, 10, 70.0)
        };
        let mut router = Router::default();
        assert_eq!(
            router.choose([closed].into_iter(), wish(100)),
            Err(NoRoute::NoCapacity)
        );
        assert_eq!(
            router.choose([].into_iter(), wish(100)),
            Err(NoRoute::NoCapacity)
        );
    }
}
