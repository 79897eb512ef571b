//! Rows and columns of the slot table: assignment, and reuse of those nobody needs any more.

use super::{Board, COLUMNS_MAX, Cell, Column, ENTRIES_MAX, Entry, Terms};
use crate::time::Mono;
use crate::variant::Key;

impl Board {
    /// Gives a VM that has none an entry, with all it has and holds: what the board knew of it, if
    /// anything, is lost. Whether it had none and has one now.
    pub(super) fn join(
        &mut self,
        incarnation: u64,
        said: &[(Key, Cell)],
        now: Mono,
        terms: &Terms,
    ) -> bool {
        if self
            .entries
            .iter()
            .any(|entry| entry.incarnation == incarnation)
        {
            return false;
        }
        let Some(own) = self.entry_of(incarnation, now) else {
            return false;
        };
        self.restate(own, said, now, terms);
        true
    }

    /// Puts all that a VM has said of its variants, and nothing else, in its entry; whether that is news.
    pub(super) fn restate(
        &mut self,
        own: usize,
        said: &[(Key, Cell)],
        now: Mono,
        terms: &Terms,
    ) -> bool {
        let mut changed = false;
        for (key, _) in said {
            self.column_of(*key, now, terms);
        }
        for column in 0..self.columns.len() {
            let key = self.columns.get(column).map(|column| column.key);
            let of_it = said.iter().find(|(known, _)| Some(*known) == key);
            let cell = of_it.map(|(_, cell)| *cell).unwrap_or_default();
            changed |= self.put_cell(own, column, cell, false);
        }
        changed
    }

    /// A VM's entry: its own, one whose VM has died and whose work is over, or a new one. `None` where
    /// the board is full.
    pub(super) fn entry_of(&mut self, incarnation: u64, now: Mono) -> Option<usize> {
        let own = |entry: &Entry| entry.incarnation == incarnation;
        if let Some(index) = self.entries.iter().position(own) {
            return Some(index);
        }
        let fresh = Entry {
            incarnation,
            ..Entry::default()
        };
        let left = (0..self.entries.len()).find(|index| self.is_left(*index, now));
        if let Some(index) = left {
            *self.entries.get_mut(index)? = fresh;
            (0..self.columns.len()).for_each(|column| {
                self.put_cell(index, column, Cell::default(), true);
            });
            return Some(index);
        }
        if self.entries.len() >= ENTRIES_MAX {
            return None;
        }
        self.entries.push(fresh);
        self.cells
            .resize(self.entries.len() * self.columns.len(), Cell::default());
        Some(self.entries.len() - 1)
    }

    /// A variant's column: its own, that of a variant long gone, or a new one. `None` where the board
    /// is full.
    pub(super) fn column_of(&mut self, key: Key, now: Mono, terms: &Terms) -> Option<usize> {
        if let Some(index) = self.column(key) {
            return Some(index);
        }
        let fresh = Column {
            key,
            used_at: now,
            ..Column::default()
        };
        let gone = (0..self.columns.len()).find(|index| self.is_gone(*index, now, terms));
        if let Some(index) = gone {
            *self.columns.get_mut(index)? = fresh;
            self.forget_runs(index);
            (0..self.entries.len()).for_each(|entry| {
                self.put_cell(entry, index, Cell::default(), true);
            });
            return Some(index);
        }
        let width = self.columns.len();
        if width >= COLUMNS_MAX {
            return None;
        }
        self.columns.push(fresh);
        let rows = std::mem::take(&mut self.cells);
        for entry in 0..self.entries.len() {
            let row = rows
                .get(entry * width..(entry + 1) * width)
                .unwrap_or_default();
            self.cells.extend_from_slice(row);
            self.cells.push(Cell::default());
        }
        Some(width)
    }

    fn is_left(&self, entry: usize, now: Mono) -> bool {
        let lives = self.entries.get(entry).is_none_or(|entry| entry.lives(now));
        let mut columns = 0..self.columns.len();
        !lives && columns.all(|column| self.cell(entry, column).counts(false, now) == 0)
    }

    fn is_gone(&self, column: usize, now: Mono, terms: &Terms) -> bool {
        let silent = self
            .columns
            .get(column)
            .is_some_and(|state| state.used_at + terms.column_idle <= now);
        let mut entries = self.entries.iter().enumerate();
        silent
            && entries.all(|(index, entry)| {
                let cell = self.cell(index, column);
                let lives = entry.lives(now);
                cell.counts(lives, now) == 0 && !(lives && cell.head.is_some())
            })
    }
}
