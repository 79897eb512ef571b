//! A worker's access to the slot table: loads it, changes it, swaps it in, and retries if another worker
//! was quicker.

use std::cell::RefCell;
use std::rc::Rc;

use super::batch::Batch;
use super::slot_share::SlotShare;
use super::{
    AcquireRequest, AcquireResult, FullTime, LaneBacklog, LaneReport, Notification, OtherWorkers,
    SlotTable, Store, TIMEOUTS, Tables, Timeouts, Unreadable, Usage,
};
use crate::priority::Urgency;
use crate::time::{Mono, Span};
use crate::variant::VariantKey;

mod groups;
mod health;
mod publication;
mod view;

pub use publication::Publication;

/// Number of CAS attempts before a write is left to the next tick.
pub const TRIES_MAX: u32 = 8;

/// Workers that queue together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All workers of the proxy: one queue in order of deadlines.
    #[default]
    Proxy,
    /// Each worker by itself, with its share of the slots, as without a slot table.
    Worker,
}

/// Role of a worker among those of its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// Identifier of the process.
    pub process: u64,
    /// Whether it polls the planner.
    pub polls: bool,
    /// Whether it reports what each worker knows only for itself, such as its measurements.
    pub reports: bool,
    /// Live workers that have had a request.
    pub workers: u32,
    /// Requests that they hold.
    pub held: u32,
}

/// Result of a write to the slot table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncResult {
    /// Number of slots granted: the first requests in order may leave.
    pub granted: u32,
    /// First request that then still waits.
    pub head: Option<Urgency>,
    /// Whether more could have been granted: see [`AcquireResult::more`].
    pub more: bool,
    /// Time for which a slot was free while a request waited.
    pub idle: Option<Span>,
    /// Time with all slots taken: see [`AcquireResult::full`].
    pub full: Option<FullTime>,
    /// Usage of the other workers; empty without a table.
    pub others: OtherWorkers,
    /// Requests sent, by ordinals, and the backlog of the lanes: see [`AcquireResult`].
    pub lanes: LaneReport,
    /// CAS attempts that failed.
    pub conflicts: u32,
    /// Whether the table was unreadable or gone, and has been reset.
    pub reset: bool,
    /// Whether all CAS attempts failed: nothing is granted, and the usage must be published again.
    pub contended: bool,
}

/// Change of the table by a worker: returns its row and the result; `None` if the table is full.
type Change<'a> = dyn FnMut(&mut SlotTable, &Timeouts) -> Option<(usize, AcquireResult)> + 'a;

/// One worker of a proxy.
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
    /// Usage that this worker has published last; it is published again if the table has lost it.
    pub(super) published: Vec<(VariantKey, Usage)>,
    /// Requests that may still leave with closed batches, if the worker does not coordinate.
    open: Vec<(VariantKey, u32)>,
    tables: Rc<RefCell<Tables>>,
    /// Version of the shared slot table that this worker's is.
    known: Option<u32>,
    bytes: Vec<u8>,
    /// CAS attempts of publications that failed; each is counted with the acquisition that follows.
    lost_swaps: u32,
}

impl Worker {
    /// Creates the worker `incarnation`, a number that is unique to each start of a VM.
    #[must_use]
    pub fn new(store: Box<dyn Store>, incarnation: u64, scope: Scope) -> Worker {
        Worker {
            tables: store.tables(),
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
            known: None,
            bytes: Vec::new(),
            lost_swaps: 0,
        }
    }

    /// Counts this worker among those that serve.
    pub fn mark_serving(&mut self) {
        self.serving = true;
    }

    /// Sets the number of requests that it holds; published with the next renewal.
    pub fn set_held(&mut self, held: usize) {
        self.held = u32::try_from(held).unwrap_or(u32::MAX);
    }

    /// Loads the table, to learn the usage of the others; returns whether there is one.
    pub fn load(&mut self) -> bool {
        self.scope == Scope::Proxy && self.load_table().is_some_and(|(_, read)| read.is_ok())
    }

