//! The board's rows and columns: who has an entry, which variant a column, and what may be used again.

use super::{Others, Run, Terms};
use crate::coordination::lead::Lead;
use crate::health::Health;
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::Key;

/// Who is on the board, what each has taken and holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Board {
    /// Whether it was begun anew in place of one that was unreadable or gone: 1, or 0 for the first.
    pub resets: u32,
    /// Until then nobody takes more slots than it had: what others hold is not all known yet.
    pub settling_until: Mono,
    /// Which process: the incarnation of the VM that began the board.
    pub founder: u64,
    /// The incarnation of the VM that polls the planner, and until when it does.
    pub poller: (u64, Mono),
    /// The variants.
    pub columns: Vec<Column>,
    /// The VMs.
    pub entries: Vec<Entry>,
    /// What each VM has of each variant: `entries` × `columns`, row by row.
    pub(super) cells: Vec<Cell>,
    /// Executions of the variants' servers.
    pub runs: Vec<Run>,
}

/// One VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Which VM: each start of one is another.
    pub incarnation: u64,
    /// Until when it counts as alive without another sign.
    pub lease: Mono,
    /// When it was last rung and has not been back since; 0 for not at all.
    pub rung_at: Mono,
    /// Whether it has had a request.
    pub serving: bool,
    /// How many requests it holds, as it last said.
    pub held: u32,
}

/// One variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Column {
    /// Which.
    pub key: Key,
    /// Since when a slot is free while somebody waits.
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
pub struct Cell {
    /// Slots taken, ghosts included.
    pub taken: u32,
    /// How many wait; where none leave in batches, to within [`Cell::aged`].
    pub waits: u32,
    /// The latest predicted end of what is taken: should the VM die, until then it counts.
    pub until: Mono,
    /// The most urgent of those who wait.
    pub head: Option<Urgency>,
}

impl Entry {
    /// Whether the VM counts as alive.
    #[must_use]
    pub fn lives(&self, now: Mono) -> bool {
        self.lease > now
    }
}

impl Cell {
    /// How far the number of those who wait may be out before that alone is written: others only
    /// estimate by it, and a queue's growth by each request would be a write by each.
    fn aged(self) -> u32 {
        const FEW: u32 = 8;
        FEW.max(self.waits / 4)
    }

    /// Whether `new` in its place has to be written. `exact`: also for any number of those who wait.
    fn is_outdated_by(self, new: Cell, exact: bool) -> bool {
        let aged = if exact { 0 } else { self.aged() };
        let waits = Cell {
            waits: new.waits,
            ..self
        };
        waits != new || self.waits.abs_diff(new.waits) > aged
    }

    /// How many slots it counts for, its VM being alive or not.
    #[must_use]
    pub fn counts(&self, lives: bool, now: Mono) -> u32 {
        if lives || self.until > now {
            self.taken
        } else {
            0
        }
    }
}

impl Board {
    /// An empty board in place of one that is unreadable or gone.
    #[must_use]
    pub fn anew(now: Mono, terms: &Terms) -> Board {
        Board {
            resets: 1,
            settling_until: now + terms.settling,
            ..Board::default()
        }
    }

