//! Acquisition of slots in the slot table.

use super::batch::Batch;
use super::lane_scan::LaneScan;
use super::{
    AcquireRequest, AcquireResult, FullTime, LaneRequest, OtherWorkers, SlotTable, Timeouts,
};
use crate::priority::Urgency;
use crate::time::{Mono, Span};

/// Longest time with all slots taken that one end of an execution counts: a worker that died may have left them taken.
const FULL_MAX: Span = Span::from_secs(60);

impl SlotTable {
    /// Publishes this worker's usage of one variant and acquires the free slots it is entitled to: those not
    /// reserved for a worker with a more urgent request. A notified worker that does not acquire within `grace`
    /// loses its reservation. With batches, no request leaves before its batch is closed. Returns `None` if the
    /// table is full.
    pub fn acquire<W: Iterator<Item = Urgency> + Clone>(
        &mut self,
        incarnation: u64,
        request: &AcquireRequest<'_, W>,
        now: Mono,
        timeouts: &Timeouts,
    ) -> Option<AcquireResult> {
        let own = self.assign_row(incarnation, now)?;
        let column = self.assign_column(request.variant, now, timeouts)?;
        let mut result = AcquireResult {
            others: self.other_workers(own, column, now),
            changed: self.renew_row(own, now, timeouts)
                | self.clear_notification(own)
                | self.touch_column(column, now, timeouts),
            ..AcquireResult::default()
        };
        let slots = self.limit(column, request, &mut result.changed);
        let idle_since = self.columns.get(column)?.idle_since;
        let quarantined = now < self.quarantine_until;
        let before = request.taken.saturating_add(result.others.taken);
        let mut scan = LaneScan::default();
        if let Some(lanes) = &request.lanes {
            let (began, left, news) = self.update_runs(column, lanes, slots, before, now);
            result.lanes.began = began;
            result.changed |= news;
            scan = left;
        }
        result.changed |= self.record_curve(column, request.executions, before);
        let is_measuring = self.columns.get(column)?.limit.is_measuring();
        let ending = if is_measuring {
            0
        } else {
            scan.ending.min(slots)
        };
        let mut free = free((request, slots), result.others, ending, quarantined);
        let uploads = request.uploads.saturating_add(result.others.uploads);
        if request.uploads_max.is_some_and(|max| uploads >= max) {
            free = 0;
        }
        let mut batch = self.batch_of(own, column, request, result.others);
        let mut waiting = request.waiting.clone();
        let mut head = waiting.next();
        while let Some(urgency) = head {
            if free == 0 || result.granted == request.limit || !batch.may_leave(head) {
                break;
            }
            // In quarantine no slot changes hands, so a worker with a more urgent request cannot use ours.
            let yields = !quarantined && !request.jumps;
            if yields && self.is_reserved_for_other(own, column, urgency, now, timeouts) {
                break;
            }
            batch.leave();
            free -= 1;
            result.granted += 1;
            head = waiting.next();
        }
        if result.granted > 0 {
            if let Some(state) = self.columns.get_mut(column) {
                state.curve.send(result.granted, before, now);
            }
            // Also if the usage is the same as before the executions that ended: the ordinals are not.
            result.changed = true;
            result.idle = idle_since.map(|since| now.since(since));
        }
        // Applies to other workers' requests too if none waits here.
        let may_leave = free > 0 && batch.may_leave(head);
        result.more =
            may_leave && !batch.is_single() && result.granted == request.limit && head.is_some();
        if let Some(lanes) = &request.lanes {
            self.update_lanes((column, scan), slots, lanes, before, &mut result, now);
        }
        // Wait forecasts need exact counts.
        let exact = !batch.is_single() || request.lanes.is_some();
        let (tick, usage) = (request.tick, request.usage(result.granted, now, timeouts));
        result.usage = usage;
        result.changed |= self.set_usage(own, column, usage, exact);
        result.changed |= self.note_open(column, batch.open());
        result.changed |= self.note_idle(own, column, may_leave, now);
        if let Some(lanes) = &request.lanes {
            let taken = before.saturating_add(result.granted);
            let ended = lanes.ended.len() as u32;
            // The first answer of a batch frees a slot that no other batch can use.
            // On trial the limit is not what the servers sustain.
            let is_trial = (self.columns.get(column)).is_some_and(|it| it.limit.is_on_trial());
            let counts = batch.is_single() && !is_trial;
            let slots = if counts { slots } else { 0 };
            let (full, changed) = self.note_full(column, slots, taken, ended, now);
            // Errors end sooner than executions.
            let is_error = lanes.completed.is_some_and(|it| it.is_error);
            result.full = full.filter(|_| !is_error);
            result.changed |= changed;
        }
        if may_leave && !quarantined {
            result.notifies = self.notify_ahead(own, column, tick, now);
            result.notifies |= self.notify_batch(own, column, batch.open().min(free), now);
            result.changed |= result.notifies;
        }
        Some(result)
    }

    /// Requests of a variant that may be in flight, under a plan of that many slots. With the slots the lanes change, and
    /// with these the points of the server curve.
    fn limit<W>(
        &mut self,
        column: usize,
        request: &AcquireRequest<'_, W>,
        changed: &mut bool,
    ) -> u32 {
        let Some(state) = self.columns.get_mut(column) else {
            return request.slots;
        };
        let (planned, before) = (request.slots, state.limit.planned);
        if state.limit.plan(planned, request.start) {
            state.curve.rescale(before, planned);
            *changed = true;
        }
        if request.explores {
            state.limit.exploring(planned)
        } else {
            state.limit.now(planned)
        }
    }

