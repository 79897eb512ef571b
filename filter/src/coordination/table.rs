//! The slot table: a row per worker, a column per variant, and a usage per worker and variant.

use super::{OtherWorkers, Runs, Timeouts};
use crate::coordination::curve::Curve;
use crate::coordination::lead::Lead;
use crate::coordination::limit::Limit;
use crate::health::Healths;
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

/// Workers of a proxy, and the slots that each has taken of each variant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SlotTable {
    /// Number of resets: 1 if it replaces a table that was unreadable or gone, else 0.
    pub resets: u32,
    /// End of quarantine: until then no worker takes more slots than it had, because the usage of others is not
    /// fully known.
    pub quarantine_until: Mono,
    /// Identifier of the process: the incarnation of the VM that created the table.
    pub process_id: u64,
    /// Incarnation of the VM that polls the planner, and the end of its lease.
    pub poller: (u64, Mono),
    /// Variants.
    pub columns: Vec<VariantColumn>,
    /// Workers.
    pub rows: Vec<WorkerRow>,
    /// Usage of each variant and worker: `columns` × `rows`, column by column, because acquisitions add up a column.
    pub(super) usages: Vec<Usage>,
    /// Executions of each variant's servers: one for each of the `columns`.
    pub runs: Vec<Runs>,
}

/// One worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct WorkerRow {
    /// Identifier of the VM; each start of a VM has another.
    pub incarnation: u64,
    /// Time until which it counts as alive without a renewal.
    pub lease: Mono,
    /// Time of its last notification, if it has not acquired since; else 0.
    pub notified_at: Mono,
    /// Whether it has had a request.
    pub serving: bool,
    /// Requests that it holds, as last published.
    pub held: u32,
}

/// One variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct VariantColumn {
    /// Key of the variant.
    pub key: VariantKey,
    /// Time since which a slot is free while a request waits.
    pub idle_since: Option<Mono>,
    /// Time of the latest end of an execution, if all slots have been taken since.
    pub full_since: Option<Mono>,
    /// Time of its last use, to within a renewal.
    pub used_at: Mono,
    /// Requests that may still leave with closed batches.
    pub open: u32,
    /// Health of its servers, as last seen by any worker.
    pub health: Healths,
    /// Ordinal of the last request sent.
    pub sent: u32,
    /// Ordinal of the last request begun.
    pub begun: u32,
    /// Lead measured by all workers.
    pub lead: Lead,
    /// Times by requests in flight, measured by all workers.
    pub curve: Curve,
    /// Requests that may be in flight.
    pub limit: Limit,
}

/// Usage of one variant by one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// Slots taken, orphans included.
    pub taken: u32,
    /// Requests waiting; without batches, to within [`Usage::waiting_tolerance`].
    pub waiting_count: u32,
    /// Latest predicted end of the executions: if the worker dies, its slots count until then.
    pub until: Mono,
    /// Most urgent waiting request.
    pub head: Option<Urgency>,
    /// Requests upstream whose bodies still arrive.
    pub uploads: u32,
}

impl WorkerRow {
    /// Whether the worker counts as alive.
    #[must_use]
    pub fn is_alive(&self, now: Mono) -> bool {
        self.lease > now
    }
}

impl Usage {
    /// Deviation of the waiting count that is not written by itself. Others use it only for estimates, and a
    /// write for each request of a growing queue would be costly.
    fn waiting_tolerance(self) -> u32 {
        const FEW: u32 = 8;
        FEW.max(self.waiting_count / 4)
    }

    /// Whether replacing it by `new` requires a write. `exact`: also for any change of the waiting count.
    fn differs_from(self, new: Usage, exact: bool) -> bool {
        let waiting_tolerance = if exact { 0 } else { self.waiting_tolerance() };
        let waiting_count = Usage {
            waiting_count: new.waiting_count,
            ..self
        };
        waiting_count != new || self.waiting_count.abs_diff(new.waiting_count) > waiting_tolerance
    }

