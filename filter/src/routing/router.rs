//! Which variant serves a request: a smooth weighted choice by quota among those that can answer
//! in time, and the most accurate that still can where none of them does.
//!
//! Each request earns every variant its share of credit and costs the chosen one a whole request.
//! Chosen is, of those in credit, the one whose credit would soonest reach a whole request if it
//! were passed over (Tijdeman's rule for the chairman assignment problem): so no variant is ever a
//! whole request away from its quota, which the usual smooth round robin (most credit first) does
//! not keep for more than two. Credit is clamped to one round either way: a debt run up while a
//! variant could not be chosen would flood it later. What the variants got all the same is kept beside
//! their quotas ([`Router::observed_share`]).

use std::time::Duration;

/// What the choice needs to know of a variant. How long it response_time is worked out only where it matters.
#[derive(Clone, Copy)]
pub struct Candidate<T> {
    /// Its quota, 0 to 1.
    pub share: f64,
    /// Whether it has slots at all.
    pub has_slots: bool,
    /// Predicted time from now to the answer: wait and service.
    pub response_time: T,
    /// Accuracy, percent.
    pub accuracy: f64,
}

/// What the request asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requirements {
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

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChoice {
    /// Which variant, by index.
    pub variant: usize,
    /// The one whose turn it was by quota, and which will not do.
    pub instead_of: Option<usize>,
}

/// Over how many requests observed shares fade.
const FADING: f64 = 512.0;

/// The credits of the variants, by their place in the engine's table.
#[derive(Debug, Default)]
pub struct Router {
    credits: Vec<Credit>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    /// In requests.
    due: f64,
    /// The part of the latest requests that it got, each counting the less the longer ago it was.
    observed: f64,
}

impl Router {
    /// Picks one of `candidates` (by index) for `requirements`.
    ///
    /// # Errors
    /// Why none will do.
    pub fn choose<I, T>(
        &mut self,
        candidates: I,
        requirements: Requirements,
    ) -> Result<RouteChoice, NoRoute>
    where
        I: Iterator<Item = Candidate<T>> + Clone,
        T: Fn() -> Duration,
    {
        let (chosen, turn) = self.by_quota(candidates.clone(), requirements);
        let variant = match chosen {
            Some(chosen) => chosen,
            None => best(candidates, requirements)?,
        };
        self.charge(variant, chosen.is_some());
        Ok(RouteChoice {
            variant,
            instead_of: turn.filter(|turn| *turn != variant),
        })
    }

    /// What part of the latest requests a variant got, 0 to 1; `None` where there has been none.
    #[must_use]
    pub fn observed_share(&self, variant: usize) -> Option<f64> {
        // While there have been few the parts do not add up to one yet.
        let all: f64 = self.credits.iter().map(|credit| credit.observed).sum();
        let credit = self.credits.get(variant).filter(|_| all > 0.0)?;
        Some(credit.observed / all)
    }

    /// Of those that will do, the one whose turn it is; and whose turn it would be among all.
    fn by_quota(
        &mut self,
        candidates: impl Iterator<Item = Candidate<impl Fn() -> Duration>>,
        requirements: Requirements,
    ) -> (Option<usize>, Option<usize>) {
        let (mut soonest, mut turn) = (None, None);
        for (index, candidate) in candidates.enumerate() {
            if index >= self.credits.len() {
                self.credits.push(Credit::default());
            }
            let Some(credit) = self.credits.get_mut(index) else {
                continue;
            };
            credit.due = (credit.due + candidate.share).min(1.0);
            if candidate.share <= 0.0 {
                continue;
            }
            let due = requests_until_due(credit.due, candidate.share);
            let sooner = |than: Option<(usize, f64)>| than.is_none_or(|(_, least)| due < least);
            if sooner(turn) {
                turn = Some((index, due));
            }
            if sooner(soonest) && candidate.fits(requirements) {
                soonest = Some((index, due));
            }
        }
        (
            soonest.map(|(index, _)| index),
            turn.map(|(index, _)| index),
        )
    }

    /// The chosen one pays, if it was chosen by quota; all shares fade by one request.
    fn charge(&mut self, chosen: usize, pays: bool) {
        for (index, credit) in self.credits.iter_mut().enumerate() {
            let got = if index == chosen { 1.0 } else { 0.0 };
            credit.observed += (got - credit.observed) * (1.0 / FADING);
        }
        if let Some(credit) = self.credits.get_mut(chosen).filter(|_| pays) {
            credit.due = (credit.due - 1.0).max(-1.0);
        }
    }
}