    /// State of the variant's batches before this acquisition.
    fn batch_of<W>(
        &self,
        own: usize,
        column: usize,
        request: &AcquireRequest<'_, W>,
        others: OtherWorkers,
    ) -> Batch {
        let open = self.columns.get(column).map_or(0, |column| column.open);
        let waited = self.usage(own, column).waiting_count;
        Batch::new(request, open, others.waiting, waited)
    }

    /// Records the requests granted, and the backlog of the lanes after them.
    fn update_lanes(
        &mut self,
        (column, mut scan): (usize, LaneScan),
        slots: u32,
        lanes: &LaneRequest<'_>,
        taken: u32,
        result: &mut AcquireResult,
        now: Mono,
    ) {
        let sent = &mut result.lanes;
        sent.known = true;
        sent.backlog = scan.backlog(self.behind(column), taken);
        sent.first_wait = sent.backlog.shortest;
        let begins = now + lanes.gap;
        (sent.first, sent.behind) = self.send(column, result.granted, slots, taken, begins);
        if result.granted > 0 {
            let taken = taken.saturating_add(result.granted);
            scan = self.scan_for(column, lanes, now);
            sent.backlog = scan.backlog(self.behind(column), taken);
        }
        sent.lead_at = scan.next_ending;
    }

    /// Whether the next free slot is reserved for another worker with a more urgent request. A notified worker
    /// that has not come within the grace loses its reservation; if alive, it publishes its request again on
    /// its next tick.
    fn is_reserved_for_other(
        &mut self,
        own: usize,
        column: usize,
        urgency: Urgency,
        now: Mono,
        timeouts: &Timeouts,
    ) -> bool {
        while let Some((rival, earlier)) = self.most_urgent_other(own, column, now) {
            if earlier >= urgency {
                return false;
            }
            let notified_at = self.rows.get(rival).map_or(Mono(0), |row| row.notified_at);
            if notified_at == Mono(0) || now.since(notified_at) < timeouts.grace {
                return true;
            }
            self.revoke(rival, column);
        }
        false
    }

    /// Records since when slots are free while a request waits; returns whether that changed.
    fn note_idle(&mut self, own: usize, column: usize, free: bool, now: Mono) -> bool {
        let idle = free
            && (self.usage(own, column).head.is_some()
                || self.most_urgent_other(own, column, now).is_some());
        let Some(state) = self.columns.get_mut(column) else {
            return false;
        };
        let before = state.idle_since;
        state.idle_since = idle.then(|| before.unwrap_or(now));
        state.idle_since != before
    }

    /// Records the latest end of an execution after which all slots were taken, or waited for the worker whose request is
    /// next. Returns the time from there to the ends that are reported now, and whether anything changed. The time before
    /// the first end does not count: an execution was under way when the last slot was taken, and ends sooner than a whole
    /// one.
    fn note_full(
        &mut self,
        column: usize,
        slots: u32,
        taken: u32,
        ended: u32,
        now: Mono,
    ) -> (Option<FullTime>, bool) {
        let Some(state) = self.columns.get_mut(column) else {
            return (None, false);
        };
        let is_full = slots > 0 && (taken >= slots || state.idle_since.is_some());
        let before = state.full_since;
        if ended == 0 {
            state.full_since = before.filter(|_| is_full);
            return (None, state.full_since != before);
        }
        state.full_since = is_full.then_some(now);
        let full = before.map(|since| FullTime {
            time: now.since(since).min(FULL_MAX),
            ended,
        });
        (full, state.full_since != before)
    }

    /// Notifies the worker entitled to a free slot. On a tick (`all`), notifies every worker with a more urgent
    /// request than `own`. Returns whether any was notified.
    fn notify_ahead(&mut self, own: usize, column: usize, all: bool, now: Mono) -> bool {
        let Some((earliest, _)) = self.most_urgent_other(own, column, now) else {
            return false;
        };
        let mut notifies = self.notify(earliest, now);
        let before = self.usage(own, column).head.unwrap_or(Urgency(u64::MAX));
        for rival in 0..self.rows.len() {
            let head = self.usage(rival, column).head;
            if all && rival != own && head.is_some_and(|head| head < before) {
                notifies |= self.notify(rival, now);
            }
        }
        notifies
    }

    /// Notifies, most urgent first, the workers ahead of `own` whose requests fit the open batch (`leave` in
    /// total). Workers behind `own` are notified once it has dispatched. Returns whether any was notified.
    fn notify_batch(&mut self, own: usize, column: usize, leave: u32, now: Mono) -> bool {
        let before = self.usage(own, column).head.unwrap_or(Urgency(u64::MAX));
        let (mut leave, mut notifies, mut after) = (leave, false, None);
        while leave > 0 {
            let next = self.next_other(own, column, after, now);
            let Some((head, rival)) = next.filter(|(head, _)| *head < before) else {
                break;
            };
            notifies |= self.notify(rival, now);
            leave = leave.saturating_sub(self.usage(rival, column).waiting_count.max(1));
            after = Some((head, rival));
        }
        notifies
    }
}

/// Slots that the worker may take; `ending` of the slots taken will be free soon. In quarantine the usage
/// of others is not fully known, but the slots that this worker last reported are its own.
fn free<W>(
    (request, slots): (&AcquireRequest<'_, W>, u32),
    others: OtherWorkers,
    ending: u32,
    quarantined: bool,
) -> u32 {
    let slots = if quarantined {
        slots.min(request.reported)
    } else {
        slots.saturating_add(ending).saturating_sub(others.taken)
    };
    slots.saturating_sub(request.taken)
}
