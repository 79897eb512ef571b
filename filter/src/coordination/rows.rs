//! Rows and columns of the slot table: assignment, and reuse of those no longer needed.

use super::{COLUMNS_MAX, ROWS_MAX, Runs, SlotTable, Timeouts, Usage, VariantColumn, WorkerRow};
use crate::time::Mono;
use crate::variant::VariantKey;

impl SlotTable {
    /// Gives a worker without a row one, with its published usage; anything that the table knew of it is lost.
    /// Returns whether it got a new row.
    pub(super) fn join(
        &mut self,
        incarnation: u64,
        published: &[(VariantKey, Usage)],
        now: Mono,
        timeouts: &Timeouts,
    ) -> bool {
        if self.rows.iter().any(|row| row.incarnation == incarnation) {
            return false;
        }
        let Some(own) = self.assign_row(incarnation, now) else {
            return false;
        };
        self.restate(own, published, now, timeouts);
        true
    }

    /// Writes all that a worker has published, and nothing else, to its row; returns whether anything changed.
    pub(super) fn restate(
        &mut self,
        own: usize,
        published: &[(VariantKey, Usage)],
        now: Mono,
        timeouts: &Timeouts,
    ) -> bool {
        let mut changed = false;
        for (key, _) in published {
            self.assign_column(*key, now, timeouts);
        }
        for column in 0..self.columns.len() {
            let key = self.columns.get(column).map(|column| column.key);
            let of_it = published.iter().find(|(known, _)| Some(*known) == key);
            let usage = of_it.map(|(_, usage)| *usage).unwrap_or_default();
            changed |= self.set_usage(own, column, usage, false);
        }
        changed
    }

    /// Row of a worker: its own, that of a dead worker whose executions are over, or a new one. `None` if the
    /// table is full.
    pub(super) fn assign_row(&mut self, incarnation: u64, now: Mono) -> Option<usize> {
        let own = |row: &WorkerRow| row.incarnation == incarnation;
        if let Some(index) = self.rows.iter().position(own) {
            return Some(index);
        }
        let fresh = WorkerRow {
            incarnation,
            ..WorkerRow::default()
        };
        let left = (0..self.rows.len()).find(|index| self.is_row_reusable(*index, now));
        if let Some(index) = left {
            *self.rows.get_mut(index)? = fresh;
            (0..self.columns.len()).for_each(|column| {
                self.set_usage(index, column, Usage::default(), true);
            });
            return Some(index);
        }
        if self.rows.len() >= ROWS_MAX {
            return None;
        }
        let height = self.rows.len();
        self.rows.push(fresh);
        let columns = std::mem::take(&mut self.usages);
        for column in 0..self.columns.len() {
            let column = columns.get(column * height..(column + 1) * height);
            self.usages.extend_from_slice(column.unwrap_or_default());
            self.usages.push(Usage::default());
        }
        Some(height)
    }

    /// Column of a variant: its own, that of a variant long unused, or a new one. `None` if the table is full.
    pub(super) fn assign_column(
        &mut self,
        key: VariantKey,
        now: Mono,
        timeouts: &Timeouts,
    ) -> Option<usize> {
        if let Some(index) = self.column(key) {
            return Some(index);
        }
        let fresh = VariantColumn {
            key,
            used_at: now,
            ..VariantColumn::default()
        };
        let reusable =
            (0..self.columns.len()).find(|index| self.is_column_reusable(*index, now, timeouts));
        if let Some(index) = reusable {
            *self.columns.get_mut(index)? = fresh;
            self.forget_runs(index);
            (0..self.rows.len()).for_each(|row| {
                self.set_usage(row, index, Usage::default(), true);
            });
            return Some(index);
        }
        let width = self.columns.len();
        if width >= COLUMNS_MAX {
            return None;
        }
        self.columns.push(fresh);
        self.runs.push(Runs::default());
        self.usages
            .resize(self.rows.len() * self.columns.len(), Usage::default());
        Some(width)
    }

    fn is_row_reusable(&self, row: usize, now: Mono) -> bool {
        let is_alive = self.rows.get(row).is_none_or(|row| row.is_alive(now));
        let mut columns = 0..self.columns.len();
        !is_alive && columns.all(|column| self.usage(row, column).counted(false, now) == 0)
    }

    fn is_column_reusable(&self, column: usize, now: Mono, timeouts: &Timeouts) -> bool {
        let silent = self
            .columns
            .get(column)
            .is_some_and(|state| state.used_at + timeouts.column_idle <= now);
        let mut rows = self.rows.iter().enumerate();
        silent
            && rows.all(|(index, row)| {
                let usage = self.usage(index, column);
                let is_alive = row.is_alive(now);
                usage.counted(is_alive, now) == 0 && !(is_alive && usage.head.is_some())
            })
    }
}
