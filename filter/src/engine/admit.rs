//! What moves a request along: admitted, held, dispatched, landed.

use std::time::Duration;

use weir_api::metrics::Metric;

use super::{End, Engine, Flight, Launch, Request, State, StreamId, Who};
use crate::config::Role;
use crate::reason::Reason;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::verdict::{Dispatch, Refusal, Stage, Verdict};
use crate::waiting::class::ClassId;
use crate::waiting::wait_queue::Turns;

impl Engine {
    /// Routes a request and sends it upstream, or holds it where no slot is its to take.
    pub(super) fn admit(
        &mut self,
        stream: StreamId,
        mut request: Request,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        request.whole = now.mono;
        self.arrived(&request);
        self.look(now.mono);
        request.variant = match self.choose(&request, true, now) {
            Ok(variant) => variant,
            Err(reason) => {
                self.variants.contend(request.wish(now.mono));
                let variant = self.fronted(&request);
                let who = request.who();
                return self.refuse_new(reason, Who { variant, ..who });
            }
        };
        if request.uploads && self.owns_slots() && self.exceeds_streams(request.variant) {
            return self.refuse_new(Reason::QueueFull, request.who());
        }
        if self.config.role != Role::Gate {
            let variant = Label::Variant(request.variant);
            self.stats.count(Metric::Routed, variant);
        }
        if !self.owns_slots() {
            // It asks the board for nothing, but counts among those that serve.
            self.member.serve();
        }
        let mut launch = if self.owns_slots() {
            self.claim(&request, now.mono)
        } else {
            Some(Launch::default())
        };
        if launch.is_none() && self.config.overlap && self.is_hopeless(&request, now.mono) {
            // By what the claim has told of the other workers.
            self.settle(request.variant, None, 0, false, now.mono);
            let Some(to) = self.elsewhere(&request, now) else {
                self.variants.contend(request.wish(now.mono));
                return self.refuse_new(Reason::Infeasible, request.who());
            };
            request.variant = to;
            launch = self.claim(&request, now.mono);
        }
        if let Some(launch) = launch {
            self.admitted(&request);
            return self.dispatch(stream, request, launch, now);
        }
        if let Err(reason) = self.make_room(&request, verdicts) {
            self.take_back(&request, now);
            return self.refuse_new(reason, request.who());
        }
        self.admitted(&request);
        self.park(stream, request);
        if self.workers > 1 && self.config.overlap {
            // The others' forecasts count it.
            self.settle(request.variant, None, 0, false, now.mono);
        }
        Verdict::Park
    }

    /// Whether a request cannot be answered in time where it was to wait.
    fn is_hopeless(&self, request: &Request, now: Mono) -> bool {
        let (class, place) = (request.class, request.place());
        let variant = self.variants.get(request.variant);
        let left = request.due.since(now);
        variant.is_some_and(|variant| variant.takes(class, place, now) > left)
    }

    /// Learns what other workers have of the variants, where that is old and matters.
    fn look(&mut self, now: Mono) {
        let stale = self.variants.iter().any(|variant| variant.is_stale(now));
        if !stale || !self.config.overlap || !self.owns_slots() || !self.member.look() {
            return;
        }
        for index in 0..self.variants.len() {
            if let Some(variant) = self.variants.get_mut(VariantId(index)) {
                let (taken, mean) = (variant.gate.taken(), variant.predicted.mean);
                let seen = self.member.view(variant.key, taken, mean, now);
                if let Some((others, busy)) = seen {
                    variant.gate.see(others, busy, now);
                }
            }
        }
    }

    /// Refuses a request that has just become complete.
    fn refuse_new(&mut self, reason: Reason, who: Who) -> Verdict {
        self.stats
            .time(Metric::RefusedAfterMs, Label::None, Duration::ZERO);
        self.refuse(reason, who)
    }

    /// Who gives the slot admits, who chooses routes: before a gate that is somebody else.
    fn admitted(&mut self, request: &Request) {
        if self.owns_slots() {
            self.stats.count(Metric::Admitted, Label::None);
            self.count_class(Metric::ClassAdmitted, request.class);
        }
    }

    /// A request that was told to the board is not held after all.
    fn take_back(&mut self, request: &Request, now: Now) {
        let Some(variant) = self.variants.get(request.variant) else {
            return;
        };
        let gate = &variant.gate;
        let told = gate.room.order_with(request.class, request.place()).next();
        if gate.posted_head == told {
            self.settle(request.variant, None, 0, false, now.mono);
        }
    }

    pub(super) fn park(&mut self, stream: StreamId, mut request: Request) {
        request.state = State::Held;
        self.enter_room(stream, &request, None);
        self.held.enter(request.class);
        self.requests.insert(stream, request);
    }

