//! Requests with incoming bodies: bounded, and admitted with their last byte.
//!
//! No server can work on a request without its body, so such a request owns no slot and precedes no other.
//! Its deadline runs on: it is refused when no variant could finish it any more. Two kinds go upstream
//! while their bodies are incoming: those on a path configured as a stream, with their headers; and those
//! larger than [`Limits::request_max`](crate::request::body::Limits::request_max), once that many bytes
//! have come. Each takes a slot; together at most half of a variant's.

use crate::config::Role;
use crate::explanation::{Limit, Stage};
use crate::reason::Reason;
use crate::request::body::{BodyChunk, LimitExceeded};
use crate::size::Size;
use crate::slots::latest_start;
use crate::time::{Mono, Now, Span};
use crate::verdict::{BodyVerdict, Verdict};

use super::explain::Cause;
use super::slots::Asking;
use super::{Engine, Request, State, StreamId};

/// Minimum time between two checks of a request whose body is incoming.
const CHECK_PERIOD_MIN: Span = Span::from_millis(5);

impl Engine {
    /// Holds a request until its body is complete, unless it is a stream, which is decided by its headers.
    pub(super) fn receive(
        &mut self,
        stream: StreamId,
        mut request: Request,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        request.uploading = true;
        if self.config.role == Role::Router || request.shape.upload {
            return self.admit_stream(stream, request, now, verdicts);
        }
        let quickest = match self.quickest(&request, now) {
            Ok(quickest) => quickest,
            Err(reason) => {
                self.count_arrival(&request);
                self.record_skips(&mut request, now);
                let context = self.explain(reason.into(), &request, Stage::Receiving, now.mono);
                return self.refuse(reason, context);
            }
        };
        if self.receiving.len() >= self.config.max_requests
            && let Some(oldest) = self.receiving.oldest()
        {
            verdicts.push((oldest, self.refuse_held(oldest, Limit::Requests, now.mono)));
        }
        self.receiving.add(request.arrival, stream);
        let until = latest_start(request.due, quickest);
        self.schedule_check(stream, request, now.mono, until);
        Verdict::Park
    }

    /// Schedules the next check of a request: after half of its time, at the latest when no variant could
    /// finish it any more.
    fn schedule_check(&mut self, stream: StreamId, mut request: Request, now: Mono, until: Mono) {
        let half = request.due.since(now) / 2;
        let check_at = if request.age.is_some() && half >= CHECK_PERIOD_MIN {
            until.min(now + half)
        } else {
            until
        };
        request.state = State::Receiving { check_at };
        self.timers.set(check_at, stream);
        self.requests.insert(stream, request);
    }

    /// Holds a body of `bytes` so far, if it is incomplete and no limit is near; `false` otherwise: then
    /// [`Engine::on_body`] decides. Most chunks need only this, and no clock.
    pub fn hold_body(&mut self, stream: StreamId, bytes: u64) -> bool {
        let limits = &self.config.body;
        let request = self.requests.get_mut(&stream);
        let Some(request) = request.filter(|of| matches!(of.state, State::Receiving { .. })) else {
            return false;
        };
        let holds = bytes <= limits.request_max && self.ledger.fits(&request.body, bytes, limits);
        if holds {
            self.ledger.set(&mut request.body, bytes);
        }
        holds
    }

