//! One VM at the table: loads it, takes its turn, swaps it in, and tries again where another was
//! quicker.

use std::fmt::Debug;
use std::time::Duration;

use super::batch::Batch;
use super::slot_share::SlotShare;
use super::{
    AcquireRequest, AcquireResult, LaneBacklog, LaneReport, OtherWorkers, SlotTable, TIMEOUTS,
    Timeouts, Usage, WorkerRow,
};
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

mod health;

/// How often a swap is tried before it is left to the next tick.
pub const TRIES_MAX: u32 = 8;

/// Where the table is kept, and how VMs are rung.
pub trait Store: Debug {
    /// Loads the table's bytes and their version; `None` where there are none yet.
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32>;
    /// Puts bytes in place of that version, or with `None` where there are none yet; whether it did.
    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool;
    /// The version that what was swapped in last should have, if nothing was loaded since. It may be
    /// wrong where somebody has written meanwhile, and must then be no version that was ever ours.
    fn guess(&mut self) -> Option<u32>;
    /// This VM has that row from now on: it is rung by it.
    fn claim_row(&mut self, row: usize);
    /// Rings the VM that has that row.
    fn notify(&mut self, row: usize, why: Notification);
}

/// What a VM is rung for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Notification {
    /// A slot is free that one of its requests should have.
    Slot,
    /// There is a new plan.
    Plan,
    /// A variant has begun or ceased to fail.
    Health,
}

/// Who queues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All workers of the proxy: one queue in order of deadlines.
    #[default]
    Proxy,
    /// Each worker for itself, with its share of the slots: what there would be without the table.
    Worker,
}

/// A VM's place among those of its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// Which process it is in: what the table's process_id was called.
    pub process: u64,
    /// Whether it is the one to poll the planner.
    pub polls: bool,
    /// Whether it is the one to report what each VM knows for itself only, such as what it has measured.
    pub reports: bool,
    /// How many VMs have had a request and live.
    pub workers: u32,
    /// How many requests they hold.
    pub held: u32,
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncResult {
    /// How many of those who wait may go: the first so many.
    pub granted: u32,
    /// Whether more of them might have gone, had they been asked for: see [`AcquireResult::more`].
    pub more: bool,
    /// Where a slot was free for somebody before: for how long.
    pub idle: Option<Duration>,
    /// What the other VMs have, as of this turn; nothing where there is no table.
    pub others: OtherWorkers,
    /// Requests sent, by ordinals, and the work before the lanes: see [`AcquireResult`].
    pub lanes: LaneReport,
    /// Swaps that others were quicker at.
    pub conflicts: u32,
    /// Whether the table was found unreadable, or was gone, and has been begun after_reset.
    pub reset: bool,
    /// Whether all tries were lost: nothing is granted, and what was published has to be published again.
    pub contended: bool,
}

/// A VM at the table.
#[derive(Debug)]
pub struct Worker {
    store: Box<dyn Store>,
    incarnation: u64,
    scope: Scope,
    pub(super) timeouts: Timeouts,
    pub(super) serving: bool,
    held: u32,
    process: u64,
    pub(super) row: Option<usize>,
    share: SlotShare,
    /// What this VM has and holds, by its last word: published again where the table has lost it.
    pub(super) published: Vec<(VariantKey, Usage)>,
    /// How many may still leave of batches closed here, where the VM is for itself.
    open: Vec<(VariantKey, u32)>,
    table: SlotTable,
    bytes: Vec<u8>,
}

impl Worker {
    /// The VM `incarnation`, which is another for each start of one.
    #[must_use]
    pub fn new(store: Box<dyn Store>, incarnation: u64, scope: Scope) -> Worker {
        Worker {
            store,
            incarnation,
            scope,
            timeouts: TIMEOUTS,
            serving: false,
            held: 0,
            process: 0,
            row: None,
            share: SlotShare::WHOLE,
            published: Vec::new(),
            open: Vec::new(),
            table: SlotTable::default(),
            bytes: Vec::new(),
        }
    }

    /// From now on it counted among those that serve.
    pub fn mark_serving(&mut self) {
        self.serving = true;
    }

    /// From now on it holds so many requests; the table hears of it at the next renewal.
    pub fn set_held(&mut self, held: usize) {
        self.held = u32::try_from(held).unwrap_or(u32::MAX);
    }

    /// How many slots of a variant were taken when the table was last looked at.
    #[must_use]
    pub fn taken(&self, variant: VariantKey, now: Mono) -> u32 {
        let column = self.table.column(variant);
        column.map_or(0, |column| self.table.taken(column, now))
    }

