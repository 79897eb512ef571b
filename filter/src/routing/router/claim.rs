//! Choice of the variant for a request that none due by quota can answer with time to spare.

use super::{Candidate, NoRoute, Requirements, ResponseTime, Router, Skip, id};
use crate::time::Span;

/// Claim of a variant that can answer in time, from the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// It can, no more.
    InTime,
    /// It has a quota.
    Quota,
    /// It could even if the request waited twice as long as predicted.
    TimeToSpare,
}

/// Variant with the best claim so far.
#[derive(Debug, Clone, Copy)]
struct Claimant {
    index: usize,
    claim: Claim,
    accuracy: f64,
    /// Response time; with twice the wait where there is time to spare.
    time: Span,
    /// Requests until its quota is due.
    due: f64,
}

impl Router {
    /// Variant for a request, in one pass over the candidates: the most accurate with time to spare; or else the one due
    /// by quota; or else the most accurate. The second value is whether it pays for the request with its credit.
    ///
    /// # Errors
    /// The reason why none can answer in time.
    pub(super) fn by_claim(
        &self,
        candidates: impl Iterator<Item = Candidate<impl Fn() -> ResponseTime>>,
        requirements: Requirements<'_>,
    ) -> Result<(usize, bool), NoRoute> {
        let (mut any_slots, mut any_full) = (false, false);
        let mut best: Option<Claimant> = None;
        for ((index, candidate), credit) in candidates.enumerate().zip(&self.credits) {
            let misfit = candidate.misfit(id(index), requirements);
            any_slots |= candidate.is_open();
            any_full |= misfit == Some(Skip::QueueFull);
            if misfit.is_some() {
                continue;
            }
            let time = (candidate.response_time)();
            let left = requirements.left_for(id(index)).unwrap_or_default();
            let spare = time.cautious().total <= left;
            let claimant = Claimant {
                index,
                claim: match spare {
                    true => Claim::TimeToSpare,
                    false if candidate.share > 0.0 => Claim::Quota,
                    false => Claim::InTime,
                },
                accuracy: candidate.accuracy,
                time: if spare { time.cautious() } else { time }.total,
                due: credit.until_due(candidate.share),
            };
            if best.is_none_or(|best| claimant.beats(&best)) {
                best = Some(claimant);
            }
        }
        match best {
            Some(best) => Ok((best.index, best.claim == Claim::Quota)),
            None => Err(NoRoute::of(any_slots, any_full)),
        }
    }
}

impl Claimant {
    fn beats(&self, other: &Claimant) -> bool {
        if self.claim != other.claim {
            return self.claim > other.claim;
        }
        if self.claim == Claim::Quota {
            return self.due < other.due;
        }
        self.accuracy > other.accuracy
            || (self.accuracy >= other.accuracy && self.time < other.time)
    }
}
