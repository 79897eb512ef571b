//! What moves a request along: admitted, held, dispatched, landed.

use weir_api::metrics::Metric;

use super::{Engine, Launch, Request, State, StreamId, Who};
use crate::config::Role;
use crate::reason::Reason;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::verdict::Verdict;
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
}
