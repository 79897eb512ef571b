//! Responses: their tags, and the measurements they yield.

use std::rc::Rc;

use weir_api::metrics::Metric;

use super::served::PathHash;
use super::{End, Engine, Request, State, StreamId};
use crate::config::Role;
use crate::explanation::Stage;
use crate::health::{Client, HealthSignal, Source};
use crate::reason::Reason;
use crate::routing::service_time::Took;
use crate::stats::Label;
use crate::time::{Mono, Now, Span, Wall};
use crate::variant::VariantId;
use crate::verdict::Verdict;

/// Response from upstream, as the shell receives it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answer {
    /// Whether it is an error (4xx, 5xx), which is no measurement of the service time.
    pub failed: bool,
    /// Whether its `content-type` says that it streams.
    pub streams: bool,
    /// Signal of the server's health, if any.
    pub sign: Option<HealthSignal>,
    /// Variant that answered, if it may differ from the one it was sent to.
    pub served_by: Option<VariantId>,
    /// Response time at the gate before the server (`x-slo-expected-ms`).
    pub expected: Option<Span>,
    /// Retries by Envoy.
    pub retried: u32,
    /// Hash of the source of its request, where it is an error. A request that was looked up before needs none.
    pub source: Option<u64>,
}

/// Bytes of a response that Envoy takes from a server while its client reads nothing:
/// `per_connection_buffer_limit_bytes` in the shipped files. The time after them may be the client's.
pub const ANSWER_BUFFERED: usize = 65_536;

/// Least and longest time for which a stream's client need not take anything before its slot is free.
const READER_MIN: Span = Span::from_secs(2);
const READER_MAX: Span = Span::from_secs(60);
/// Least time after which that client is behind, and counts among those that hold slots: a stall of a busy machine is
/// shorter.
const LAG_MIN: Span = Span::from_millis(100);

/// Tags of a response from upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct Tags {
    /// Variant that answered (`x-slo-variant`).
    pub variant: Rc<str>,
    /// Variants of the request's list up to that one (`x-slo-variants`), with the reasons why those before it did
    /// not answer.
    pub variants: Option<String>,
    /// Headers of the request that were ignored because their values are invalid (`x-slo-ignored`).
    pub ignored: Option<String>,
    /// Whether the response streams, so that it begins with its first byte ([`Engine::on_first_byte`]). Its headers are held
    /// until then: at the deadline it can still be refused.
    pub awaits_byte: bool,
    /// Whether it streams: then each further buffer of it is reported ([`Engine::on_response_exceeds_buffer`]).
    pub streams: bool,
    /// Time left (`x-slo-remaining-ms`).
    pub remaining: Span,
    /// Time held (`server-timing: queue;dur=…`); `None` at a router, which holds no request.
    pub waited: Option<Span>,
    /// Predicted response time of a new request (`x-slo-expected-ms`), for the router before this gate.
    pub expected: Option<Span>,
    /// Arrival of the request, for a client that states its time of sending (`x-slo-clock`).
    pub came: Option<Wall>,
}

