//! Slots: acquisition from the slot table, and dispatch of waiting requests.

mod acquisition;

use weir_api::metrics::Metric;

pub(super) use self::acquisition::Asking;
use self::acquisition::{AcquireParams, Newcomer};
use super::explain::Cause;
use super::{Engine, LanePosition, Request, StreamId};
use crate::coordination::SyncResult;
use crate::coordination::lead::LeadTimes;
use crate::reason::Reason;
use crate::routing::group_times::Group;
use crate::slots::latest_start;
use crate::stats::Label;
use crate::time::{Mono, Now, Span};
use crate::variant::VariantId;
use crate::verdict::Verdict;

impl Engine {
    /// Dispatches waiting requests of all variants, on a tick or a notification.
    pub(super) fn dispatch_all(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if !self.owns_slots() {
            return;
        }
        // First pass: downgrade overdue requests, so that they compete in their new queue before slots are
        // granted there.
        let mut evicted = false;
        for index in 0..self.variants.len() {
            evicted |= self.evict_overdue(VariantId(index), now, verdicts);
        }
        for index in 0..self.variants.len() {
            if evicted {
                self.evict_overdue(VariantId(index), now, verdicts);
            }
            self.dispatch_granted(VariantId(index), true, now, verdicts);
        }
        self.dispatch_dirty(now, verdicts);
    }

    /// Dispatches waiting requests of a variant, and of those to which requests were downgraded from it.
    pub(super) fn dispatch_variant(
        &mut self,
        id: VariantId,
        tick: bool,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.dispatch_waiting(id, tick, now, verdicts);
        self.dispatch_dirty(now, verdicts);
    }

    /// Terminates: a downgraded request is not moved again at the same moment.
    fn dispatch_dirty(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        while let Some(id) = self.dirty_variants.pop() {
            self.dispatch_waiting(id, false, now, verdicts);
        }
    }

    /// Downgrades or refuses overdue requests, updates the slot table, and dispatches the requests granted.
    /// `tick`: on a tick or a notification.
    fn dispatch_waiting(
        &mut self,
        id: VariantId,
        tick: bool,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.evict_overdue(id, now, verdicts);
        self.dispatch_granted(id, tick, now, verdicts);
    }

    /// Updates the slot table, and dispatches the requests granted.
    fn dispatch_granted(
        &mut self,
        id: VariantId,
        tick: bool,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let synced = self
            .variants
            .get(id)
            .is_none_or(|variant| variant.slots.is_synced());
        if synced {
            return;
        }
        let granted = self.acquire_slots(id, Asking::Waiting, tick, now.mono);
        for place in 0..granted {
            let Some(variant) = self.variants.get_mut(id) else {
                break;
            };
            let lane = LanePosition::new(&variant.slots.lanes.0, place, granted);
            let Some((_, _, stream)) = variant.slots.queue.pop() else {
                break;
            };
            let exceeds = self.granted_exceeds_uploads(stream, now.mono);
            if !self.leave_held(stream) {
                continue;
            }
            let verdict = match exceeds {
                Some(limit) => self.refuse_granted(stream, limit, now.mono),
                None => self.dispatch(stream, lane, now),
            };
            verdicts.push((stream, verdict));
        }
        self.count_batch(id, granted);
    }

