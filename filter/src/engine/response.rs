//! What an answer is tagged with, and what is learnt from it.

use std::rc::Rc;
use std::time::Duration;

use weir_api::metrics::Metric;

use super::{End, Engine, State, StreamId};
use crate::config::Role;
use crate::health::HealthSignal;
use crate::reason::Reason;
use crate::stats::Label;
use crate::time::{Now, Wall};
use crate::variant::VariantId;
use crate::verdict::Verdict;

/// An answer from upstream, as the shell has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answer {
    /// Whether it is an error (4xx, 5xx): it says nothing of the service time.
    pub failed: bool,
    /// HealthSignal of the server's health; `None`: none.
    pub sign: Option<HealthSignal>,
    /// The variant that answered, where another could have than the one it was sent to.
    pub served_by: Option<VariantId>,
    /// What the gate before the server says a request takes there (`x-slo-expected-ms`).
    pub expected: Option<Duration>,
    /// Times that Envoy sent the request again.
    pub retried: u32,
}

/// So much of an answer Envoy takes from a server though its client reads nothing, in bytes: what
/// `per_connection_buffer_limit_bytes` is in the shipped files. The time of what comes after it may be the
/// client's.
pub const ANSWER_BUFFERED: usize = 65_536;

/// What an answer from upstream is tagged with.
#[derive(Debug, Clone, PartialEq)]
pub struct Tags {
    /// The variant that answered (`x-slo-variant`).
    pub variant: Rc<str>,
    /// Time left (`x-slo-remaining-ms`).
    pub remaining: Duration,
    /// Time held (`server-timing: queue;dur=…`); a router holds nobody.
    pub waited: Option<Duration>,
    /// What a request that came now would take here, wait and service (`x-slo-expected-ms`): for the
    /// router before this slots.
    pub expected: Option<Duration>,
    /// When the request came, for a client that says when it sends (`x-slo-clock`).
    pub came: Option<Wall>,
}

impl Engine {
    /// The answer's headers have come from upstream: what to tag them with.
    pub fn on_answer(&mut self, stream: StreamId, answer: Answer, now: Now) -> Option<Tags> {
        let role = self.config.role;
        if let Some(by) = answer.served_by {
            self.reassign(stream, by, now.mono);
        }
        let request = self.requests.get_mut(&stream)?;
        let State::InFlight(flight) = &mut request.state else {
            return None;
        };
        flight.failed = answer.failed;
        if !std::mem::replace(&mut flight.answered, true) {
            // An answer that has begun is let finish: cut off it would be of no use to anybody.
            self.timers.cancel(request.deadline.client_at, stream);
        }
        let (flight, request) = (*flight, *request);
        if answer.retried > 0 {
            let (label, retried) = (Label::Variant(request.variant), i64::from(answer.retried));
            self.stats.by(Metric::Retried, label, retried);
        }
        if let Some(sign) = answer.sign {
            self.observe(request.variant, sign, now.mono);
        }
        let variant = self.variants.get_mut(request.variant)?;
        if let Some(expected) = answer.expected.filter(|_| role == Role::Router) {
            variant.record_gate_estimate(expected, now.mono);
        }
        Some(Tags {
            variant: variant.name.clone(),
            remaining: request.deadline.client_at.since(now.mono),
            waited: (role != Role::Router).then(|| flight.sent.since(request.complete_at)),
            expected: (role == Role::Gate).then(|| variant.expected(now.mono)),
            came: request.stamped.then_some(request.arrived.wall),
        })
    }

    /// So much of an answer has come that its client's reading may hold up the rest: the server's part in
    /// it is over, and its slot free. Not so of a stream, which the server goes on making.
    pub fn on_response_exceeds_buffer(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(request) = self.requests.get_mut(&stream) else {
            return;
        };
        let State::InFlight(flight) = &mut request.state else {
            return;
        };
        if request.shape.stream || !std::mem::replace(&mut flight.owns_slot, false) {
            return;
        }
        let (flight, freed) = (*flight, *request);
        // Counted out with its slot: the end of its body must not count it out again.
        request.uploading = false;
        let request = freed;
        self.free_slot(stream, &request, flight, End::Answered, now);
        self.dispatch_variant(request.variant, false, now, verdicts);
    }

    /// Ends a flight that has outlived its deadline without an answer.
    pub(super) fn expire_flight(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(request) = self.requests.remove(&stream) else {
            return;
        };
        if let State::InFlight(flight) = request.state {
            self.finish_flight(stream, &request, flight, End::TimedOut, now);
            let refusal = self.refusal(Reason::Expired, request.refusal_context());
            verdicts.push((stream, refusal));
        }
    }
}