impl Engine {
    /// Handles the headers of a response from upstream; returns its tags.
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
        // Whatever was expected of the path: an error is an ordinary answer.
        let streams = (request.shape.stream || answer.streams) && !answer.failed;
        request.shape.stream = streams;
        let awaits_byte = streams && !request.uploading;
        if awaits_byte && !flight.answered {
            flight.streamed.awaits_byte = true;
        } else if !std::mem::replace(&mut flight.answered, true) {
            // A response that has begun may finish: cut off it would be useless. One that does not stream must.
            let finish = self.config.deadline.finish + self.host_timer;
            let ends_at = (!streams).then(|| request.deadline.client_at + finish);
            flight.rearm(&mut self.timers, stream, ends_at);
            flight.streamed.begun_at = streams.then_some(now.mono);
        }
        let ordinal = flight.lane.ordinal;
        let opens = streams && flight.owns_slot;
        let waited = flight.sent.since(request.complete_at);
        let remaining = request.deadline.client_at.since(now.mono);
        let came = request.stamped.then_some(request.arrived.wall);
        let (id, list) = (request.variant, request.list.clone());
        let (ignored, path) = (request.ignored, request.path);
        let client = Client {
            source: request.sender.or(answer.source).map(Source::of),
            ..request.client()
        };
        if answer.retried > 0 {
            let retried = i64::from(answer.retried);
            self.stats.by(Metric::Retries, Label::Variant(id), retried);
        }
        if let Some(sign) = answer.sign {
            let sign = self.judged(id, sign, path, list.is_some());
            self.observe(id, client, sign, now.mono);
        }
        let variants = list.as_deref().and_then(|list| self.list_text(list));
        let ignored = self.ignored_text(ignored);
        let variant = self.variants.get_mut(id)?;
        variant.silence.heard_at = now.mono;
        if opens {
            variant.slots.mark_open_ended(ordinal);
        }
        if let Some(expected) = answer.expected.filter(|_| role == Role::Router) {
            variant.record_gate_estimate(expected, now.mono);
        }
        Some(Tags {
            variant: variant.name.clone(),
            variants,
            ignored,
            awaits_byte,
            streams,
            remaining,
            waited: (role != Role::Router).then_some(waited),
            expected: (role == Role::Gate).then(|| variant.expected(now.mono)),
            came,
        })
    }

    /// Health signal of a response to a request with this path; `lists`: the client has named its variants.
    /// What a client provokes by a name of its own making is its mistake.
    fn judged(
        &mut self,
        id: VariantId,
        sign: HealthSignal,
        path: PathHash,
        lists: bool,
    ) -> HealthSignal {
        let Some(variant) = self.variants.get_mut(id) else {
            return sign;
        };
        match sign {
            HealthSignal::Served => variant.served.note(path),
            HealthSignal::NotFound if !variant.served.blames(path, lists) => {
                return HealthSignal::Answered;
            }
            _ => {}
        }
        sign
    }

    /// Handles the first byte of a response whose headers have left it open ([`Tags::awaits_byte`]): a stream has begun.
    pub fn on_first_byte(&mut self, stream: StreamId, now: Now) {
        let Some(request) = self.requests.get_mut(&stream) else {
            return;
        };
        let (id, group) = (request.variant, request.group());
        let State::InFlight(flight) = &mut request.state else {
            return;
        };
        if !std::mem::take(&mut flight.streamed.awaits_byte) {
            return;
        }
        flight.answered = true;
        flight.streamed.begun_at = Some(now.mono);
        flight.rearm(&mut self.timers, stream, None);
        let flight = *flight;
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let waited = flight.lane.server_wait.unwrap_or_default();
        if self.config.correct && flight.owns_slot {
            let took = Took {
                time: now.mono.since(flight.sent + waited),
                completed: true,
            };
            variant.observe(group, flight.planned, took, now.mono);
        }
    }

    /// Gives the client of a stream, of which Envoy's buffer is full, time to take more of it: twice what the server took for
    /// as much at its quickest. Then it is behind, and it is the client that the server waits for.
    fn await_reader(&mut self, stream: StreamId, now: Mono) {
        let Some(request) = self.requests.get_mut(&stream) else {
            return;
        };
        let State::InFlight(flight) = &mut request.state else {
            return;
        };
        if !flight.owns_slot || !flight.answered {
            return;
        }
        let streamed = &mut flight.streamed;
        let begun_at = streamed.begun_at.unwrap_or(flight.sent);
        let took = now.since(streamed.filled_at.replace(now).unwrap_or(begun_at));
        let quickest = streamed.quickest.map_or(took, |other| other.min(took));
        streamed.quickest = Some(quickest);
        let no_longer = std::mem::take(&mut streamed.lags);
        let lags_at = now + (quickest * 2).clamp(LAG_MIN, READER_MAX);
        flight.rearm(&mut self.timers, stream, Some(lags_at));
        if let Some(variant) = self.variants.get_mut(request.variant)
            && no_longer
        {
            variant.uploads = variant.uploads.saturating_sub(1);
            variant.slots.reported.stale = true;
        }
    }

    /// Handles the client of a stream that has not taken more of it in time. Clients that are behind hold as many slots as
    /// uploads do, together with these; each loses its slot after twice the time of its stream so far.
    pub(super) fn reader_expires(
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
        flight.timer_at = None;
        let streamed = &flight.streamed;
        let begun_at = streamed.begun_at.unwrap_or(flight.sent);
        let filled_at = streamed.filled_at.unwrap_or(begun_at);
        let until = filled_at + (filled_at.since(begun_at) * 2).clamp(READER_MIN, READER_MAX);
        // One that uploads counts already.
        let counts = !streamed.lags && !request.uploading;
        let id = request.variant;
        if until <= now.mono || counts && self.has_max_uploads(id, false, now.mono) {
            return self.give_slot_back(stream, now, verdicts);
        }
        let Some(Request {
            state: State::InFlight(flight),
            ..
        }) = self.requests.get_mut(&stream)
        else {
            return;
        };
        flight.streamed.lags |= counts;
        flight.rearm(&mut self.timers, stream, Some(until));
        if let Some(variant) = self.variants.get_mut(id)
            && counts
        {
            variant.uploads += 1;
            variant.slots.reported.stale = true;
        }
    }

    /// Frees the slot of a request whose answer has begun, and goes on.
    fn give_slot_back(
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
        if !std::mem::replace(&mut flight.owns_slot, false) {
            return;
        }
        let before = *flight;
        // Already subtracted with its slot: the end of its reader's delay, or of its body, must not subtract it again.
        flight.streamed.lags = false;
        let freed = request.clone();
        request.uploading = false;
        self.free_slot(stream, &freed, before, End::Answered, now);
        self.dispatch_variant(freed.variant, false, now, verdicts);
    }

    /// Handles a response that exceeds Envoy's buffer, so that its client's reading may delay the rest: the
    /// server's part is over, and its slot is free. A stream, which the server is still producing, keeps it for as long as its
    /// client takes more; called again each time that the buffer could be full again.
    pub fn on_response_exceeds_buffer(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let request = self.requests.get(&stream);
        match request.is_some_and(|request| request.shape.stream) {
            true => self.await_reader(stream, now.mono),
            false => self.give_slot_back(stream, now, verdicts),
        }
    }

    /// Ends a request in flight whose deadline has passed without a response, or whose response goes on for too long after
    /// it. Envoy resets a stream that is refused after its headers.
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
            self.note_silence(&request, flight, End::TimedOut, now.mono);
            self.finish_flight(stream, &request, flight, End::TimedOut, now);
            let cause = Reason::Expired.into();
            let context = self.explain(cause, &request, Stage::Server, now.mono);
            let refusal = self.refusal(Reason::Expired, context);
            verdicts.push((stream, Verdict::Reject(refusal)));
        }
    }
}
