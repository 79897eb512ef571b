//! Requests whose bodies are still coming: gate_estimate, bounded, and admitted with their last byte.
//!
//! A request that has no body yet could not be worked on, so it owns no slot and stands before nobody. Its
//! deadline runs on: when no variant could finish it any more it is refused. Two kinds go upstream while
//! their bodies still come: those on a path configured as a stream, with their headers, and those larger
//! than [`Limits::request_max`](crate::request::body::Limits::request_max), once so much has come. They take a slot
//! each; together at most half of a variant's.

use std::time::Duration;

use crate::config::Role;
use crate::reason::Reason;
use crate::request::body::{BodyChunk, LimitExceeded};
use crate::slots::latest_start;
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::verdict::Verdict;

use super::{Engine, Request, State, StreamId};

/// The least time between two looks at a request whose body is coming.
const CHECK_PERIOD_MIN: Duration = Duration::from_millis(5);

impl Engine {
    /// Holds a request whose body is still to come, unless it is a stream, whose headers decide.
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
        let least = match self.quickest(&request, now) {
            Ok(least) => least,
            Err(reason) => {
                self.count_arrival(&request);
                return self.refuse(reason, request.refusal_context());
            }
        };
        if self.receiving.len() >= self.config.held_max
            && let Some(oldest) = self.receiving.oldest()
        {
            verdicts.push((
                oldest,
                self.refuse_held(oldest, Reason::QueueFull, now.mono),
            ));
        }
        self.receiving.add(request.arrival, stream);
        let until = latest_start(request.due, least);
        self.schedule_check(stream, request, now.mono, until);
        Verdict::Park
    }

    /// Sets when to check_at at a request again: when half of its time is gone, at the latest when no variant could
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

    /// Holds a body that has come to `bytes`, where it is not complete and no limit is near; `false`: it is for
    /// [`Engine::on_body`] to say. Most bodies come like this, and then need no clock.
    pub fn hold_body(&mut self, stream: StreamId, bytes: u64) -> bool {
        let limits = &self.config.body;
        let request = self.requests.get_mut(&stream);
        let Some(request) = request.filter(|of| matches!(of.state, State::Receiving { .. })) else {
            return false;
        };
        let holds =
            bytes <= limits.request_max && self.ledger.has_room(&request.body, bytes, limits);
        if holds {
            self.ledger.set(&mut request.body, bytes);
        }
        holds
    }

    /// A part of a request's body has come. `source` tells who sends a request's, and is incoming only where
    /// more bytes are held than one source may hold. `None`: the request is upstream, or none of ours; its body
    /// follows it.
    pub fn on_body(
        &mut self,
        stream: StreamId,
        received: BodyChunk,
        source: impl FnMut(StreamId) -> Option<u64>,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Option<Verdict> {
        let request = self.requests.get_mut(&stream)?;
        match &mut request.state {
            State::InFlight(flight) => {
                if received.complete && request.uploading {
                    // From here on the time is the server's.
                    flight.sent = now.mono;
                    request.uploading = false;
                    let ordinal = flight.lane.ordinal;
                    if let Some(variant) = self.variants.get_mut(request.variant) {
                        variant.uploads = variant.uploads.saturating_sub(1);
                        if !request.shape.stream {
                            variant.slots.clear_open_ended(ordinal);
                        }
                    }
                }
                return None;
            }
            State::Held => {
                request.uploading &= !received.complete;
                let bytes = received.bytes.max(request.body.bytes);
                if bytes > self.config.body.request_max && !received.complete {
                    return Some(self.refuse_held(stream, Reason::HeldBytes, now.mono));
                }
                if let Err(reason) = self.hold_bytes(stream, bytes, source, now, verdicts) {
                    return Some(self.refuse_held(stream, reason, now.mono));
                }
                return Some(Verdict::Park);
            }
            State::Receiving { .. } => {}
        }
        if !received.complete && received.bytes <= self.config.body.request_max {
            return Some(
                match self.hold_bytes(stream, received.bytes, source, now, verdicts) {
                    Ok(()) => Verdict::Park,
                    Err(reason) => self.refuse_held(stream, reason, now.mono),
                },
            );
        }
        if request.deadline.at <= now.mono {
            // The timer that would have ended it counts complete_at ms.
            let counts_as_demand = request.counts_as_demand;
            self.count_unservable(counts_as_demand);
            return Some(self.refuse_held(stream, Reason::Expired, now.mono));
        }
        let mut request = self.leave_receiving(stream)?;
        let mut body = request.body;
        request.uploading = !received.complete;
        let verdict = self.admit_stream(stream, request, now, verdicts);
        match &verdict {
            Verdict::Park => {
                // With trailers the end comes without a length.
                let bytes = received.bytes.max(body.bytes);
                if let Err(reason) = self.hold_bytes(stream, bytes, source, now, verdicts) {
                    return Some(self.refuse_held(stream, reason, now.mono));
                }
            }
            Verdict::Reject(_) => self.ledger.release(&mut body),
            Verdict::Forward(_) | Verdict::Pass => {}
        }
        Some(verdict)
    }

    /// Bodies are not told of, as the shell has found out: all that are held for theirs are admitted as
    /// they are, and later ones with their headers.
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

    /// Requests whose bodies are still coming.
    #[must_use]
    pub fn receiving(&self) -> usize {
        self.receiving.len()
    }

    /// Bytes of bodies held, in all.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        self.ledger.all()
    }

    /// Looks at a request whose body is still coming; refuses it where that is too late for any variant to answer.
    pub(super) fn check_receiving(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(request) = self.requests.get(&stream).copied() else {
            return;
        };
        self.sample_delayed(&request, now.mono);
        // What the variants are predicted to take may be another than when it came.
        let least = self.quickest(&request, now);
        let until = least.map_or(Mono(0), |least| latest_start(request.due, least));
        if until >= now.mono {
            self.schedule_check(stream, request, now.mono, until);
            return;
        }
        self.count_unservable(request.counts_as_demand);
        let verdict = self.refuse_held(stream, Reason::Expired, now.mono);
        verdicts.push((stream, verdict));
    }

    /// Takes a request out of those that are received, with what is held of its body.
    pub(super) fn leave_receiving(&mut self, stream: StreamId) -> Option<Request> {
        let request = self.requests.get(&stream)?;
        let State::Receiving { check_at } = request.state else {
            return None;
        };
        self.timers.cancel(check_at, stream);
        self.receiving.remove(request.arrival);
        self.requests.remove(&stream)
    }

    /// Sends a request upstream before its body is complete, or refuses it: one that is too large is not
    /// held for a slot, because its body would have to be held without a limit. A stream by its path is.
    fn admit_stream(
        &mut self,
        stream: StreamId,
        request: Request,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        match self.admit(stream, request, now, verdicts) {
            Verdict::Park if request.uploading && !request.shape.upload => {
                self.refuse_held(stream, Reason::HeldBytes, now.mono)
            }
            verdict => verdict,
        }
    }

    /// Whether a variant has as many streams as it may: half of its slots, divided among the workers, and
    /// one in any case.
    pub(super) fn exceeds_streams(&self, variant: VariantId) -> bool {
        self.variants.get(variant).is_some_and(|variant| {
            let most = variant.slots.total() / 2 / self.workers.max(1);
            variant.uploads >= most.max(1)
        })
    }

    /// Holds so many bytes of a request's body. At the limit of all, those that have been coming for the
    /// longest make room.
    ///
    /// # Errors
    /// The limit that leaves no room.
    fn hold_bytes(
        &mut self,
        stream: StreamId,
        bytes: u64,
        source: impl FnMut(StreamId) -> Option<u64>,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Result<(), Reason> {
        let Some(request) = self.requests.get(&stream) else {
            return Ok(());
        };
        if bytes == request.body.bytes {
            return Ok(());
        }
        if !self
            .ledger
            .has_room(&request.body, bytes, &self.config.body)
        {
            self.look_up_sources(stream, source);
        }
        let Some(request) = self.requests.get(&stream) else {
            return Ok(());
        };
        let mut share = request.body;
        let room = loop {
            match self.ledger.check(&share, bytes, &self.config.body) {
                Ok(()) => break Ok(()),
                Err(LimitExceeded::Source) => break Err(Reason::SourceLimit),
                Err(LimitExceeded::All) if !self.evict_oldest_but(stream, now, verdicts) => {
                    break Err(Reason::HeldBytes);
                }
                Err(LimitExceeded::All) => {}
            }
        };
        if room.is_ok() {
            self.ledger.set(&mut share, bytes);
        }
        if let Some(request) = self.requests.get_mut(&stream) {
            request.body = share;
        }
        room
    }

    /// Asks for the source of this request, and of all others of which bytes are held, where nobody has.
    fn look_up_sources(
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

    /// Refuses the request whose body has been coming for the longest, unless it is this one; whether it
    /// did.
    fn evict_oldest_but(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> bool {
        let other = self.receiving.oldest().filter(|oldest| *oldest != stream);
        if let Some(other) = other {
            verdicts.push((other, self.refuse_held(other, Reason::HeldBytes, now.mono)));
        }
        other.is_some()
    }

    /// Refuses a request that is received or waits.
    pub(super) fn refuse_held(&mut self, stream: StreamId, reason: Reason, now: Mono) -> Verdict {
        let request = match self.leave_receiving(stream) {
            Some(request) => request,
            None => match self.requests.remove(&stream) {
                Some(request) => {
                    self.leave_queue(&request);
                    // The slot table has yet to record_gate_estimate that it waits no more.
                    if let Some(variant) = self.variants.get_mut(request.variant) {
                        variant.slots.reported.stale = true;
                    }
                    request
                }
                None => return Verdict::Park,
            },
        };
        self.refuse_waiting(&request, reason, now)
    }
}