    /// How many waited for a variant, at all VMs that live, when the table was last looked at.
    #[must_use]
    pub fn waiting(&self, variant: VariantKey, now: Mono) -> u32 {
        let column = self.table.column(variant);
        column.map_or(0, |column| self.table.waiting(column, now))
    }

    /// Loads the table, to tell what the others have; whether there is one.
    pub fn load(&mut self) -> bool {
        self.scope == Scope::Proxy
            && self.store.load(&mut self.bytes).is_some()
            && self.table.read(&self.bytes).is_ok()
    }

    /// Returns what the others have of a variant of which `taken` slots are taken here, and the work before the
    /// lanes where one execution takes `mean`, by the table as last loaded.
    #[must_use]
    pub fn view(
        &self,
        variant: VariantKey,
        taken: u32,
        mean: Duration,
        now: Mono,
    ) -> Option<(OtherWorkers, LaneBacklog)> {
        let own = |row: &WorkerRow| row.incarnation == self.incarnation;
        let own = self.table.rows.iter().position(own)?;
        let column = self.table.column(variant)?;
        let others = self.table.other_workers(own, column, now);
        let taken = taken.saturating_add(others.taken);
        Some((others, self.table.backlog(column, taken, mean, now)))
    }

    /// Rings all others that live.
    pub fn notify_others(&mut self, why: Notification, now: Mono) {
        if self.store.load(&mut self.bytes).is_some() && self.table.read(&self.bytes).is_ok() {
            for row in self.table.others(self.incarnation, now) {
                self.store.notify(row, why);
            }
        }
    }

    /// Renews the lease. `polls`: it can be the one to poll the planner. `None` where the table is
    /// full or all tries were lost.
    pub fn renew(&mut self, polls: bool, now: Mono) -> (Option<Membership>, SyncResult) {
        let (incarnation, serving, held) = (self.incarnation, self.serving, self.held);
        let published = (self.scope == Scope::Worker).then(|| self.published.clone());
        let mut membership = None;
        let outcome = self.write(now, |table, timeouts| {
            let own = table.assign_row(incarnation, now)?;
            let mut changed = table.renew_row(own, now, timeouts);
            if let Some(row) = table.rows.get_mut(own) {
                changed |= (row.serving, row.held) != (serving, held);
                (row.serving, row.held) = (serving, held);
            }
            if let Some(published) = &published {
                changed |= table.restate(own, published, now, timeouts);
            }
            if polls && (table.poller.0 == incarnation || table.poller.1 <= now) {
                table.poller = (incarnation, now + timeouts.poller_lease);
                changed = true;
            }
            membership = Some((
                Membership {
                    process: table.process_id,
                    polls: table.poller.0 == incarnation,
                    reports: table.reporter(now) == incarnation,
                    workers: table.workers(now),
                    held: table.held(now),
                },
                SlotShare::among(table, own, now),
            ));
            Some((
                own,
                AcquireResult {
                    changed,
                    ..AcquireResult::default()
                },
            ))
        });
        let membership = membership.filter(|_| !outcome.contended);
        if let Some((_, share)) = membership {
            self.share = share;
        }
        (membership.map(|(membership, _)| membership), outcome)
    }

    /// Says what this VM holds of a variant and claims what slots it may: see [`SlotTable::acquire`].
    pub fn acquire<W: Iterator<Item = Urgency> + Clone>(
        &mut self,
        ask: AcquireRequest<'_, W>,
        now: Mono,
    ) -> SyncResult {
        self.serving = true;
        if self.scope == Scope::Worker {
            let slots = self.share.of(ask.slots, ask.variant.0 as u32);
            let mut batch = self.batch_of(&ask);
            let outcome = alone(ask.clone(), slots, &mut batch);
            self.open.retain(|(variant, _)| *variant != ask.variant);
            if batch.open() > 0 {
                self.open.push((ask.variant, batch.open()));
            }
            self.remember(ask, outcome.granted, now);
            return outcome;
        }
        let incarnation = self.incarnation;
        let mut full = true;
        let mut outcome = self.write(now, |table, timeouts| {
            let turn = table.acquire(incarnation, ask.clone(), now, timeouts);
            full = turn.is_none();
            let own = table.assign_row(incarnation, now)?;
            if let Some(row) = table.rows.get_mut(own) {
                row.serving = true;
            }
            turn.map(|turn| (own, turn))
        });
        if full {
            // With a slot of its own there is no company to wait for.
            outcome = alone(ask.clone(), ask.slots.min(1), &mut Batch::single());
        }
        self.remember(ask, outcome.granted, now);
        outcome
    }