    fn load_table(&mut self) -> Option<(u32, Result<(), Unreadable>)> {
        let known = self.known.take();
        let table = &mut self.tables.borrow_mut().slots;
        let loaded = (self.store).load_table(table, &mut self.bytes, known)?;
        self.known = loaded.1.is_ok().then_some(loaded.0);
        Some(loaded)
    }

    /// Notifies all other live workers.
    pub fn notify_others(&mut self, why: Notification, now: Mono) {
        if self.load_table().is_some_and(|(_, read)| read.is_ok()) {
            for row in self.tables.borrow().slots.others(self.incarnation, now) {
                self.store.notify(row, why);
            }
        }
    }

    /// Notifies this worker itself, which so acts in a callback of its own; returns whether it has a row.
    pub fn notify_self(&mut self) -> bool {
        if let Some(row) = self.row {
            self.store.notify(row, Notification::Slot);
        }
        self.row.is_some()
    }

    /// Renews the lease. `polls`: this worker can poll the planner. `None` if the table is full or all CAS
    /// attempts failed.
    pub fn renew(&mut self, polls: bool, now: Mono) -> (Option<Membership>, SyncResult) {
        let (incarnation, serving, held) = (self.incarnation, self.serving, self.held);
        let published = (self.scope == Scope::Worker).then(|| self.published.clone());
        let mut membership = None;
        let outcome = self.write(now, &mut |table, timeouts| {
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

    /// Publishes this worker's usage of a variant and acquires slots: see [`SlotTable::acquire`].
    pub fn acquire<W: Iterator<Item = Urgency> + Clone>(
        &mut self,
        request: AcquireRequest<'_, W>,
        now: Mono,
    ) -> SyncResult {
        self.serving = true;
        if self.scope == Scope::Worker {
            let slots = self.share.of(request.slots, request.variant.0 as u32);
            let mut batch = self.batch_of(&request);
            let outcome = alone(&request, slots, &mut batch);
            self.open.retain(|(variant, _)| *variant != request.variant);
            if batch.open() > 0 {
                self.open.push((request.variant, batch.open()));
            }
            return self.remember(&request, None, outcome, now);
        }
        let incarnation = self.incarnation;
        let mut last = None;
        let mut outcome = self.write(now, &mut |table, timeouts| {
            let result = table.acquire(incarnation, &request, now, timeouts);
            last = result.map(|result| (result.granted, result.usage));
            let own = table.assign_row(incarnation, now)?;
            let row = table.rows.get_mut(own)?;
            let starts_serving = !std::mem::replace(&mut row.serving, true);
            let result = result.map(|result| AcquireResult {
                changed: result.changed | starts_serving,
                ..result
            });
            result.map(|result| (own, result))
        });
        if last.is_none() {
            // With a single slot of its own there is no batch to fill.
            outcome = alone(&request, request.slots.min(1), &mut Batch::single());
        }
        // If all CAS attempts failed, nothing was granted.
        let usage = last.filter(|(granted, _)| *granted == outcome.granted);
        self.remember(&request, usage.map(|(_, usage)| usage), outcome, now)
    }

    /// Batches of the variant if this worker does not coordinate.
    fn batch_of<W>(&self, request: &AcquireRequest<'_, W>) -> Batch {
        let open = self.open.iter().find(|(key, _)| *key == request.variant);
        let published = self
            .published
            .iter()
            .find(|(key, _)| *key == request.variant);
        let waited = published.map_or(0, |(_, usage)| usage.waiting_count);
        Batch::new(request, open.map_or(0, |(_, open)| *open), 0, waited)
    }

    /// Remembers the usage published of a variant, whether or not the write succeeded; forgets an empty one.
    /// `usage`: the same, if known.
    fn remember<W: Iterator<Item = Urgency> + Clone>(
        &mut self,
        request: &AcquireRequest<'_, W>,
        usage: Option<Usage>,
        outcome: SyncResult,
        now: Mono,
    ) -> SyncResult {
        let variant = request.variant;
        let usage = usage.unwrap_or_else(|| request.usage(outcome.granted, now, &self.timeouts));
        self.note_published(variant, usage);
        SyncResult {
            head: usage.head,
            conflicts: outcome.conflicts + std::mem::take(&mut self.lost_swaps),
            ..outcome
        }
    }

    fn note_published(&mut self, variant: VariantKey, usage: Usage) {
        let place = self.published.iter().position(|(key, _)| *key == variant);
        let is_empty = usage.taken == 0 && usage.head.is_none();
        match place.and_then(|place| Some((place, self.published.get_mut(place)?))) {
            Some((place, _)) if is_empty => drop(self.published.swap_remove(place)),
            Some((_, published)) => published.1 = usage,
            None if is_empty => {}
            None => self.published.push((variant, usage)),
        }
    }

    /// Loads the table, applies `change`, and swaps, until a swap succeeds or the attempts are used up.
    ///
    /// If no other VM serves, the table is most likely as we left or read it, so the first attempt uses it without
    /// a load. If it has changed, that attempt fails; nothing is returned that a swap has not confirmed.
    fn write(&mut self, now: Mono, change: &mut Change<'_>) -> SyncResult {
        let tables = Rc::clone(&self.tables);
        let table = &mut tables.borrow_mut().slots;
        let mut outcome = SyncResult::default();
        let mut guess = self.known.filter(|_| table.workers(now) <= 1);
        while outcome.conflicts < TRIES_MAX {
            let guessed = guess.take();
            // From here on the table is another.
            let known = self.known.take();
            let loaded = match guessed {
                Some(version) => Some((version, Ok(()))),
                None => (self.store).load_table(table, &mut self.bytes, known),
            };
            let version = loaded.map(|(version, _)| version);
            outcome.reset = match loaded {
                Some((_, read)) => read.is_err(),
                // Gone although this worker had a row: others may hold slots that a new table does not know.
                None => self.row.is_some(),
            };
            if outcome.reset {
                *table = SlotTable::after_reset(now, &self.timeouts);
            } else if version.is_none() {
                *table = SlotTable::default();
            }
            let joins = table.join(self.incarnation, &self.published, now, &self.timeouts);
            if table.process_id == 0 {
                // A table after a reset still belongs to the same process.
                let known = [self.process, self.incarnation];
                table.process_id = known.into_iter().find(|id| *id > 0).unwrap_or(1);
            }
            let Some((own, done)) = change(table, &self.timeouts) else {
                if guessed.is_some() {
                    continue;
                }
                return outcome;
            };
            outcome.others = done.others;
            if done.changed || joins || outcome.reset {
                if !self.store.swap_table(table, &mut self.bytes, version) {
                    outcome.conflicts += u32::from(guessed.is_none());
                    continue;
                }
                self.known = self.store.guess();
            } else if guessed.is_some() {
                continue;
            }
            // Also for the same row: another worker may have owned it, and its queue, in between.
            if joins || self.row != Some(own) {
                self.row = Some(own);
                self.store.claim_row(own);
            }
            if done.notifies {
                self.send_notifications(table, now);
            }
            self.process = table.process_id;
            (outcome.granted, outcome.more) = (done.granted, done.more);
            (outcome.idle, outcome.full, outcome.lanes) = (done.idle, done.full, done.lanes);
            return outcome;
        }
        outcome.contended = true;
        outcome
    }

    fn send_notifications(&mut self, table: &SlotTable, now: Mono) {
        let marked = table.rows.iter().enumerate();
        for (index, _) in marked.filter(|(_, row)| row.notified_at == now.max(Mono(1))) {
            self.store.notify(index, Notification::Slot);
        }
    }
}

/// Acquires for a worker that does not coordinate, with `slots` slots.
fn alone<W: Iterator<Item = Urgency> + Clone>(
    request: &AcquireRequest<'_, W>,
    slots: u32,
    batch: &mut Batch,
) -> SyncResult {
    let free = slots.saturating_sub(request.taken);
    let mut waiting = request.waiting.clone();
    let mut outcome = SyncResult::default();
    let mut head = waiting.next();
    while head.is_some() && outcome.granted < free.min(request.limit) && batch.may_leave(head) {
        batch.leave();
        outcome.granted += 1;
        head = waiting.next();
    }
    let may_leave = outcome.granted < free && batch.may_leave(head);
    outcome.more = may_leave && !batch.is_single() && head.is_some();
    outcome
}