    /// Expires orphaned slots, and downgrades or refuses overdue requests. Returns whether there were any of these.
    fn evict_overdue(
        &mut self,
        id: VariantId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> bool {
        let Some(variant) = self.variants.get_mut(id) else {
            return false;
        };
        variant.slots.expire_orphans(now.mono);
        variant.may_be_late(now.mono) && self.evict_late(id, now, verdicts)
    }

    /// Downgrades or refuses overdue requests; returns whether there were any. Apart, because in most cases there are
    /// none.
    #[inline(never)]
    fn evict_late(
        &mut self,
        id: VariantId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> bool {
        let mut evicted = false;
        while let Some((stream, needed)) = self.overdue(id, now.mono) {
            self.downgrade_or_refuse(stream, needed, now, verdicts);
            evicted = true;
        }
        evicted
    }

    /// Downgrades or refuses a request that needs that much time at its variant, and has not.
    fn downgrade_or_refuse(
        &mut self,
        stream: StreamId,
        needed: Span,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.leave_held(stream);
        let Some(mut request) = self.requests.remove(&stream) else {
            return;
        };
        // Two queues could hand it to each other for ever.
        let may_move = request.due > now.mono && request.moved_at != Some(now.mono);
        let to = may_move.then(|| self.downgrade_target(&mut request, now));
        // If only the downstream time is left, the deadline has not expired yet.
        let cause = if request.deadline.at <= now.mono {
            Cause::Reason(Reason::Expired)
        } else {
            Cause::Late(needed)
        };
        match to.flatten() {
            Some(to) => {
                request.variant = to;
                request.moved_at = Some(now.mono);
                self.park(stream, request);
                if !self.dirty_variants.contains(&to) {
                    self.dirty_variants.push(to);
                }
            }
            None => verdicts.push((stream, self.refuse_waiting(&request, cause, now.mono))),
        }
    }

    /// Expires orphaned slots, and returns whether a new request goes before all that wait.
    pub(super) fn is_next(&mut self, request: &Request, now: Mono) -> bool {
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return false;
        };
        variant.slots.expire_orphans(now);
        variant.slots.queue.is_next(request.class, request.place())
    }

    /// Acquires a slot for a new request that goes before all that wait; `explores`: although others wait, and beyond the
    /// limit.
    pub(super) fn acquire_for(
        &mut self,
        request: &Request,
        explores: bool,
        now: Mono,
    ) -> Option<LanePosition> {
        let variant = self.variants.get(request.variant)?;
        let uploads = request
            .uploading
            .then(|| variant.uploads_max(request.shape.upload));
        let newcomer = Newcomer {
            at: (request.class, request.place()),
            uploads_max: uploads,
        };
        let asking = if explores {
            Asking::Explorer(newcomer)
        } else {
            Asking::Newcomer(newcomer)
        };
        let granted = self.acquire_slots(request.variant, asking, false, now);
        if granted == 0 {
            return None;
        }
        let variant = self.variants.get_mut(request.variant)?;
        variant.slots.queue.charge(request.class);
        Some(LanePosition::new(&variant.slots.lanes.0, 0, granted))
    }

    /// Updates the slot table for a variant and acquires slots; a newcomer goes before the queue. Returns the
    /// number granted; the variant has the lane report.
    pub(super) fn acquire_slots(
        &mut self,
        id: VariantId,
        asking: Asking,
        tick: bool,
        now: Mono,
    ) -> u32 {
        let uploads_max = asking.newcomer().and_then(|newcomer| newcomer.uploads_max);
        let newcomer = asking.newcomer().map(|newcomer| newcomer.at);
        if newcomer.is_none() && self.publish_if_full(id, now) {
            return 0;
        }
        let Some(variant) = self.variants.get_mut(id) else {
            return 0;
        };
        let more = u32::from(newcomer.is_some());
        let waiting_count = u32::try_from(variant.slots.queue.len()).unwrap_or(u32::MAX);
        let params = AcquireParams {
            waiting_count: waiting_count.saturating_add(more),
            // Without a window a request leaves as soon as a slot is free, and the server makes the batches.
            batch: self.config.batch_wait.map_or(1, |_| variant.batch),
            due: variant.batch_due(self.config.batch_wait, now),
            limit: asking.limit(),
            uploads_max,
            explores: match asking {
                Asking::Explorer(_) => true,
                Asking::Waiting => variant.head_explores(now),
                Asking::Nobody | Asking::Newcomer(_) => false,
            },
            jumps: matches!(asking, Asking::Explorer(_)),
            limit_max: self.config.concurrency_max * u32::from(self.config.correct),
            batches: variant.batch > 1 && self.config.batch_wait.is_none(),
            tick,
            overlaps: self.config.overlap,
        };
        let queue = &variant.slots.queue;
        let worker = &mut self.worker;
        // Each kind of order has its own copy of all that an acquisition does, so there are but two.
        let outcome = match queue.single_class_order(newcomer) {
            Some(order) => params.acquire(worker, variant, order, now),
            None => params.acquire(worker, variant, queue.order(newcomer), now),
        };
        let slots = &mut variant.slots;
        // The rest of a batch that a newcomer has closed leaves on the next check, at once.
        slots.reported.stale = outcome.contended || outcome.more;
        if !outcome.contended {
            slots.reported.head = outcome.head;
            slots.reported.taken = slots.taken().saturating_add(outcome.granted);
            slots.others = outcome.others;
            slots.lanes = (outcome.lanes, now);
            slots.reported.at = now;
            let lead = self.worker.lead(variant.key, variant.planned);
            let lead = lead.filter(|lead| outcome.lanes.known && lead != variant.lead.measured());
            if let Some(lead) = lead {
                variant.lead = LeadTimes::new(lead);
            }
            if let Some((limit, curve)) = self.worker.curve(variant.key) {
                slots.set_limit(&limit);
                variant.adopt_curve(curve, self.config.correct, now);
            }
            let slots = &mut variant.slots;
            slots.mark_reported();
            variant.ended.clear();
        }
        if outcome.granted > 0 {
            variant.batch_open_since = outcome.head.map(|_| now);
        }
        self.count(&outcome);
        if let Some(full) = outcome.full {
            let label = Label::Variant(id);
            let us = i64::try_from(full.time.as_micros()).unwrap_or(i64::MAX);
            self.stats.by(Metric::FullUs, label, us);
            let ended = i64::from(full.ended);
            self.stats.by(Metric::FullExecutions, label, ended);
        }
        self.record_service_time(id, outcome.lanes.began, now);
        outcome.granted
    }

    pub(super) fn count(&mut self, outcome: &SyncResult) {
        if outcome.conflicts > 0 {
            let lost = i64::from(outcome.conflicts);
            self.stats.by(Metric::CasConflicts, Label::None, lost);
        }
        if outcome.reset {
            self.stats.count(Metric::SlotTableResets, Label::None);
        }
        if let Some(idle) = outcome.idle {
            self.stats.micros(Metric::HandoverUs, Label::None, idle);
        }
    }

    fn count_batch(&mut self, id: VariantId, granted: u32) {
        let batches = self
            .variants
            .get(id)
            .is_some_and(|variant| variant.batch > 1);
        if granted > 0 && batches {
            let fill = u64::from(granted);
            self.stats
                .value(Metric::BatchRequests, Label::Variant(id), fill);
        }
    }

    /// Removes an overdue request from a variant's queue: by the end of the variant's own budget, or by its deadline.
    /// Returns it with the time that it needs there.
    fn overdue(&mut self, id: VariantId, now: Mono) -> Option<(StreamId, Span)> {
        let variant = self.variants.get_mut(id)?;
        if variant.slots.queue.is_empty() {
            return None;
        }
        let begins = variant.must_begin(now);
        let needs_safe = variant.needs_safe(begins);
        let (groups, common) = (&variant.group_times, variant.next_predicted(now));
        let scale = variant.scale();
        let service = |group: Group| {
            let of_group = groups.of(group);
            let predicted = of_group.map_or(common, |of_group| scale.of(of_group, common));
            if needs_safe {
                predicted.safe
            } else {
                predicted.high
            }
        };
        let late = |group: Group, deadline| {
            deadline <= now || latest_start(deadline, service(group)) < begins
        };
        let needed = |group: Group| begins.since(now) + service(group);
        let expires = variant.expiries.first();
        let expires =
            expires.and_then(|(at, stream)| Some((at, stream, self.requests.get(&stream)?)));
        let expired = expires.filter(|(at, _, request)| late(request.group(), *at));
        if let Some((_, stream, request)) = expired {
            let needed = needed(request.group());
            variant.slots.queue.cancel(request.class, request.place());
            variant.slots.queue.set_contended();
            return Some((stream, needed));
        }
        let (class, place, stream) = variant
            .slots
            .queue
            .pop_where(|class, place| late(Group::waiting(class, place), place.deadline))?;
        Some((stream, needed(Group::waiting(class, place))))
    }
}
