//! One worker of the model: the engine's use of its table (`engine/slots.rs`), without the rest.

use crate::time::Span;
use std::collections::VecDeque;

use super::{AFTER, LONG_AGO, NOW, SLOTS, STEPS, TICK};
use crate::coordination::{
    AcquireRequest, EndedExecutions, LaneReport, LaneRequest, Memory, Notification, Scope,
    SlotTable, SyncResult, TRIES_MAX, Usage, Worker,
};
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

/// The only variant.
pub(super) const VARIANT: VariantKey = VariantKey(7);
/// Bytes that are unreadable.
pub(super) const CORRUPTED: &[u8] = b"not a table";

/// Execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Running {
    /// Predicted end.
    pub(super) end: Mono,
    /// Time of dispatch, and ordinal; 0 without early sending.
    pub(super) sent: Mono,
    ordinal: u32,
}

/// State of a worker between its writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ModelWorker {
    /// Executions.
    pub(super) running: Vec<Running>,
    /// Abandoned executions.
    pub(super) orphans: Vec<Running>,
    /// Ordinals of ended executions that are not yet reported; and whether there are new orphans.
    ended: Vec<u32>,
    orphans_changed: bool,
    /// Deadlines of waiting requests.
    pub(super) waiting: VecDeque<Urgency>,
    until: Mono,
    pub(super) reported: u32,
    reported_head: Option<Urgency>,
    pub(super) stale: bool,
    pub(super) row: Option<usize>,
    published: Vec<(VariantKey, Usage)>,
    /// Steps since its last tick.
    pub(super) ticked: u8,
    /// Pending notification: sent since its last tick, or before.
    pub(super) notification: (bool, bool),
    /// Number of notifications since it last acquired.
    pub(super) notifies: u8,
    /// Number of ticks in a row at which it still waited although a slot was free all the time.
    pub(super) passed_over: u8,
}

/// The stored table; its bytes may be corrupted.
#[derive(Debug)]
pub(super) struct StoredTable<'a> {
    pub(super) table: &'a mut SlotTable,
    pub(super) corrupted: &'a mut bool,
    /// Whether all swaps of this write are lost.
    pub(super) lost: bool,
    /// Predicted time of an execution.
    pub(super) service: Span,
    /// Batch size.
    pub(super) batch: u32,
    /// Whether the next request is sent before a lane is free.
    pub(super) ahead: bool,
}

/// Cause of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A request, an answer, or a client disconnect.
    Event,
    /// A notification.
    Notification,
    /// A tick: all batch windows are over by then.
    Tick,
}

/// Result of a write, for the checks.
#[derive(Debug, Default)]
pub(super) struct StepResult {
    pub(super) granted: u32,
    pub(super) lanes: LaneReport,
    pub(super) notified: Vec<usize>,
    pub(super) reset: bool,
    pub(super) deadlines: Vec<Urgency>,
    /// If it acquired successfully: the number of waiting requests, and whether the batch window was over.
    pub(super) acquired: Option<(u32, bool)>,
}

impl ModelWorker {
    pub(super) fn incarnation(place: usize) -> u64 {
        place as u64 + 1
    }

    pub(super) fn taken(&self) -> u32 {
        (self.running.len() + self.orphans.len()) as u32
    }

    /// Follows `acquire_for`, then `park` or `dispatch`.
    pub(super) fn arrive(
        &mut self,
        place: usize,
        deadline: Urgency,
        stored: &mut StoredTable<'_>,
    ) -> StepResult {
        self.expire_orphans();
        if stored.batch > 1 {
            // One more request matters even behind the first.
            let after = self.waiting.partition_point(|other| *other <= deadline);
            self.waiting.insert(after, deadline);
            return self.dispatch_waiting(place, Cause::Event, stored);
        }
        let first = self.waiting.front().is_none_or(|head| deadline < *head);
        let mut done = StepResult::default();
        if first {
            done = self.acquire(place, Some(deadline), 1, Cause::Event, stored);
        }
        if done.granted == 1 {
            self.run(&done, 0, stored);
            done.deadlines.push(deadline);
        } else {
            let after = self.waiting.partition_point(|other| *other <= deadline);
            self.waiting.insert(after, deadline);
        }
        done
    }