    /// Slots that it counts for, given whether its worker is alive.
    #[must_use]
    pub fn counted(&self, is_alive: bool, now: Mono) -> u32 {
        if is_alive || self.until > now {
            self.taken
        } else {
            0
        }
    }
}

impl SlotTable {
    /// An empty table in place of one that is unreadable or gone, in quarantine.
    #[must_use]
    pub fn after_reset(now: Mono, timeouts: &Timeouts) -> SlotTable {
        SlotTable {
            resets: 1,
            quarantine_until: now + timeouts.quarantine,
            ..SlotTable::default()
        }
    }

    /// Usage of a variant by a worker, by row and column.
    #[must_use]
    pub fn usage(&self, row: usize, column: usize) -> Usage {
        self.at(row, column)
            .and_then(|at| self.usages.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// Workers, each with its usage of a variant.
    fn of_column(&self, column: usize) -> impl Iterator<Item = (&WorkerRow, &Usage)> {
        let height = self.rows.len();
        let usages = self.usages.get(column * height..(column + 1) * height);
        self.rows.iter().zip(usages.unwrap_or_default())
    }

    /// Row of a worker and column of a variant, if it has both.
    pub(super) fn place(&self, incarnation: u64, key: VariantKey) -> Option<(usize, usize)> {
        let own = |row: &WorkerRow| row.incarnation == incarnation;
        Some((self.rows.iter().position(own)?, self.column(key)?))
    }

    /// Column of a variant, if it has one.
    #[must_use]
    pub fn column(&self, key: VariantKey) -> Option<usize> {
        self.columns.iter().position(|column| column.key == key)
    }

    /// Slots taken of a variant, by live workers and by executions of dead ones.
    #[must_use]
    pub fn taken(&self, column: usize, now: Mono) -> u32 {
        self.other_workers(usize::MAX, column, now).taken
    }

    /// Requests waiting for a variant at live workers.
    #[must_use]
    pub fn waiting(&self, column: usize, now: Mono) -> u32 {
        self.other_workers(usize::MAX, column, now).waiting
    }

    /// Rows of the live workers except `incarnation`.
    pub fn others(&self, incarnation: u64, now: Mono) -> impl Iterator<Item = usize> + '_ {
        let is_alive = move |(_, row): &(usize, &WorkerRow)| {
            row.is_alive(now) && row.incarnation != incarnation
        };
        self.rows
            .iter()
            .enumerate()
            .filter(is_alive)
            .map(|(index, _)| index)
    }

    /// Requests held by live workers.
    #[must_use]
    pub fn held(&self, now: Mono) -> u32 {
        let living = self.rows.iter().filter(|row| row.is_alive(now));
        living.fold(0, |sum, row| sum.saturating_add(row.held))
    }

    /// Live workers that have had a request.
    #[must_use]
    pub fn workers(&self, now: Mono) -> u32 {
        let serves = |row: &&WorkerRow| row.is_alive(now) && row.serving;
        self.rows.iter().filter(serves).count() as u32
    }

    /// Worker that reports what each knows only for itself: the first of the serving workers, because one
    /// without requests has nothing to report. If none serves, the poller.
    #[must_use]
    pub fn reporter(&self, now: Mono) -> u64 {
        let serves = |row: &&WorkerRow| row.is_alive(now) && row.serving;
        let first = self.rows.iter().find(serves);
        first.map_or(self.poller.0, |row| row.incarnation)
    }

    /// Renews a worker's lease if it is due; returns whether that must be written.
    pub(super) fn renew_row(&mut self, own: usize, now: Mono, timeouts: &Timeouts) -> bool {
        let Some(row) = self.rows.get_mut(own) else {
            return false;
        };
        let due = row.lease < now + (timeouts.lease - timeouts.renewal);
        if due {
            row.lease = now + timeouts.lease;
        }
        due
    }

    /// Clears the notification of a worker that acquires; returns whether there was one. A renewal alone does
    /// not clear it: the worker that clears it must also acquire.
    pub(super) fn clear_notification(&mut self, own: usize) -> bool {
        let mark = self.rows.get_mut(own).map(|row| &mut row.notified_at);
        mark.is_some_and(|mark| std::mem::take(mark) != Mono(0))
    }

    /// Sets the usage of a variant by a worker; returns whether that must be written. `exact`: see
    /// [`Usage::differs_from`].
    pub(super) fn set_usage(
        &mut self,
        row: usize,
        column: usize,
        usage: Usage,
        exact: bool,
    ) -> bool {
        let place = self.at(row, column).and_then(|at| self.usages.get_mut(at));
        place.is_some_and(|existing| std::mem::replace(existing, usage).differs_from(usage, exact))
    }

    /// Sets the number of requests that may still leave with closed batches; returns whether it changed.
    pub(super) fn note_open(&mut self, column: usize, open: u32) -> bool {
        let place = self.columns.get_mut(column).map(|column| &mut column.open);
        place.is_some_and(|existing| std::mem::replace(existing, open) != open)
    }

    /// Usage of a variant by all workers except `own`. Compiled once, as scans are.
    #[inline(never)]
    pub(super) fn other_workers(&self, own: usize, column: usize, now: Mono) -> OtherWorkers {
        let mut others = OtherWorkers::default();
        for (index, (row, usage)) in self.of_column(column).enumerate() {
            if index == own {
                continue;
            }
            let is_alive = row.is_alive(now);
            let counted = usage.counted(is_alive, now);
            others.taken = others.taken.saturating_add(counted);
            others.uploads = others.uploads.saturating_add(usage.uploads.min(counted));
            if is_alive {
                others.waiting = others.waiting.saturating_add(usage.waiting_count);
            }
        }
        others
    }

    /// Live worker other than `own` with the most urgent request.
    pub(super) fn most_urgent_other(
        &self,
        own: usize,
        column: usize,
        now: Mono,
    ) -> Option<(usize, Urgency)> {
        let (head, rival) = self.next_other(own, column, None, now)?;
        Some((rival, head))
    }

    /// Live worker other than `own` that follows `after` in order of urgency.
    pub(super) fn next_other(
        &self,
        own: usize,
        column: usize,
        after: Option<(Urgency, usize)>,
        now: Mono,
    ) -> Option<(Urgency, usize)> {
        let others = self.of_column(column).enumerate();
        others
            .filter(|(index, (row, _))| *index != own && row.is_alive(now))
            .filter_map(|(index, (_, usage))| Some((usage.head?, index)))
            .filter(|place| after.is_none_or(|after| *place > after))
            .min()
    }

    /// Marks a live worker as notified; returns whether it was not yet.
    pub(super) fn notify(&mut self, row: usize, now: Mono) -> bool {
        match self.rows.get_mut(row) {
            Some(row) if row.is_alive(now) && row.notified_at == Mono(0) => {
                row.notified_at = now.max(Mono(1));
                true
            }
            _ => false,
        }
    }

    /// Revokes the reservation that a worker's most urgent request gives it.
    pub(super) fn revoke(&mut self, row: usize, column: usize) {
        let usage = self.usage(row, column);
        self.set_usage(
            row,
            column,
            Usage {
                head: None,
                ..usage
            },
            true,
        );
    }

    pub(super) fn touch_column(&mut self, column: usize, now: Mono, timeouts: &Timeouts) -> bool {
        let Some(column) = self.columns.get_mut(column) else {
            return false;
        };
        let due = column.used_at + timeouts.renewal <= now;
        if due {
            column.used_at = now;
        }
        due
    }

    pub(super) fn at(&self, row: usize, column: usize) -> Option<usize> {
        let known = row < self.rows.len() && column < self.columns.len();
        known.then(|| column * self.rows.len() + row)
    }
}
