//! The table's rows and columns: who has an row, which variant a column, and what may be used again.

use super::{OtherWorkers, Run, Timeouts};
use crate::coordination::lead::Lead;
use crate::health::Health;
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::VariantKey;

/// Who is on the table, what each has taken and holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SlotTable {
    /// Whether it was begun after_reset in place of one that was unreadable or gone: 1, or 0 for the first.
    pub resets: u32,
    /// Until then nobody takes more slots than it had: what others hold is not all known yet.
    pub quarantine_until: Mono,
    /// Which process: the incarnation of the VM that began the table.
    pub process_id: u64,
    /// The incarnation of the VM that polls the planner, and until when it does.
    pub poller: (u64, Mono),
    /// The variants.
    pub columns: Vec<VariantColumn>,
    /// The VMs.
    pub rows: Vec<WorkerRow>,
    /// What each VM has of each variant: `rows` × `columns`, row by row.
    pub(super) usages: Vec<Usage>,
    /// Executions of the variants' servers.
    pub runs: Vec<Run>,
}

/// One VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct WorkerRow {
    /// Which VM: each start of one is another.
    pub incarnation: u64,
    /// Until when it counted as alive without another sign.
    pub lease: Mono,
    /// When it was last rung and has not been back since; 0 for not at all.
    pub notified_at: Mono,
    /// Whether it has had a request.
    pub serving: bool,
    /// How many requests it holds, as it last published.
    pub held: u32,
}

/// One variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct VariantColumn {
    /// Which.
    pub key: VariantKey,
    /// Since when a slot is free while somebody waiting_count.
    pub idle_since: Option<Mono>,
    /// When somebody last spoke of it, to within a renewal.
    pub used_at: Mono,
    /// How many may still leave of batches closed.
    pub open: u32,
    /// Health of its servers, as any VM has seen them last.
    pub health: Health,
    /// The ordinal of the last request sent.
    pub sent: u32,
    /// The ordinal of the last that was begun.
    pub begun: u32,
    /// Time before a lane gets free at which the next is sent to it, as all VMs have seen.
    pub lead: Lead,
}

/// What one VM has of one variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// Slots taken, ghosts included.
    pub taken: u32,
    /// How many wait; where none leave in batches, to within [`Usage::waiting_tolerance`].
    pub waiting_count: u32,
    /// The latest predicted end of what is taken: should the VM die, until then it counted.
    pub until: Mono,
    /// The limit urgent of those who wait.
    pub head: Option<Urgency>,
}

impl WorkerRow {
    /// Whether the VM counted as alive.
    #[must_use]
    pub fn is_alive(&self, now: Mono) -> bool {
        self.lease > now
    }
}

impl Usage {
    /// How far the number of those who wait may be out before that alone is written: others only
    /// estimate by it, and a queue's growth by each request would be a write by each.
    fn waiting_tolerance(self) -> u32 {
        const FEW: u32 = 8;
        FEW.max(self.waiting_count / 4)
    }

    /// Whether `new` in its place has to be written. `exact`: also for any number of those who wait.
    fn differs_from(self, new: Usage, exact: bool) -> bool {
        let waiting_tolerance = if exact { 0 } else { self.waiting_tolerance() };
        let waiting_count = Usage {
            waiting_count: new.waiting_count,
            ..self
        };
        waiting_count != new || self.waiting_count.abs_diff(new.waiting_count) > waiting_tolerance
    }

    /// How many slots it counted for, its VM being alive or not.
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
    /// An empty table in place of one that is unreadable or gone.
    #[must_use]
    pub fn after_reset(now: Mono, timeouts: &Timeouts) -> SlotTable {
        SlotTable {
            resets: 1,
            quarantine_until: now + timeouts.quarantine,
            ..SlotTable::default()
        }
    }