    /// Handles a chunk of a request's body. `source` looks up the source of a request; it is called only if
    /// more bytes are held than one source may hold.
    pub fn on_body(
        &mut self,
        stream: StreamId,
        received: BodyChunk,
        source: impl FnMut(StreamId) -> Option<u64>,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> BodyVerdict {
        let Some(request) = self.requests.get_mut(&stream) else {
            return BodyVerdict::Unknown;
        };
        let State::InFlight(flight) = &mut request.state else {
            let verdict = self.on_held_body(stream, received, source, now, verdicts);
            return verdict.map_or(BodyVerdict::Unknown, BodyVerdict::Decided);
        };
        if received.complete && request.uploading {
            // From here on the time is the server's.
            flight.sent = now.mono;
            request.uploading = false;
            let ordinal = flight.lane.ordinal;
            if let Some(variant) = self.variants.get_mut(request.variant) {
                variant.uploads = variant.uploads.saturating_sub(1);
                // The other workers learn it on the next check, at once.
                variant.slots.reported.stale = true;
                if !request.shape.stream {
                    variant.slots.clear_open_ended(ordinal);
                }
            }
        }
        BodyVerdict::Follows
    }

    /// Handles a chunk of the body of a request that is received or waits.
    fn on_held_body(
        &mut self,
        stream: StreamId,
        received: BodyChunk,
        source: impl FnMut(StreamId) -> Option<u64>,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Option<Verdict> {
        let request = self.requests.get_mut(&stream)?;
        match request.state {
            State::Held => {
                request.uploading &= !received.complete;
                let bytes = received.bytes.max(request.body.bytes);
                if bytes > self.config.body.request_max && !received.complete {
                    return Some(self.refuse_held(stream, Limit::RequestBytes, now.mono));
                }
                if let Err(limit) = self.hold_bytes(stream, bytes, source, now, verdicts) {
                    return Some(self.refuse_held(stream, limit, now.mono));
                }
                return Some(Verdict::Park);
            }
            State::Receiving { .. } | State::InFlight(_) => {}
        }
        if !received.complete && received.bytes <= self.config.body.request_max {
            return Some(
                match self.hold_bytes(stream, received.bytes, source, now, verdicts) {
                    Ok(()) => Verdict::Park,
                    Err(limit) => self.refuse_held(stream, limit, now.mono),
                },
            );
        }
        if request.deadline.at <= now.mono {
            // The timer that would have ended it counts whole ms.
            let counts_as_demand = request.counts_as_demand;
            self.count_unservable(counts_as_demand);
            return Some(self.refuse_held(stream, Reason::Expired, now.mono));
        }
        let mut request = self.leave_receiving(stream)?;
        let mut body = request.body;
        request.uploading = !received.complete;
        if received.complete {
            // With trailers the end comes without a length.
            request.size = Size::of(received.bytes.max(body.bytes));
        }
        let verdict = self.admit_stream(stream, request, now, verdicts);
        match &verdict {
            Verdict::Park => {
                // With trailers the end comes without a length.
                let bytes = received.bytes.max(body.bytes);
                if let Err(limit) = self.hold_bytes(stream, bytes, source, now, verdicts) {
                    return Some(self.refuse_held(stream, limit, now.mono));
                }
            }
            Verdict::Reject(_) => self.ledger.release(&mut body),
            Verdict::Forward(_) | Verdict::Pass | Verdict::PassTo(_) => {}
        }
        Some(verdict)
    }

    /// Stops waiting for bodies, because Envoy does not deliver them: requests that wait for theirs are
    /// admitted as they are, later ones with their headers.
    pub fn stop_receiving(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        let streams: Vec<StreamId> = self.receiving.streams().collect();
        for stream in streams {
            let Some(mut request) = self.leave_receiving(stream) else {
                continue;
            };
            request.uploading = false;
            self.ledger.release(&mut request.body);
            match self.admit(stream, request, now, verdicts) {
                Verdict::Park => {}
                verdict => verdicts.push((stream, verdict)),
            }
        }
    }

    /// Requests whose bodies are incoming.
    #[must_use]
    pub fn receiving(&self) -> usize {
        self.receiving.len()
    }

    /// Bytes of bodies held in total.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        self.ledger.all()
    }

    /// Checks a request whose body is incoming; refuses it if no variant could answer in time.
    pub(super) fn check_receiving(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(mut request) = self.requests.get(&stream).cloned() else {
            return;
        };
        self.sample_delayed(&request, now.mono);
        // Predictions may have changed since it came.
        let quickest = self.quickest(&request, now);
        let until = quickest.map_or(Mono(0), |quickest| latest_start(request.due, quickest));
        if until >= now.mono {
            self.schedule_check(stream, request, now.mono, until);
            return;
        }
        self.count_unservable(request.counts_as_demand);
        self.record_skips(&mut request, now);
        if let Some(known) = self.requests.get_mut(&stream) {
            known.list = request.list;
        }
        let verdict = self.refuse_held(stream, Reason::Expired, now.mono);
        verdicts.push((stream, verdict));
    }

    /// Removes a request from those with incoming bodies, and returns it.
    pub(super) fn leave_receiving(&mut self, stream: StreamId) -> Option<Request> {
        let request = self.requests.get(&stream)?;
        let State::Receiving { check_at } = request.state else {
            return None;
        };
        let request = self.requests.remove(&stream)?;
        self.forget_receiving(stream, &request, check_at);
        Some(request)
    }

    /// Forgets what was kept of a request while its body was incoming.
    pub(super) fn forget_receiving(&mut self, stream: StreamId, request: &Request, check_at: Mono) {
        self.timers.cancel(check_at, stream);
        self.receiving.remove(request.arrival);
    }

    /// Admits a request whose body may be incomplete. One that is too large must not wait for a slot, because
    /// its body would need unlimited memory; a stream by its path may.
    fn admit_stream(
        &mut self,
        stream: StreamId,
        request: Request,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        let must_leave = request.uploading && !request.shape.upload;
        match self.admit(stream, request, now, verdicts) {
            Verdict::Park if must_leave => {
                let variant = self.requests.get(&stream).map(|request| request.variant);
                let verdict = self.refuse_held(stream, Limit::RequestBytes, now.mono);
                if let Some(variant) = variant {
                    // No slot stays reserved for it at the other workers.
                    self.acquire_slots(variant, Asking::Nobody, false, now.mono);
                }
                verdict
            }
            verdict => verdict,
        }
    }

    /// Holds `bytes` bytes of a request's body. At the limit of all bytes, the requests whose bodies have been
    /// incoming for the longest are evicted.
    ///
    /// # Errors
    /// The limit that would be exceeded.
    fn hold_bytes(
        &mut self,
        stream: StreamId,
        bytes: u64,
        source: impl FnMut(StreamId) -> Option<u64>,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Result<(), Limit> {
        let Some(request) = self.requests.get(&stream) else {
            return Ok(());
        };
        if bytes == request.body.bytes {
            return Ok(());
        }
        if !self.ledger.fits(&request.body, bytes, &self.config.body) {
            self.lookup_sources(stream, source);
        }
        let Some(request) = self.requests.get(&stream) else {
            return Ok(());
        };
        let mut share = request.body;
        let result = loop {
            match self.ledger.check(&share, bytes, &self.config.body) {
                Ok(()) => break Ok(()),
                Err(LimitExceeded::Source) => break Err(Limit::SourceBytes),
                Err(LimitExceeded::All) if !self.evict_oldest_but(stream, now, verdicts) => {
                    break Err(Limit::TotalBytes);
                }
                Err(LimitExceeded::All) => {}
            }
        };
        if result.is_ok() {
            self.ledger.set(&mut share, bytes);
        }
        if let Some(request) = self.requests.get_mut(&stream) {
            request.body = share;
        }
        result
    }

    /// Looks up the source of this request, and of all other requests with bytes held, if still unknown.
    fn lookup_sources(
        &mut self,
        stream: StreamId,
        mut source: impl FnMut(StreamId) -> Option<u64>,
    ) {
        if self.ledger.has_unknown_sources() {
            let held = |(_, request): &(&StreamId, &mut Request)| request.body.bytes > 0;
            for (stream, request) in self.requests.iter_mut().filter(held) {
                if !request.body.source_known {
                    self.ledger.set_source(&mut request.body, source(*stream));
                }
            }
        }
        if let Some(request) = self.requests.get_mut(&stream)
            && !request.body.source_known
        {
            self.ledger.set_source(&mut request.body, source(stream));
        }
    }

    /// Refuses the request whose body has been incoming for the longest, unless it is this one; returns whether
    /// it did.
    fn evict_oldest_but(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> bool {
        let other = self.receiving.oldest().filter(|oldest| *oldest != stream);
        if let Some(other) = other {
            verdicts.push((other, self.refuse_held(other, Limit::TotalBytes, now.mono)));
        }
        other.is_some()
    }

    /// Refuses a request that is received or waits.
    pub(super) fn refuse_held(
        &mut self,
        stream: StreamId,
        cause: impl Into<Cause>,
        now: Mono,
    ) -> Verdict {
        let request = match self.leave_receiving(stream) {
            Some(request) => request,
            None => match self.requests.remove(&stream) {
                Some(request) => {
                    self.leave_queue(stream, &request);
                    // The slot table must learn that it no longer waits.
                    if let Some(variant) = self.variants.get_mut(request.variant) {
                        variant.slots.reported.stale = true;
                    }
                    request
                }
                None => return Verdict::Park,
            },
        };
        self.refuse_waiting(&request, cause, now)
    }
}