    /// What a VM has of a variant, by entry and column.
    #[must_use]
    pub fn cell(&self, entry: usize, column: usize) -> Cell {
        self.at(entry, column)
            .and_then(|at| self.cells.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// The column of a variant that is on the board.
    #[must_use]
    pub fn column(&self, key: Key) -> Option<usize> {
        self.columns.iter().position(|column| column.key == key)
    }

    /// Slots taken of a variant, by the living and by those whose work outlives them.
    #[must_use]
    pub fn taken(&self, column: usize, now: Mono) -> u32 {
        self.others_of(usize::MAX, column, now).taken
    }

    /// How many wait for a variant at those who live.
    #[must_use]
    pub fn waiting(&self, column: usize, now: Mono) -> u32 {
        self.others_of(usize::MAX, column, now).waiting
    }

    /// The VMs that live, by entry, but for `incarnation`.
    pub fn others(&self, incarnation: u64, now: Mono) -> impl Iterator<Item = usize> + '_ {
        let lives = move |(_, entry): &(usize, &Entry)| {
            entry.lives(now) && entry.incarnation != incarnation
        };
        self.entries
            .iter()
            .enumerate()
            .filter(lives)
            .map(|(index, _)| index)
    }

    /// How many requests are held by those who live.
    #[must_use]
    pub fn held(&self, now: Mono) -> u32 {
        let living = self.entries.iter().filter(|entry| entry.lives(now));
        living.fold(0, |sum, entry| sum.saturating_add(entry.held))
    }

    /// How many VMs have had a request and live.
    #[must_use]
    pub fn workers(&self, now: Mono) -> u32 {
        let serves = |entry: &&Entry| entry.lives(now) && entry.serving;
        self.entries.iter().filter(serves).count() as u32
    }

    /// The VM that reports what each knows for itself only: the first of those that serve, so that one which
    /// has seen no request does not tell of it. While none serves, the one that polls.
    #[must_use]
    pub fn reporter(&self, now: Mono) -> u64 {
        let serves = |entry: &&Entry| entry.lives(now) && entry.serving;
        let first = self.entries.iter().find(serves);
        first.map_or(self.poller.0, |entry| entry.incarnation)
    }

    /// The VM is alive: its lease is renewed where it is due. Whether that has to be written.
    pub(super) fn renew_entry(&mut self, own: usize, now: Mono, terms: &Terms) -> bool {
        let Some(entry) = self.entries.get_mut(own) else {
            return false;
        };
        let due = entry.lease < now + (terms.lease - terms.renewal);
        if due {
            entry.lease = now + terms.lease;
        }
        due
    }

    /// The VM has come for a slot: its ring is answered. Whether there was any. Not for a renewal
    /// alone: whoever clears the mark has to take what it was rung for.
    pub(super) fn answer_ring(&mut self, own: usize) -> bool {
        let mark = self.entries.get_mut(own).map(|entry| &mut entry.rung_at);
        mark.is_some_and(|mark| std::mem::take(mark) != Mono(0))
    }

    /// Puts what a VM has of a variant; whether that has to be written. `exact`: see
    /// [`Cell::is_outdated_by`].
    pub(super) fn put_cell(
        &mut self,
        entry: usize,
        column: usize,
        cell: Cell,
        exact: bool,
    ) -> bool {
        let place = self.at(entry, column).and_then(|at| self.cells.get_mut(at));
        place.is_some_and(|there| std::mem::replace(there, cell).is_outdated_by(cell, exact))
    }

    /// Says how many may still leave of batches closed; whether that is news.
    pub(super) fn note_open(&mut self, column: usize, open: u32) -> bool {
        let place = self.columns.get_mut(column).map(|column| &mut column.open);
        place.is_some_and(|there| std::mem::replace(there, open) != open)
    }

    /// What all VMs but `own` have of a variant.
    pub(super) fn others_of(&self, own: usize, column: usize, now: Mono) -> Others {
        let mut others = Others::default();
        for (index, entry) in self.entries.iter().enumerate() {
            if index == own {
                continue;
            }
            let (cell, lives) = (self.cell(index, column), entry.lives(now));
            others.taken = others.taken.saturating_add(cell.counts(lives, now));
            if lives {
                others.waiting = others.waiting.saturating_add(cell.waits);
            }
        }
        others
    }

    /// Who else lives and holds the most urgent.
    pub(super) fn earliest_other(
        &self,
        own: usize,
        column: usize,
        now: Mono,
    ) -> Option<(usize, Urgency)> {
        let (head, rival) = self.next_other(own, column, None, now)?;
        Some((rival, head))
    }

    /// Who of the others that live comes next after `after`, by what each holds most urgent.
    pub(super) fn next_other(
        &self,
        own: usize,
        column: usize,
        after: Option<(Urgency, usize)>,
        now: Mono,
    ) -> Option<(Urgency, usize)> {
        let others = self.entries.iter().enumerate();
        others
            .filter(|(index, entry)| *index != own && entry.lives(now))
            .filter_map(|(index, _)| Some((self.cell(index, column).head?, index)))
            .filter(|place| after.is_none_or(|after| *place > after))
            .min()
    }

    /// Marks a VM that lives as rung; whether it was not yet.
    pub(super) fn mark(&mut self, entry: usize, now: Mono) -> bool {
        match self.entries.get_mut(entry) {
            Some(entry) if entry.lives(now) && entry.rung_at == Mono(0) => {
                entry.rung_at = now.max(Mono(1));
                true
            }
            _ => false,
        }
    }

    /// Takes from a VM the right of first claim that what it holds gives.
    pub(super) fn strike(&mut self, entry: usize, column: usize) {
        let cell = self.cell(entry, column);
        self.put_cell(entry, column, Cell { head: None, ..cell }, true);
    }

    pub(super) fn speak_of(&mut self, column: usize, now: Mono, terms: &Terms) -> bool {
        let Some(column) = self.columns.get_mut(column) else {
            return false;
        };
        let due = column.used_at + terms.renewal <= now;
        if due {
            column.used_at = now;
        }
        due
    }

    pub(super) fn at(&self, entry: usize, column: usize) -> Option<usize> {
        let known = entry < self.entries.len() && column < self.columns.len();
        known.then(|| entry * self.columns.len() + column)
    }
}
