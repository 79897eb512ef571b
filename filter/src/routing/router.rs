//! Choice of the variant for a request: smooth weighted choice by quota among those that can answer in
//! time, else the most accurate that still can.
//!
//! Each request credits every variant with its share, and costs the chosen one a whole request. Among the
//! variants in credit, the one is chosen whose credit would reach a whole request soonest if it were passed
//! over (Tijdeman's rule for the chairman assignment problem). So no variant is ever a whole request away
//! from its quota; the usual smooth round robin (most credit first) does not guarantee that for more than
//! two. Credit is clamped to one round either way: a debt accumulated while a variant could not be chosen
//! would flood it later. The actual shares are recorded beside the quotas ([`Router::observed_share`]).

use std::time::Duration;

/// Properties of a variant for the choice. The response time is computed only where it matters.
#[derive(Clone, Copy)]
pub struct Candidate<T> {
    /// Quota, 0 to 1.
    pub share: f64,
    /// Whether it has any slots.
    pub has_slots: bool,
    /// Predicted time from now to the answer: wait and service.
    pub response_time: T,
    /// Accuracy, percent.
    pub accuracy: f64,
}

/// Requirements of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requirements {
    /// Time left.
    pub left: Duration,
    /// Minimum accuracy, percent.
    pub min_accuracy: f64,
}

/// Reason why no variant was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// No variant has a slot.
    NoCapacity,
    /// No allowed variant can finish in time.
    Infeasible,
}

/// Result of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChoice {
    /// Index of the variant.
    pub variant: usize,
    /// Variant that was due by quota but does not fit.
    pub instead_of: Option<usize>,
}

/// Number of requests over which observed shares fade.
const FADING: f64 = 512.0;

/// Credits of the variants, by their index in the engine's table.
#[derive(Debug, Default)]
pub struct Router {
    credits: Vec<Credit>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    /// Credit in requests.
    due: f64,
    /// Fading share of the latest requests.
    observed: f64,
}

impl Router {
    /// Chooses one of `candidates` (by index) for `requirements`.
    ///
    /// # Errors
    /// The reason why none fits.
    pub fn choose<I, T>(
        &mut self,
        candidates: I,
        requirements: Requirements,
    ) -> Result<RouteChoice, NoRoute>
    where
        I: Iterator<Item = Candidate<T>> + Clone,
        T: Fn() -> Duration,
    {
        let (chosen, first_due) = self.by_quota(candidates.clone(), requirements);
        let variant = match chosen {
            Some(chosen) => chosen,
            None => best(candidates, requirements)?,
        };
        self.charge(variant, chosen.is_some());
        Ok(RouteChoice {
            variant,
            instead_of: first_due.filter(|first_due| *first_due != variant),
        })
    }

    /// Share of the latest requests that a variant got, 0 to 1; `None` before the first request.
    #[must_use]
    pub fn observed_share(&self, variant: usize) -> Option<f64> {
        // After few requests the shares do not sum to one yet.
        let all: f64 = self.credits.iter().map(|credit| credit.observed).sum();
        let credit = self.credits.get(variant).filter(|_| all > 0.0)?;
        Some(credit.observed / all)
    }

    /// Variant due by quota among those that fit, and among all.
    fn by_quota(
        &mut self,
        candidates: impl Iterator<Item = Candidate<impl Fn() -> Duration>>,
        requirements: Requirements,
    ) -> (Option<usize>, Option<usize>) {
        let (mut soonest, mut first_due) = (None, None);
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
            let sooner = |than: Option<(usize, f64)>| than.is_none_or(|(_, min)| due < min);
            if sooner(first_due) {
                first_due = Some((index, due));
            }
            if sooner(soonest) && candidate.fits(requirements) {
                soonest = Some((index, due));
            }
        }
        (
            soonest.map(|(index, _)| index),
            first_due.map(|(index, _)| index),
        )
    }

    /// Charges the chosen variant if it was chosen by quota, and fades all shares by one request.
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

/// Most accurate candidate that fits.
///
/// # Errors
/// The reason why none does.
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

/// Number of further requests after which a variant is owed a whole one. A variant without credit comes
/// after all in credit; it is chosen only if no other can be.
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
        /// After any number of requests each variant is within one of its quota, for any quotas and any number
        /// of variants.
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
    fn passed_over_variant_is_not_flooded_afterwards() {
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
    fn most_accurate_feasible_variant_is_chosen_if_no_quota_fits() {
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
    fn observed_shares_follow_the_choices() {
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
    fn no_slots_mean_no_capacity() {
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
