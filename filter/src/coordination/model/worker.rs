//! One worker of the model: what the engine does with its table (`engine/claim.rs`), without all else.

use std::collections::VecDeque;
use std::time::Duration;

use super::{AFTER, LONG_AGO, NOW, SLOTS, STEPS, TICK};
use crate::coordination::{
    AcquireRequest, LaneReport, LaneRequest, Memory, Notification, Scope, SlotTable, SyncResult,
    TRIES_MAX, Usage, Worker,
};
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

/// The one variant.
pub(super) const VARIANT: VariantKey = VariantKey(7);
/// What unreadable bytes are read as.
pub(super) const CORRUPTED: &[u8] = b"not a table";

/// An execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Running {
    /// Its predicted end.
    pub(super) end: Mono,
    /// When it was sent, and its ordinal; 0 where nobody is sent ahead.
    pub(super) sent: Mono,
    ordinal: u32,
}

/// A worker's state between its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ModelWorker {
    /// What executes for it.
    pub(super) running: Vec<Running>,
    /// What executes, abandoned.
    pub(super) orphans: Vec<Running>,
    /// Ordinals of what has ended, and whether there are new orphans, which the table has not heard.
    ended: Vec<u32>,
    orphans_changed: bool,
    /// Deadlines of those who wait.
    pub(super) waiting: VecDeque<Urgency>,
    until: Mono,
    pub(super) reported: u32,
    reported_head: Option<Urgency>,
    pub(super) stale: bool,
    pub(super) row: Option<usize>,
    published: Vec<(VariantKey, Usage)>,
    /// Steps since it last ticked.
    pub(super) ticked: u8,
    /// A ring is under way to it: reported since its last tick, or before.
    pub(super) notification: (bool, bool),
    /// How often it was notified since it last came for a slot.
    pub(super) notifies: u8,
    /// At how many looks on end it still waited although a slot was free all the time.
    pub(super) passed_over: u8,
}

/// The table as it is stored: its bytes could be anybody's.
#[derive(Debug)]
pub(super) struct StoredTable<'a> {
    pub(super) table: &'a mut SlotTable,
    pub(super) corrupted: &'a mut bool,
    /// Whether this run_turn's swaps are all lost.
    pub(super) lost: bool,
    /// How long an execution takes, as predicted.
    pub(super) service: Duration,
    /// How many leave together.
    pub(super) batch: u32,
    /// Whether the next is sent before a lane is free.
    pub(super) ahead: bool,
}

/// What makes a worker say what it has, and ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A request, an answer, a client that leaves.
    Event,
    /// It was notified.
    Notification,
    /// Time has passed: nobody waiting_count for company longer than that.
    Tick,
}

/// What came of a run_turn, for those who watch.
#[derive(Debug, Default)]
pub(super) struct StepResult {
    pub(super) granted: u32,
    pub(super) lanes: LaneReport,
    pub(super) notified: Vec<usize>,
    pub(super) reset: bool,
    pub(super) deadlines: Vec<Urgency>,
    /// Where it was for a slot, and heard: how many waited, and whether the first was due.
    pub(super) asked: Option<(u32, bool)>,
}

impl ModelWorker {
    pub(super) fn incarnation(place: usize) -> u64 {
        place as u64 + 1
    }

    pub(super) fn taken(&self) -> u32 {
        (self.running.len() + self.orphans.len()) as u32
    }

    /// `claim`, then `park` or `dispatch`.
    pub(super) fn arrive(
        &mut self,
        place: usize,
        deadline: Urgency,
        stored: &mut StoredTable<'_>,
    ) -> StepResult {
        self.expire_orphans();
        if stored.batch > 1 {
            // One more is orphans_changed even behind the first.
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

    /// `dispatch_waiting`: without anything to say or to ask, nothing.
    pub(super) fn dispatch_waiting(
        &mut self,
        place: usize,
        cause: Cause,
        stored: &mut StoredTable<'_>,
    ) -> StepResult {
        self.expire_orphans();
        let settled = !self.stale
            && self.waiting.is_empty()
            && self.reported_head.is_none()
            && self.reported == self.taken()
            && self.ended.is_empty()
            && !self.orphans_changed;
        if settled {
            return StepResult::default();
        }
        let mut done = self.acquire(place, None, u32::MAX, cause, stored);
        for place in 0..done.granted {
            done.deadlines.extend(self.waiting.pop_front());
            self.run(&done, place, stored);
        }
        done
    }

    /// A tick: the lease where nothing else renews it, then who waiting_count. Without a lease of its own, as
    /// after the table was corrupted, `renew` says all after_reset.
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
        self.run_turn(place, stored, |worker| worker.renew(false, NOW).1)
            .1
    }

    /// Whether it looks now, unless it is slow.
    pub(super) fn is_due(&self) -> bool {
        self.ticked >= TICK
    }

    pub(super) fn finish(&mut self, index: usize) {
        let over = self.running.remove(index);
        self.end(over);
        self.forget_until();
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
        self.forget_until();
    }

    fn end(&mut self, over: Running) {
        if over.ordinal > 0 {
            self.ended.push(over.ordinal);
            self.ended.sort_unstable();
        }
    }

    /// A step of time goes by.
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
            gap: Duration::ZERO,
            mean: stored.service,
            ended: &ended,
            completed: None,
            planned: stored.service,
            open_ended: &open_ended,
        };
        let ask = AcquireRequest {
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
        let (outcome, mut done) = self.run_turn(place, stored, |worker| worker.acquire(ask, NOW));
        self.stale = outcome.contended;
        done.lanes = outcome.lanes;
        if outcome.contended {
            self.ended = ended;
        } else {
            self.orphans_changed = false;
            self.reported_head = waiting.get(outcome.granted as usize).copied();
            self.reported = self.taken() + outcome.granted;
            self.notifies = 0;
            done.asked = Some((waiting.len() as u32, cause == Cause::Tick));
        }
        done
    }

    /// A run_turn of the real worker over the stored bytes.
    fn run_turn(
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
        // Steps are coarse: who was marked by another in this step is notified once more, which is no orphans_changed.
        let orphans_changed = |row: &usize| marked.get(*row) != Some(&true);
        let slot = |(row, why): (usize, Notification)| (why == Notification::Slot).then_some(row);
        let notifies = store.take_notifications().into_iter().filter_map(slot);
        let done = StepResult {
            granted: outcome.granted,
            lanes: LaneReport::default(),
            notified: notifies.filter(orphans_changed).collect(),
            reset: outcome.reset && !outcome.contended,
            deadlines: Vec::new(),
            asked: None,
        };
        (outcome, done)
    }

    /// Number `place` of those granted is sent.
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
        self.forget_until();
    }

    fn forget_until(&mut self) {
        if self.taken() == 0 {
            self.until = Mono(0);
        }
    }
}

/// A moment, one step later.
pub(super) trait OneStepLater {
    /// Seen from a step later. What is past `floor` is all the same.
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
