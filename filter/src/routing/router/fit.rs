//! Choice of the variant for a request that none due by quota can answer with time to spare.

use super::{Candidate, NoRoute, Requirements, ResponseTime, Router, Skip, id};
use crate::time::Span;

/// Fit of a variant that can answer in time, from the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It can, no more.
    InTime,
    /// It has a quota.
    Quota,
    /// It could even if the request waited twice as long as predicted.
    TimeToSpare,
}

/// Variant that fits best so far.
#[derive(Debug, Clone, Copy)]
struct Fitting {
    index: usize,
    fit: Fit,
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
    pub(super) fn by_fit(
        &self,
        candidates: impl Iterator<Item = Candidate<impl Fn() -> ResponseTime>>,
        requirements: Requirements<'_>,
    ) -> Result<(usize, bool), NoRoute> {
        let (mut any_slots, mut any_full) = (false, false);
        let mut best: Option<Fitting> = None;
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
            let fitting = Fitting {
                index,
                fit: match spare {
                    true => Fit::TimeToSpare,
                    false if candidate.share > 0.0 => Fit::Quota,
                    false => Fit::InTime,
                },
                accuracy: candidate.accuracy,
                time: if spare { time.cautious() } else { time }.total,
                due: credit.until_due(candidate.share),
            };
            if best.is_none_or(|best| fitting.beats(&best)) {
                best = Some(fitting);
            }
        }
        match best {
            Some(best) => Ok((best.index, best.fit == Fit::Quota)),
            None => Err(NoRoute::of(any_slots, any_full)),
        }
    }
}

impl Fitting {
    fn beats(&self, other: &Fitting) -> bool {
        if self.fit != other.fit {
            return self.fit > other.fit;
        }
        if self.fit == Fit::Quota {
            return self.due < other.due;
        }
        self.accuracy > other.accuracy
            || (self.accuracy >= other.accuracy && self.time < other.time)
    }
}
