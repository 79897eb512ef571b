//! Admission: a request is routed, then dispatched or held.

use weir_api::metrics::Metric;

use super::slots::Asking;
use super::{Engine, LanePosition, Request, State, StreamId};
use crate::config::Role;
use crate::reason::Reason;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::verdict::Verdict;
use crate::waiting::wait_queue::SchedulerState;

impl Engine {
    /// Routes a request, then sends it upstream, or holds it if no slot is available.
    pub(super) fn admit(
        &mut self,
        stream: StreamId,
        mut request: Request,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Verdict {
        request.complete_at = now.mono;
        self.count_arrival(&request);
        self.refresh_other_workers(false, now.mono);
        let mut chosen = self.choose(&mut request, true, now);
        if chosen == Err(Reason::Infeasible) && self.refresh_other_workers(true, now.mono) {
            chosen = self.choose(&mut request, true, now);
        }
        let tried = (chosen == Err(Reason::Infeasible)).then(|| self.try_idle(&request, now.mono));
        request.variant = match tried.flatten().map_or(chosen, Ok) {
            Ok(variant) => variant,
            Err(reason) => {
                let refusal = self.refuse_new(reason, &request, now.mono);
                if reason != Reason::QueueFull {
                    self.variants
                        .mark_contended(request.requirements(now.mono), now.mono);
                }
                return refusal;
            }
        };
        if let Some(limit) = self.exceeds_uploads(&request, now.mono) {
            return self.refuse_new(limit, &request, now.mono);
        }
        if self.config.role != Role::Gate {
            let variant = Label::Variant(request.variant);
            self.stats.count(Metric::Requests, variant);
        }
        if !self.owns_slots() {
            // It asks for no slot, but counts among the serving workers.
            self.worker.mark_serving();
        }
        let explores = self.owns_slots() && self.explores(&request, now.mono);
        let is_next = self.owns_slots() && (explores || self.is_next(&request, now.mono));
        let mut lane = match self.owns_slots() {
            true if is_next => self.acquire_for(&request, explores, now.mono),
            true => None,
            false => Some(LanePosition::default()),
        };
        // Acquiring has refreshed the usage of the other workers.
        let may_be_late = is_next && lane.is_none() && self.config.overlap;
        if may_be_late && self.is_infeasible(&request, now.mono) {
            self.acquire_slots(request.variant, Asking::Nobody, false, now.mono);
            let Some(to) = self.downgrade_target(&mut request, now) else {
                let refusal = self.refuse_new(Reason::Infeasible, &request, now.mono);
                self.variants
                    .mark_contended(request.requirements(now.mono), now.mono);
                return refusal;
            };
            request.variant = to;
            if self.is_next(&request, now.mono) {
                lane = self.acquire_for(&request, false, now.mono);
            }
        }
        if let Some(lane) = lane {
            self.count_admitted(&request);
            self.requests.insert(stream, request);
            return self.dispatch(stream, lane, now);
        }
        if let Err(limit) = self.evict_for(&request, verdicts) {
            self.retract(&request, now);
            return self.refuse_new(limit, &request, now.mono);
        }
        self.count_admitted(&request);
        let variant = request.variant;
        self.park(stream, request);
        if self.workers > 1 && self.config.overlap {
            // Other workers' forecasts include it.
            self.acquire_slots(variant, Asking::Nobody, false, now.mono);
        }
        Verdict::Park
    }

    /// Whether a new request is sent beyond its variant's limit, to learn what its servers do with more in flight.
    fn explores(&self, request: &Request, now: Mono) -> bool {
        let left = request.requirements(now).left_for(request.variant);
        let variant = self.variants.get(request.variant);
        variant.zip(left).is_some_and(|(variant, left)| {
            // It would only go before those that wait, if these have time for it.
            variant.slots.may_explore()
                && variant.full_of(request.group()).high <= left
                && !variant.head_explores(now)
        })
    }

    /// Whether a request cannot be answered in time at its variant.
    fn is_infeasible(&self, request: &Request, now: Mono) -> bool {
        let (class, place) = (request.class, request.place());
        let variant = self.variants.get(request.variant);
        let left = request.requirements(now).left_for(request.variant);
        let late = |time| left.is_none_or(|left| time > left);
        variant.is_some_and(|variant| late(variant.response_time(class, place, now)))
    }

    /// Refreshes the usage of other workers if it is old and matters; returns whether it did.
    fn refresh_other_workers(&mut self, refuses: bool, now: Mono) -> bool {
        let refuses = refuses && self.workers > 1;
        let stale = (self.variants.iter()).any(|variant| variant.is_stale(refuses, now));
        if !stale || !self.owns_slots() || !self.worker.load() {
            return false;
        }
        for index in 0..self.variants.len() {
            self.adopt_usage(VariantId(index), now);
        }
        true
    }

    /// Reads the usage of a variant by the other workers; returns whether that could be.
    pub(super) fn read_usage(&mut self, id: VariantId, now: Mono) -> bool {
        let is_read = self.worker.load();
        if is_read {
            self.adopt_usage(id, now);
        }
        is_read
    }

    /// Takes over the usage of a variant by the other workers, by the slot table as last loaded.
    fn adopt_usage(&mut self, id: VariantId, now: Mono) {
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        let (taken, mean) = (variant.slots.taken(), variant.full.mean);
        let seen = self.worker.view(variant.key, taken, mean, now);
        if let Some((others, busy)) = seen {
            variant.slots.set_other_workers(others, busy, now);
        }
        if let Some((limit, curve)) = self.worker.curve(variant.key) {
            variant.slots.set_limit(&limit);
            variant.adopt_curve(curve, self.config.correct, now);
        }
    }

    /// Counts an admission. `admitted` is counted by the slot owner (gate or combined), `routed` by the router.
    fn count_admitted(&mut self, request: &Request) {
        if self.owns_slots() {
            self.stats.count(Metric::Admitted, Label::None);
            self.count_class(Metric::ClassAdmitted, request.class);
        }
    }

    /// Updates the slot table after a request that it was expected_head of is not held after all.
    fn retract(&mut self, request: &Request, now: Now) {
        let Some(variant) = self.variants.get(request.variant) else {
            return;
        };
        let slots = &variant.slots;
        let expected_head = slots.queue.urgency(request.class, request.place());
        if slots.reported.head == Some(expected_head) {
            self.acquire_slots(request.variant, Asking::Nobody, false, now.mono);
        }
    }

    pub(super) fn park(&mut self, stream: StreamId, mut request: Request) {
        request.state = State::Held;
        self.enter_queue(stream, &request, None);
        self.held.enter(request.class);
        self.requests.insert(stream, request);
    }

    /// Puts a request into the wait queue of its variant; `from`: state of the class scheduler where it waited
    /// before.
    pub(super) fn enter_queue(
        &mut self,
        stream: StreamId,
        request: &Request,
        from: Option<&SchedulerState>,
    ) {
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return;
        };
        variant.batch_open_since.get_or_insert(request.complete_at);
        // It may complete a batch, which then leaves on the next check, at once.
        variant.slots.reported.stale |= variant.batch > 1;
        let (class, place) = (request.class, request.place());
        let ahead = variant.slots.queue.ahead(class, place);
        variant.slots.record_rank(ahead);
        variant.expiries.enter(stream, request);
        match from {
            None => variant.slots.queue.push(class, place, stream),
            Some(from) => variant.slots.queue.push_from(from, class, place, stream),
        }
    }

    pub(super) fn leave_queue(&mut self, stream: StreamId, request: &Request) {
        let variant = self.variants.get_mut(request.variant);
        let was_queued = variant.is_some_and(|variant| {
            variant.expiries.leave(stream, request);
            let queue = &mut variant.slots.queue;
            queue.cancel(request.class, request.place())
        });
        debug_assert!(was_queued, "a queued request that no queue knows");
        self.held.leave(request.class);
    }

    /// Records that a request has left its queue; returns whether the table has it.
    pub(super) fn leave_held(&mut self, stream: StreamId) -> bool {
        let Some(request) = self.requests.get(&stream) else {
            return false;
        };
        if let Some(variant) = self.variants.get_mut(request.variant) {
            variant.expiries.leave(stream, request);
        }
        self.held.leave(request.class);
        true
    }
}