    /// What a VM has of a variant, by row and column.
    #[must_use]
    pub fn usage(&self, row: usize, column: usize) -> Usage {
        self.at(row, column)
            .and_then(|at| self.usages.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// The column of a variant that is on the table.
    #[must_use]
    pub fn column(&self, key: VariantKey) -> Option<usize> {
        self.columns.iter().position(|column| column.key == key)
    }

    /// Slots taken of a variant, by the living and by those whose work outlives them.
    #[must_use]
    pub fn taken(&self, column: usize, now: Mono) -> u32 {
        self.other_workers(usize::MAX, column, now).taken
    }

    /// How many wait for a variant at those who live.
    #[must_use]
    pub fn waiting(&self, column: usize, now: Mono) -> u32 {
        self.other_workers(usize::MAX, column, now).waiting
    }

    /// The VMs that live, by row, but for `incarnation`.
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

    /// How many requests are held by those who live.
    #[must_use]
    pub fn held(&self, now: Mono) -> u32 {
        let living = self.rows.iter().filter(|row| row.is_alive(now));
        living.fold(0, |sum, row| sum.saturating_add(row.held))
    }

    /// How many VMs have had a request and live.
    #[must_use]
    pub fn workers(&self, now: Mono) -> u32 {
        let serves = |row: &&WorkerRow| row.is_alive(now) && row.serving;
        self.rows.iter().filter(serves).count() as u32
    }

    /// The VM that reports what each knows for itself only: the first of those that serve, so that one which
    /// has seen no request does not tell of it. While none serves, the one that polls.
    #[must_use]
    pub fn reporter(&self, now: Mono) -> u64 {
        let serves = |row: &&WorkerRow| row.is_alive(now) && row.serving;
        let first = self.rows.iter().find(serves);
        first.map_or(self.poller.0, |row| row.incarnation)
    }

    /// The VM is alive: its lease is renewed where it is due. Whether that has to be written.
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

    /// The VM has come for a slot: its notified is answered. Whether there was any. Not for a renewal
    /// alone: whoever clears the mark has to take what it was rung for.
    pub(super) fn clear_notification(&mut self, own: usize) -> bool {
        let mark = self.rows.get_mut(own).map(|row| &mut row.notified_at);
        mark.is_some_and(|mark| std::mem::take(mark) != Mono(0))
    }

    /// Puts what a VM has of a variant; whether that has to be written. `exact`: see
    /// [`Usage::differs_from`].
    pub(super) fn set_usage(
        &mut self,
        row: usize,
        column: usize,
        usage: Usage,
        exact: bool,
    ) -> bool {
        let place = self.at(row, column).and_then(|at| self.usages.get_mut(at));
        place.is_some_and(|there| std::mem::replace(there, usage).differs_from(usage, exact))
    }

    /// Says how many may still leave of batches closed; whether that is news.
    pub(super) fn note_open(&mut self, column: usize, open: u32) -> bool {
        let place = self.columns.get_mut(column).map(|column| &mut column.open);
        place.is_some_and(|there| std::mem::replace(there, open) != open)
    }

    /// What all VMs but `own` have of a variant.
    pub(super) fn other_workers(&self, own: usize, column: usize, now: Mono) -> OtherWorkers {
        let mut others = OtherWorkers::default();
        for (index, row) in self.rows.iter().enumerate() {
            if index == own {
                continue;
            }
            let (usage, is_alive) = (self.usage(index, column), row.is_alive(now));
            others.taken = others.taken.saturating_add(usage.counted(is_alive, now));
            if is_alive {
                others.waiting = others.waiting.saturating_add(usage.waiting_count);
            }
        }
        others
    }

    /// Who else is_alive and holds the limit urgent.
    pub(super) fn most_urgent_other(
        &self,
        own: usize,
        column: usize,
        now: Mono,
    ) -> Option<(usize, Urgency)> {
        let (head, rival) = self.next_other(own, column, None, now)?;
        Some((rival, head))
    }

    /// Who of the others that live comes next after `after`, by what each holds limit urgent.
    pub(super) fn next_other(
        &self,
        own: usize,
        column: usize,
        after: Option<(Urgency, usize)>,
        now: Mono,
    ) -> Option<(Urgency, usize)> {
        let others = self.rows.iter().enumerate();
        others
            .filter(|(index, row)| *index != own && row.is_alive(now))
            .filter_map(|(index, _)| Some((self.usage(index, column).head?, index)))
            .filter(|place| after.is_none_or(|after| *place > after))
            .min()
    }

    /// Marks a VM that is_alive as rung; whether it was not yet.
    pub(super) fn notify(&mut self, row: usize, now: Mono) -> bool {
        match self.rows.get_mut(row) {
            Some(row) if row.is_alive(now) && row.notified_at == Mono(0) => {
                row.notified_at = now.max(Mono(1));
                true
            }
            _ => false,
        }
    }

    /// Takes from a VM the right of first claim that what it holds gives.
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
        known.then(|| row * self.columns.len() + column)
    }
}
