//! Choice of the variant for a request: smooth weighted choice by quota among those that can answer in
//! time, else the most accurate that still can. Those come first that could answer in time even if the request
//! waited twice as long as predicted ([`Candidate::cautious`]): a quota is for seconds, and a queue that fills to
//! the deadline before another variant gets a request serves no later one that is slower than predicted.
//!
//! Each request credits every variant with its share, and costs the chosen one a whole request. Among the
//! variants in credit, the one is chosen whose credit would reach a whole request soonest if it were passed
//! over (Tijdeman's rule for the chairman assignment problem). So no variant is ever a whole request away
//! from its quota; the usual smooth round robin (most credit first) does not guarantee that for more than
//! two. Credit is clamped to one round either way: a debt accumulated while a variant could not be chosen
//! would flood it later. The actual shares are recorded beside the quotas ([`Router::observed_share`]).

use std::cell::Cell;

use super::fallback::{Skip, VariantList};
use super::group_times::Group;
use crate::time::Span;
use crate::variant::VariantId;

mod fit;

/// Properties of a variant for the choice. The response time is computed only where it matters.
#[derive(Clone, Copy)]
pub struct Candidate<T> {
    /// Quota, 0 to 1.
    pub share: f64,
    /// Whether it has any slots.
    pub has_slots: bool,
    /// Whether it is avoided because its servers fail.
    pub failing: bool,
    /// Predicted time from now to the answer.
    pub response_time: T,
    /// Accuracy, percent.
    pub accuracy: f64,
    /// Whether the request would be one too many of its requests with incoming bodies.
    pub streams_full: bool,
}

/// Predicted time from now to the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseTime {
    /// Wait and service.
    pub total: Span,
    /// Service alone.
    pub service: Span,
}

/// Requirements of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requirements<'a> {
    /// Time left.
    pub left: Span,
    /// Minimum accuracy, percent.
    pub min_accuracy: f64,
    /// Variants that may serve it.
    pub list: &'a VariantList,
    /// Time since its arrival.
    pub after: Span,
    /// Requests with which its service time is measured.
    pub group: Group,
}

impl Requirements<'_> {
    /// Time left for an answer of a variant; `None` if the variant is not allowed, or not any more.
    #[must_use]
    #[inline]
    pub fn left_for(&self, variant: VariantId) -> Option<Span> {
        if self.list.is_empty() {
            return Some(self.left);
        }
        let left = self.list.left(variant, self.after)?;
        Some(left.min(self.left))
    }
}