    /// Puts a request into the room of its variant; `from`: it waited in another, where turns stood so.
    pub(super) fn enter_room(&mut self, stream: StreamId, request: &Request, from: Option<&Turns>) {
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return;
        };
        variant.company_since.get_or_insert(request.whole);
        // It may fill a batch, which then leaves from the next look, at once.
        variant.gate.unsettled |= variant.batch > 1;
        let (class, place) = (request.class, request.place());
        let ahead = variant.gate.room.ahead(class, place);
        variant.gate.note_rank(ahead);
        match from {
            None => variant.gate.room.push(class, place, stream),
            Some(from) => variant.gate.room.push_from(from, class, place, stream),
        }
    }

    pub(super) fn dispatch(
        &mut self,
        stream: StreamId,
        mut request: Request,
        launch: Launch,
        now: Now,
    ) -> Verdict {
        let owns_slots = self.owns_slots();
        let label = Label::Variant(request.variant);
        let moves_on = self.may_move_on(&request);
        // Each refused connection costs a retry.
        let others = if moves_on {
            self.variants.len().saturating_sub(1)
        } else {
            0
        };
        let others = u8::try_from(others).unwrap_or(u8::MAX);
        let retries_max = self.config.retries_max.max(others);
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return self.refuse(Reason::NoCapacity, request.who());
        };
        let remaining = request.deadline.at.since(now.mono);
        let stage = request.due.since(now.mono);
        if owns_slots {
            let lies = launch.lies.unwrap_or_default();
            variant.gate.take(now.mono + lies + variant.predicted.high);
            if request.uploads || request.shape.stream {
                variant.gate.set_endless(launch.ordinal);
            }
            variant.uploads += u32::from(request.uploads);
            self.stats.count(Metric::Dispatched, label);
            let waited = now.mono.since(request.whole);
            self.stats.time(Metric::WaitMs, Label::None, waited);
            self.stats.time(Metric::SlackMs, Label::None, stage);
        }
        request.state = State::InFlight(Flight {
            sent: now.mono,
            launch,
            planned: variant.planned,
            failed: false,
            answered: false,
            owns_slot: owns_slots,
        });
        self.timers.set(request.deadline.client_at, stream);
        self.ledger.release(&mut request.body);
        let class = self.class_names.get(usize::from(request.class.0));
        let class = class.filter(|_| request.renamed).cloned();
        let dispatch = Dispatch {
            variant: request.variant,
            name: variant.name.clone(),
            cluster: (self.config.role != Role::Gate).then(|| {
                let failover = variant.failover.as_ref().filter(|_| moves_on);
                failover.unwrap_or(&variant.cluster).clone()
            }),
            remaining,
            stage: match (self.rest.is_zero(), request.shape.stage) {
                (false, _) => Stage::Left(stage),
                (true, true) => Stage::Foreign,
                (true, false) => Stage::Absent,
            },
            timeout: (!request.shape.stream)
                .then(|| request.deadline.client_at.since(now.mono) + self.config.deadline.finish),
            deadline: request.deadline.client_wall,
            grpc_timeout: request.shape.grpc_timeout,
            class,
            retries_max,
        };
        self.requests.insert(stream, request);
        Verdict::Forward(dispatch)
    }

    pub(super) fn land(
        &mut self,
        stream: StreamId,
        request: &Request,
        flight: Flight,
        end: End,
        now: Now,
    ) {
        if !flight.answered {
            self.timers.cancel(request.deadline.client_at, stream);
        }
        if flight.owns_slot {
            self.free(stream, request, flight, end, now);
        }
        self.count_landed(request, flight, end, now);
    }

    /// The gates count what becomes of requests; a router before them only what it refuses itself.
    fn count_landed(&mut self, request: &Request, flight: Flight, end: End, now: Now) {
        let label = Label::Variant(request.variant);
        match end {
            _ if !self.owns_slots() => {
                if matches!(end, End::Failed | End::Unreachable) {
                    self.refused(Reason::NoBackend, request.class);
                }
            }
            End::Answered => {
                self.stats.count(Metric::Served, label);
                if now.mono > request.deadline.client_at {
                    self.stats.count(Metric::Late, label);
                } else if !flight.failed {
                    self.stats.count(Metric::OnTime, label);
                    self.count_class(Metric::ClassOnTime, request.class);
                }
            }
            End::Failed | End::Unreachable => self.refused(Reason::NoBackend, request.class),
            End::TimedOut => self.refused(Reason::Expired, request.class),
            End::Gone => self.stats.count(Metric::Gone, Label::None),
        }
    }

    pub(super) fn leave_room(&mut self, request: &Request) {
        let variant = self.variants.get_mut(request.variant);
        let was_there = variant.is_some_and(|variant| {
            let room = &mut variant.gate.room;
            room.cancel(request.class, request.place())
        });
        debug_assert!(was_there, "a held request that no room knows");
        self.held.leave(request.class);
    }

    pub(super) fn forget_held(&mut self, stream: StreamId) -> Option<Request> {
        let request = self.requests.remove(&stream)?;
        self.held.leave(request.class);
        Some(request)
    }

    /// Refuses a request that was held: what is held of its body goes.
    pub(super) fn turn_away(&mut self, request: &Request, reason: Reason, now: Mono) -> Verdict {
        if matches!(request.state, State::Held) {
            let after = now.since(request.whole);
            self.stats.time(Metric::RefusedAfterMs, Label::None, after);
        }
        let mut body = request.body;
        self.ledger.release(&mut body);
        self.refuse(reason, request.who())
    }

    pub(super) fn refuse(&mut self, reason: Reason, who: Who) -> Verdict {
        self.refused(reason, who.class);
        self.refusal(reason, who)
    }

    /// A refusal that has been counted.
    pub(super) fn refusal(&self, reason: Reason, who: Who) -> Verdict {
        let gate = self.config.role == Role::Gate;
        let variant = who.variant.filter(|_| gate);
        let variant = variant.and_then(|id| self.variants.get(id));
        Verdict::Reject(Refusal {
            expected: variant.map(|variant| variant.expected(variant.gate.sent.1)),
            ..Refusal::new(reason, who.grpc)
        })
    }

    fn refused(&mut self, reason: Reason, class: ClassId) {
        self.stats.count(Metric::Refused, Label::Reason(reason));
        self.count_class(Metric::ClassRefused, class);
    }
}