    /// The variant's batches where this VM is for itself.
    fn batch_of<W>(&self, ask: &AcquireRequest<'_, W>) -> Batch {
        let open = self.open.iter().find(|(key, _)| *key == ask.variant);
        let published = self.published.iter().find(|(key, _)| *key == ask.variant);
        let waited = published.map_or(0, |(_, usage)| usage.waiting_count);
        Batch::new(ask, open.map_or(0, |(_, open)| *open), 0, waited)
    }

    /// Keeps what was published of a variant, heard or not; of one there is nothing to say of, nothing.
    fn remember<W: Iterator<Item = Urgency>>(
        &mut self,
        ask: AcquireRequest<'_, W>,
        granted: u32,
        now: Mono,
    ) {
        let variant = ask.variant;
        let usage = ask.usage(granted, now, &self.timeouts);
        self.published.retain(|(key, _)| *key != variant);
        if usage.taken > 0 || usage.head.is_some() {
            self.published.push((variant, usage));
        }
    }

    /// Loads, lets `turn` change, and swaps, until a swap succeeds or the tries are used up.
    ///
    /// Where no other VM serves, the table is limit likely as we left it: the first try is made on
    /// that, unread. It fails if it is not, and says nothing that a swap has not confirmed.
    fn write(
        &mut self,
        now: Mono,
        mut turn: impl FnMut(&mut SlotTable, &Timeouts) -> Option<(usize, AcquireResult)>,
    ) -> SyncResult {
        let mut outcome = SyncResult::default();
        let mut guess = self.store.guess().filter(|_| self.table.workers(now) <= 1);
        while outcome.conflicts < TRIES_MAX {
            let guessed = guess.take();
            let version = guessed.or_else(|| self.store.load(&mut self.bytes));
            outcome.reset = match version {
                _ if guessed.is_some() => false,
                Some(_) => self.table.read(&self.bytes).is_err(),
                // Gone while VMs live that had an row: they hold slots it does not know of.
                None => self.row.is_some(),
            };
            if outcome.reset {
                self.table = SlotTable::after_reset(now, &self.timeouts);
            } else if version.is_none() {
                self.table = SlotTable::default();
            }
            let joins = self
                .table
                .join(self.incarnation, &self.published, now, &self.timeouts);
            if self.table.process_id == 0 {
                // A table begun after_reset is still the same process's.
                let known = [self.process, self.incarnation];
                self.table.process_id = known.into_iter().find(|id| *id > 0).unwrap_or(1);
            }
            let Some((own, done)) = turn(&mut self.table, &self.timeouts) else {
                if guessed.is_some() {
                    continue;
                }
                return outcome;
            };
            outcome.others = done.others;
            if done.changed || joins || outcome.reset {
                self.table.write(&mut self.bytes);
                if !self.store.swap(&self.bytes, version) {
                    outcome.conflicts += u32::from(guessed.is_none());
                    continue;
                }
            } else if guessed.is_some() {
                continue;
            }
            // Also the same row after_reset: another may have had it, and its queue, in between.
            if joins || self.row != Some(own) {
                self.row = Some(own);
                self.store.claim_row(own);
            }
            if done.notifies {
                self.send_notifications(now);
            }
            self.process = self.table.process_id;
            (outcome.granted, outcome.more) = (done.granted, done.more);
            (outcome.idle, outcome.lanes) = (done.idle, done.lanes);
            return outcome;
        }
        outcome.contended = true;
        outcome
    }

    fn send_notifications(&mut self, now: Mono) {
        let marked = self.table.rows.iter().enumerate();
        for (index, _) in marked.filter(|(_, row)| row.notified_at == now.max(Mono(1))) {
            self.store.notify(index, Notification::Slot);
        }
    }
}

/// A VM for itself, with so many slots.
fn alone<W: Iterator<Item = Urgency>>(
    ask: AcquireRequest<'_, W>,
    slots: u32,
    batch: &mut Batch,
) -> SyncResult {
    let free = slots.saturating_sub(ask.taken);
    let mut waiting = ask.waiting;
    let mut outcome = SyncResult::default();
    let mut head = waiting.next();
    while head.is_some() && outcome.granted < free.min(ask.limit) && batch.may_leave(head) {
        batch.leave();
        outcome.granted += 1;
        head = waiting.next();
    }
    let may_leave = outcome.granted < free && batch.may_leave(head);
    outcome.more = may_leave && !batch.is_single() && head.is_some();
    outcome
}