/// Reason why no variant was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// No variant has a slot.
    NoCapacity,
    /// No allowed variant can finish in time.
    Infeasible,
    /// The allowed variants that could have their maximum of requests with incoming bodies.
    StreamsFull,
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
    /// Response times of one choice, of those variants where they mattered.
    times: Vec<Cell<Option<ResponseTime>>>,
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
        requirements: Requirements<'_>,
    ) -> Result<RouteChoice, NoRoute>
    where
        I: Iterator<Item = Candidate<T>> + Clone,
        T: Fn() -> ResponseTime,
    {
        self.credit(candidates.clone());
        let mut times = std::mem::take(&mut self.times);
        times.clear();
        times.resize(self.credits.len(), Cell::new(None));
        let timed = candidates.zip(&times);
        let choice = self.choose_among(timed.map(Candidate::with_time), requirements);
        self.times = times;
        choice
    }

    fn choose_among<I, T>(
        &mut self,
        candidates: I,
        requirements: Requirements<'_>,
    ) -> Result<RouteChoice, NoRoute>
    where
        I: Iterator<Item = Candidate<T>> + Clone,
        T: Fn() -> ResponseTime,
    {
        let cautious = candidates.clone().map(Candidate::cautious);
        let (by_quota, first_due) = self.by_quota(cautious, requirements);
        let (variant, pays) = match by_quota {
            Some(variant) => (variant, true),
            None => self.by_fit(candidates, requirements)?,
        };
        self.charge(variant, pays);
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

    /// Credits each variant with its share of one request.
    fn credit<T>(&mut self, candidates: impl Iterator<Item = Candidate<T>>) {
        for (index, candidate) in candidates.enumerate() {
            self.know(index);
            if let Some(credit) = self.credits.get_mut(index) {
                credit.due = (credit.due + candidate.share).min(1.0);
            }
        }
    }

    /// Variant due by quota among those that fit, and among all.
    fn by_quota(
        &self,
        candidates: impl Iterator<Item = Candidate<impl Fn() -> ResponseTime>>,
        requirements: Requirements<'_>,
    ) -> (Option<usize>, Option<usize>) {
        let (mut soonest, mut first_due) = (None, None);
        for ((index, candidate), credit) in candidates.enumerate().zip(&self.credits) {
            if candidate.share <= 0.0 {
                continue;
            }
            let due = credit.until_due(candidate.share);
            let sooner = |than: Option<(usize, f64)>| than.is_none_or(|(_, min)| due < min);
            if sooner(first_due) {
                first_due = Some((index, due));
            }
            if sooner(soonest) && candidate.fits(id(index), requirements) {
                soonest = Some((index, due));
            }
        }
        (
            soonest.map(|(index, _)| index),
            first_due.map(|(index, _)| index),
        )
    }

    /// Records a variant that was chosen without regard to its quota.
    pub(super) fn record(&mut self, variant: usize) {
        self.know(variant);
        self.charge(variant, false);
    }

    fn know(&mut self, variant: usize) {
        if variant >= self.credits.len() {
            self.credits.resize(variant + 1, Credit::default());
        }
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
pub fn best<T: Fn() -> ResponseTime>(
    candidates: impl Iterator<Item = Candidate<T>>,
    requirements: Requirements<'_>,
) -> Result<usize, NoRoute> {
    let (mut any_slots, mut any_full) = (false, false);
    let mut best: Option<(usize, Candidate<T>)> = None;
    for (index, candidate) in candidates.enumerate().filter(|(_, c)| c.is_open()) {
        any_slots = true;
        let misfit = candidate.misfit(id(index), requirements);
        any_full |= misfit == Some(Skip::QueueFull);
        let better = best.as_ref().is_none_or(|(_, best)| candidate.beats(best));
        if misfit.is_none() && better {
            best = Some((index, candidate));
        }
    }
    match best {
        Some((index, _)) => Ok(index),
        None => Err(NoRoute::of(any_slots, any_full)),
    }
}

fn id(index: usize) -> VariantId {
    VariantId(index as u16)
}

impl Credit {
    /// Number of further requests after which a variant with this share is owed a whole one. A variant without credit
    /// comes after all in credit; it is chosen only if no other can be.
    fn until_due(&self, share: f64) -> f64 {
        const AFTER_ALL: f64 = 1e9;
        if self.due > 0.0 {
            (1.0 - self.due) / share
        } else {
            AFTER_ALL - self.due
        }
    }
}

impl ResponseTime {
    /// The same with twice the wait.
    fn cautious(self) -> ResponseTime {
        let ResponseTime { total, service } = self;
        let total = total + total.saturating_sub(service);
        ResponseTime { total, service }
    }
}

impl NoRoute {
    /// Reason why no variant was chosen: `any_slots`: some have slots; `any_full`: some could, but for their maximum of
    /// requests with incoming bodies.
    pub(super) fn of(any_slots: bool, any_full: bool) -> NoRoute {
        match any_slots {
            _ if any_full => NoRoute::StreamsFull,
            true => NoRoute::Infeasible,
            false => NoRoute::NoCapacity,
        }
    }
}

impl<T: Fn() -> ResponseTime> Candidate<T> {
    /// The same, with a response time that is computed once and kept in `time`.
    fn with_time(
        (candidate, time): (Candidate<T>, &Cell<Option<ResponseTime>>),
    ) -> Candidate<impl Fn() -> ResponseTime> {
        let response_time = candidate.response_time;
        let once = move || {
            time.get().unwrap_or_else(|| {
                let computed = response_time();
                time.set(Some(computed));
                computed
            })
        };
        Candidate {
            response_time: once,
            share: candidate.share,
            has_slots: candidate.has_slots,
            failing: candidate.failing,
            accuracy: candidate.accuracy,
            streams_full: candidate.streams_full,
        }
    }

    /// The same with twice the wait.
    fn cautious(self) -> Candidate<impl Fn() -> ResponseTime> {
        let response_time = self.response_time;
        Candidate {
            response_time: move || response_time().cautious(),
            share: self.share,
            has_slots: self.has_slots,
            failing: self.failing,
            accuracy: self.accuracy,
            streams_full: self.streams_full,
        }
    }

    fn fits(&self, variant: VariantId, requirements: Requirements<'_>) -> bool {
        self.misfit(variant, requirements).is_none()
    }

    /// Reason why it, as that variant, does not meet the requirements; `None` if it does.
    pub(super) fn misfit(
        &self,
        variant: VariantId,
        requirements: Requirements<'_>,
    ) -> Option<Skip> {
        if !self.has_slots {
            return Some(Skip::NoCapacity);
        }
        if self.failing {
            return Some(Skip::NoBackend);
        }
        if self.accuracy < requirements.min_accuracy {
            return Some(Skip::Accuracy);
        }
        let Some(left) = requirements.left_for(variant) else {
            return Some(Skip::Expired);
        };
        if (self.response_time)().total > left {
            return Some(Skip::Infeasible);
        }
        self.streams_full.then_some(Skip::QueueFull)
    }

    fn is_open(&self) -> bool {
        self.has_slots && !self.failing
    }

    fn beats(&self, other: &Candidate<T>) -> bool {
        self.accuracy > other.accuracy
            || (self.accuracy >= other.accuracy
                && (self.response_time)().total < (other.response_time)().total)
    }
}

#[cfg(test)]
mod tests;