    /// Follows the engine's `dispatch_waiting`: no write if there is nothing to report or to acquire.
    pub(super) fn dispatch_waiting(
        &mut self,
        place: usize,
        cause: Cause,
        stored: &mut StoredTable<'_>,
    ) -> StepResult {
        self.expire_orphans();
        let synced = !self.stale
            && self.waiting.is_empty()
            && self.reported_head.is_none()
            && self.reported == self.taken()
            && self.ended.is_empty()
            && !self.orphans_changed;
        if synced {
            return StepResult::default();
        }
        let mut done = self.acquire(place, None, u32::MAX, cause, stored);
        for place in 0..done.granted {
            done.deadlines.extend(self.waiting.pop_front());
            self.run(&done, place, stored);
        }
        done
    }

    /// A tick: renews the lease if nothing else does, then acquires. Without a row, as after a corruption,
    /// `renew` republishes everything.
    pub(super) fn tick(&mut self, place: usize, stored: &mut StoredTable<'_>) -> StepResult {
        let renewed = self.renew(place, stored);
        let mut done = self.dispatch_waiting(place, Cause::Tick, stored);
        done.notified.extend(renewed.notified);
        done.reset |= renewed.reset;
        if !stored.lost {
            (self.ticked, self.notification) = (0, (false, self.notification.0));
        }
        done
    }

    pub(super) fn renew(&mut self, place: usize, stored: &mut StoredTable<'_>) -> StepResult {
        self.run_write(place, stored, |worker| worker.renew(false, NOW).1)
            .1
    }

    /// Whether it ticks now, unless it is slow.
    pub(super) fn is_due(&self) -> bool {
        self.ticked >= TICK
    }

    pub(super) fn finish(&mut self, index: usize) {
        let over = self.running.remove(index);
        self.end(over);
        self.reset_until();
    }

    pub(super) fn abandon(&mut self, index: usize) {
        let over = self.running.remove(index);
        if over.end > NOW {
            self.orphans_changed |= over.ordinal > 0;
            self.orphans.push(over);
            self.orphans.sort_unstable();
        } else {
            self.end(over);
        }
        self.reset_until();
    }

    fn end(&mut self, over: Running) {
        if over.ordinal > 0 {
            self.ended.push(over.ordinal);
            self.ended.sort_unstable();
        }
    }

    /// Advances time by a step.
    pub(super) fn advance_time(&mut self) {
        for running in &mut self.running {
            running.end.0 -= 1;
            running.sent = running.sent.one_step_later(LONG_AGO);
        }
        for orphan in &mut self.orphans {
            orphan.end = orphan.end.one_step_later(NOW);
            orphan.sent = orphan.sent.one_step_later(LONG_AGO);
        }
        self.until = self.until.one_step_later(NOW);
        for (_, usage) in &mut self.published {
            usage.until = usage.until.one_step_later(NOW);
        }
        self.ticked += 1;
    }

    fn acquire(
        &mut self,
        place: usize,
        arrival: Option<Urgency>,
        limit: u32,
        cause: Cause,
        stored: &mut StoredTable<'_>,
    ) -> StepResult {
        let waiting: Vec<Urgency> = arrival
            .into_iter()
            .chain(self.waiting.iter().copied())
            .collect();
        let ended = std::mem::take(&mut self.ended);
        let open_ended: Vec<u32> = self.orphans.iter().map(|orphan| orphan.ordinal).collect();
        let ahead = LaneRequest {
            after: AFTER,
            gap: Span::ZERO,
            mean: stored.service,
            ended: &ended,
            completed: None,
            planned: stored.service,
            open_ended: &open_ended,
        };
        let request = AcquireRequest {
            uploads: 0,
            uploads_max: None,
            start: 1,
            explores: false,
            executions: EndedExecutions::default(),
            jumps: false,
            variant: VARIANT,
            slots: SLOTS,
            taken: self.taken(),
            reported: self.reported,
            until: self.until,
            service: stored.service,
            waiting: waiting.iter().copied(),
            waiting_count: waiting.len() as u32,
            limit,
            batch: stored.batch,
            due: (cause == Cause::Tick).then_some(Urgency(u64::MAX)),
            tick: cause != Cause::Event,
            lanes: stored.ahead.then_some(ahead),
        };
        let (outcome, mut done) =
            self.run_write(place, stored, |worker| worker.acquire(request, NOW));
        self.stale = outcome.contended;
        done.lanes = outcome.lanes;
        if outcome.contended {
            self.ended = ended;
        } else {
            self.orphans_changed = false;
            self.reported_head = waiting.get(outcome.granted as usize).copied();
            self.reported = self.taken() + outcome.granted;
            self.notifies = 0;
            done.acquired = Some((waiting.len() as u32, cause == Cause::Tick));
        }
        done
    }

