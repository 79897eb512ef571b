//! Readings of the slot table that change nothing.

use std::time::Duration;

use super::{LaneBacklog, OtherWorkers, Worker, WorkerRow};
use crate::time::Mono;
use crate::variant::VariantKey;

impl Worker {
    /// Slots taken of a variant, by the table as last loaded.
    #[must_use]
    pub fn taken(&self, variant: VariantKey, now: Mono) -> u32 {
        let column = self.table.column(variant);
        column.map_or(0, |column| self.table.taken(column, now))
    }

    /// Requests waiting for a variant at all live workers, by the table as last loaded.
    #[must_use]
    pub fn waiting(&self, variant: VariantKey, now: Mono) -> u32 {
        let column = self.table.column(variant);
        column.map_or(0, |column| self.table.waiting(column, now))
    }

    /// Row of this worker and column of a variant, by the table as last loaded.
    pub(super) fn place(&self, variant: VariantKey) -> Option<(usize, usize)> {
        let own = |row: &WorkerRow| row.incarnation == self.incarnation;
        let own = self.table.rows.iter().position(own)?;
        Some((own, self.table.column(variant)?))
    }

    /// Returns the others' usage of a variant of which `taken` slots are taken here, and the backlog of its
    /// lanes where one execution takes `mean`, by the table as last loaded.
    #[must_use]
    pub fn view(
        &self,
        variant: VariantKey,
        taken: u32,
        mean: Duration,
        now: Mono,
    ) -> Option<(OtherWorkers, LaneBacklog)> {
        let (own, column) = self.place(variant)?;
        let others = self.table.other_workers(own, column, now);
        let taken = taken.saturating_add(others.taken);
        let scan = self.table.scan(column, mean, now);
        Some((others, scan.backlog(self.table.behind(column), taken)))
    }
}