/// The most accurate that will do.
///
/// # Errors
/// Why none will.
pub fn best<T: Fn() -> Duration>(
    candidates: impl Iterator<Item = Candidate<T>>,
    requirements: Requirements,
) -> Result<usize, NoRoute> {
    let mut any_slots = false;
    let mut best: Option<(usize, Candidate<T>)> = None;
    for (index, candidate) in candidates.enumerate().filter(|(_, c)| c.has_slots) {
        any_slots = true;
        let better = best.as_ref().is_none_or(|(_, best)| candidate.beats(best));
        if candidate.fits(requirements) && better {
            best = Some((index, candidate));
        }
    }
    match best {
        Some((index, _)) => Ok(index),
        None if any_slots => Err(NoRoute::Infeasible),
        None => Err(NoRoute::NoCapacity),
    }
}

/// After how many more requests a variant would be owed a whole one. One that is not in credit
/// comes after all that are; that it is chosen at all means the others cannot be.
fn requests_until_due(credit: f64, share: f64) -> f64 {
    const AFTER_ALL: f64 = 1e9;
    if credit > 0.0 {
        (1.0 - credit) / share
    } else {
        AFTER_ALL - credit
    }
}

impl<T: Fn() -> Duration> Candidate<T> {
    fn fits(&self, requirements: Requirements) -> bool {
        self.has_slots
            && self.accuracy >= requirements.min_accuracy
            && (self.response_time)() <= requirements.left
    }

    fn beats(&self, other: &Candidate<T>) -> bool {
        self.accuracy > other.accuracy
            || (self.accuracy >= other.accuracy && (self.response_time)() < (other.response_time)())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variant(
        share: f64,
        service_ms: u64,
        accuracy: f64,
    ) -> Candidate<impl Fn() -> Duration + Copy> {
        Candidate {
            share,
            has_slots: true,
            response_time: move || Duration::from_millis(service_ms),
            accuracy,
        }
    }

    fn requirements(left_ms: u64) -> Requirements {
        Requirements {
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
                counts[router.choose(candidates.iter().copied(), requirements(100)).unwrap().variant] += 1;
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
            let choice = router
                .choose(candidates.into_iter(), requirements(100))
                .unwrap();
            assert_eq!(choice.variant, 0);
        }
        let next: Vec<_> = (0..10)
            .map(|_| {
                router
                    .choose(candidates.into_iter(), requirements(1000))
                    .unwrap()
                    .variant
            })
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
        let mut choose = |requirements| {
            let choice = router.choose(candidates.into_iter(), requirements);
            choice.map(|choice| (choice.variant, choice.instead_of))
        };
        assert_eq!(choose(requirements(600)), Ok((0, None)));
        assert_eq!(choose(requirements(200)), Ok((1, Some(0))));
        assert_eq!(choose(requirements(60)), Ok((2, Some(0))));
        assert_eq!(choose(requirements(40)), Err(NoRoute::Infeasible));
        assert_eq!(
            choose(Requirements {
                min_accuracy: 77.0,
                ..requirements(200)
            }),
            Err(NoRoute::Infeasible)
        );
        assert_eq!(
            choose(Requirements {
                min_accuracy: 76.0,
                ..requirements(200)
            }),
            Ok((1, Some(0)))
        );
    }

    #[test]
    fn observed_shares_follow_what_was_chosen() {
        let candidates = [variant(0.75, 10, 70.0), variant(0.25, 10, 78.0)];
        let mut router = Router::default();
        assert_eq!(router.observed_share(0), None, "of no request at all");
        for requests in 1..=4 * FADING as usize {
            router
                .choose(candidates.into_iter(), requirements(100))
                .unwrap();
            if requests >= 100 {
                let off = router.observed_share(0).unwrap() - 0.75;
                assert!(off.abs() < 0.02, "{off} after {requests}");
            }
        }
        for _ in 0..4 * FADING as usize {
            let pressed = [candidates[0], variant(0.25, 500, 78.0)];
            router
                .choose(pressed.into_iter(), requirements(100))
                .unwrap();
        }
        assert!(router.observed_share(1).unwrap() < 0.02);
    }

    #[test]
    fn without_slots_there_is_no_capacity() {
        let closed = Candidate {
            has_slots: false,
            ..variant(1.0, 10, 70.0)
        };
        let mut router = Router::default();
        assert_eq!(
            router.choose([closed].into_iter(), requirements(100)),
            Err(NoRoute::NoCapacity)
        );
        assert_eq!(
            router.choose([closed; 0].into_iter(), requirements(100)),
            Err(NoRoute::NoCapacity)
        );
    }
}