    /// Runs a write of the real worker on the stored bytes.
    fn run_write(
        &mut self,
        place: usize,
        stored: &mut StoredTable<'_>,
        act: impl FnOnce(&mut Worker) -> SyncResult,
    ) -> (SyncResult, StepResult) {
        let marks = stored.table.rows.iter().map(|row| row.notified_at == NOW);
        let marked: Vec<bool> = marks.collect();
        let store = Memory::default();
        let mut bytes = CORRUPTED.to_vec();
        if !*stored.corrupted {
            stored.table.write(&mut bytes);
        }
        store.overwrite(bytes);
        if stored.lost {
            store.fail_swaps(TRIES_MAX);
        }
        let incarnation = ModelWorker::incarnation(place);
        let mut worker = Worker::new(Box::new(store.clone()), incarnation, Scope::Proxy);
        (worker.timeouts, worker.serving) = (STEPS, true);
        (worker.row, worker.published) = (self.row, std::mem::take(&mut self.published));
        let outcome = act(&mut worker);
        (self.row, self.published) = (worker.row, std::mem::take(&mut worker.published));
        if !outcome.contended {
            *stored.corrupted = stored.table.read(&store.bytes().unwrap()).is_err();
        }
        // Steps are coarse: a worker already marked in this step is notified again, which does not count.
        let orphans_changed = |row: &usize| marked.get(*row) != Some(&true);
        let slot = |(row, why): (usize, Notification)| (why == Notification::Slot).then_some(row);
        let notifies = store.take_notifications().into_iter().filter_map(slot);
        let done = StepResult {
            granted: outcome.granted,
            lanes: LaneReport::default(),
            notified: notifies.filter(orphans_changed).collect(),
            reset: outcome.reset && !outcome.contended,
            deadlines: Vec::new(),
            acquired: None,
        };
        (outcome, done)
    }

    /// Sends request number `place` of those granted.
    fn run(&mut self, done: &StepResult, place: u32, stored: &StoredTable<'_>) {
        let lies = done.lanes.first > 0 && place + done.lanes.behind >= done.granted;
        let begins = if lies {
            NOW + done.lanes.first_wait
        } else {
            NOW
        };
        let end = begins + stored.service;
        let (sent, ordinal) = match done.lanes.first {
            0 => (Mono(0), 0),
            first => (NOW, first + place),
        };
        self.running.push(Running { end, sent, ordinal });
        self.running.sort_unstable();
        self.until = self.until.max(end);
    }

    fn expire_orphans(&mut self) {
        let over = self.orphans.extract_if(.., |orphan| orphan.end <= NOW);
        for over in over.collect::<Vec<_>>() {
            self.end(over);
        }
        self.reset_until();
    }

    fn reset_until(&mut self) {
        if self.taken() == 0 {
            self.until = Mono(0);
        }
    }
}

/// Shift of a time by one step.
pub(super) trait OneStepLater {
    /// The time as seen one step later; not distinguished below `floor`.
    #[must_use]
    fn one_step_later(self, floor: Mono) -> Self;
}

impl OneStepLater for Mono {
    fn one_step_later(self, floor: Mono) -> Mono {
        if self == Mono(0) {
            self
        } else {
            Mono(self.0 - 1).max(floor)
        }
    }
}
