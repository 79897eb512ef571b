//! Requests that are tried against a prediction, or beyond the limit.

use super::Variant;
use crate::routing::router::Requirements;
use crate::slots::latest_start;
use crate::time::{Mono, Span};
use crate::variant::VariantId;

/// Factor by which a planned service time may be too long for a request to be tried without other evidence.
const LEAST_PART: u32 = 4;

impl Variant {
    /// Records that a request was refused for want of time.
    pub(in crate::engine) fn note_lost(&mut self, now: Mono) {
        self.lost_at = Some(now);
    }

    /// Whether a request that may be late costs another one's answer: one was refused within the time of an execution, and
    /// more in flight do not make the servers answer more. Lanes tell by what waits for them.
    pub(in crate::engine) fn is_overloaded(&self, now: Mono) -> bool {
        let lost = self.lost_at.filter(|_| !self.is_flat);
        let next = self.slots.next_in_flight();
        lost.is_some_and(|at| now < at + self.full.mean) && self.curve.is_proportional(next, now)
    }

    /// Time that the next request takes, by what others took lately; `None` without evidence.
    fn evidence(&self, now: Mono) -> Option<Span> {
        if !self.curve.is_evidence(self.slots.in_flight(), now) {
            return None;
        }
        let next = self.slots.next_in_flight();
        let time = (self.curve).predict(next, self.planned, self.after_end(now), now)?;
        Some(if self.is_overloaded(now) {
            time.safe
        } else {
            time.mean
        })
    }

    /// Shortest time that a request may take that is tried.
    pub(in crate::engine) fn takes_if_tried(&self, now: Mono) -> Span {
        self.evidence(now).unwrap_or(self.planned / LEAST_PART)
    }

    /// Whether the first waiting request may be sent beyond the limit: it has time enough, even if the servers do no more
    /// with more in flight.
    pub(in crate::engine) fn head_explores(&self, now: Mono) -> bool {
        let (limit, exploring) = (self.slots.total().max(1), self.slots.exploring());
        let at_least = self
            .full
            .high
            .mul_f64(f64::from(exploring) / f64::from(limit));
        let first = self.slots.queue.earliest();
        self.slots.may_explore() && first.is_some_and(|first| latest_start(first, at_least) >= now)
    }

    /// Whether a request that is predicted to be late everywhere may be tried here: a place is free that nobody waits for,
    /// and what was answered lately does not speak against it. A prediction can be wrong, and would stay so if it kept every
    /// request away. With nothing answered lately one is tried at a time.
    pub(in crate::engine) fn may_try(
        &self,
        id: VariantId,
        requirements: Requirements<'_>,
        now: Mono,
    ) -> bool {
        if self.slots.planned() == 0 || !self.slots.has_free_place() {
            return false;
        }
        let Some(left) = requirements.left_for(id).filter(|left| !left.is_zero()) else {
            return false;
        };
        if self.slots.may_explore() && self.full_of(requirements.group).high > left {
            return false;
        }
        let group = requirements.group;
        if self.group_times.of(group).is_some() {
            // Told apart by what was measured, which is evidence enough.
            return false;
        }
        let is_idle = self.slots.in_flight() == 0;
        let may = match self.evidence(now) {
            Some(takes) => takes <= left,
            None => is_idle && left >= self.planned / LEAST_PART,
        };
        may && self.accuracy >= requirements.min_accuracy
    }
}
