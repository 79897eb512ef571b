//! Variants whose servers take requests and answer nothing.
//!
//! A deadline that passes without a byte says little by itself: the client may have given too little time, the request may
//! have waited behind others. It counts as a silence if its server had as long as an execution was expected to take, and
//! has answered nothing to anybody since it was sent, while those of another variant have: where nobody answers, it is the
//! proxy, the network or the machine. What is sent before a silence has counted is part of the same one.
//!
//! A trial costs an answer as long as the server hangs. The first one comes soon, because most servers that fall silent
//! were only slow. Each further one takes one request of [`TRIAL_OF`], or one in [`TRIAL_EVERY`]. What would be refused anyway
//! is sent there as soon as nothing else of this proxy is.

use super::health::Avoid;
use super::variant::Variant;
use super::{End, Engine, Flight, Request};
use crate::health::{Client, Failure, HealthSignal};
use crate::routing::router::Requirements;
use crate::time::{Mono, Span};
use crate::variant::VariantId;

/// Requests of a worker of which at most one is the trial of a silent variant.
const TRIAL_OF: u64 = 512;
/// Time after which a trial takes a request in any case.
const TRIAL_EVERY: Span = Span::from_secs(60);

/// What a worker has heard of a variant's servers, and not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Silence {
    /// Beginning of the latest answer.
    pub(super) heard_at: Mono,
    /// Time at which the latest silence counted.
    counted_at: Mono,
    /// Number of the arrival, and time, from which a trial may take a request that others could serve; `None` before the
    /// first one of a silence.
    trial_from: Option<(u64, Mono)>,
}

impl Engine {
    /// Records that a request has ended without a byte of its answer, if that tells that its server hangs.
    pub(super) fn note_silence(&mut self, request: &Request, flight: Flight, end: End, now: Mono) {
        let is_unanswered = matches!(end, End::TimedOut | End::Disconnected) && !flight.answered;
        if !is_unanswered || request.uploading || now.since(flight.sent) < flight.expected {
            return;
        }
        let is_later = |at: Mono| at >= flight.sent;
        let heard = |variant: &Variant| {
            is_later(variant.silence.heard_at) || variant.has_answered_since(flight.sent)
        };
        let answers = (0..).map(VariantId).zip(self.variants.iter());
        let answers: (bool, bool) = answers.fold((false, false), |(own, other), (id, variant)| {
            match id == request.variant {
                true => (heard(variant), other),
                false => (own, other || heard(variant)),
            }
        });
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return;
        };
        if answers != (false, true) || is_later(variant.silence.counted_at) {
            return;
        }
        variant.silence.counted_at = now;
        self.observe(request.variant, request.client(), HealthSignal::Silent, now);
    }

    /// Returns a silent variant, one of `allowed`, that a request which would be refused otherwise can try.
    pub(super) fn silent_to_try(
        &self,
        requirements: Requirements<'_>,
        avoid: Avoid,
        mut allowed: impl Iterator<Item = VariantId>,
    ) -> Option<VariantId> {
        let Avoid::Failing(Client { grpc, .. }) = avoid else {
            return None;
        };
        allowed.find(|id| {
            self.variants.get(*id).is_some_and(|variant| {
                variant.health.of(grpc).failure() == Some(Failure::Silent)
                    && variant.slots.in_flight() == 0
                    && variant.slots.total() > 0
                    && variant.fits(*id, requirements)
            })
        })
    }

    /// Whether the due trial of a variant may take the current request.
    pub(super) fn may_try(&mut self, id: VariantId, grpc: bool, now: Mono) -> bool {
        let arrivals = self.arrivals;
        let Some(variant) = self.variants.get_mut(id) else {
            return false;
        };
        let health = variant.health.of(grpc);
        let trial_from = &mut variant.silence.trial_from;
        if health.failure() != Some(Failure::Silent) {
            *trial_from = None;
            return true;
        }
        let may = match *trial_from {
            // Another worker may have had the first one.
            None => !health.was_tried(),
            Some((from, at)) => from <= arrivals || at <= now,
        };
        if may || trial_from.is_none() {
            *trial_from = Some((arrivals + TRIAL_OF, now + TRIAL_EVERY));
        }
        may
    }
}
