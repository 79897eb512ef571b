//! Readings of the slot table that change nothing.

use super::{LaneBacklog, OtherWorkers, Scope, Worker};
use crate::coordination::curve::Curve;
use crate::coordination::limit::Limit;
use crate::time::{Mono, Span};
use crate::variant::VariantKey;

impl Worker {
    /// Slots taken of a variant, by the table as last loaded.
    #[must_use]
    pub fn taken(&self, variant: VariantKey, now: Mono) -> u32 {
        let table = &self.tables.borrow().slots;
        let column = table.column(variant);
        column.map_or(0, |column| table.taken(column, now))
    }

    /// Requests waiting for a variant at all live workers, by the table as last loaded.
    #[must_use]
    pub fn waiting(&self, variant: VariantKey, now: Mono) -> u32 {
        let table = &self.tables.borrow().slots;
        let column = table.column(variant);
        column.map_or(0, |column| table.waiting(column, now))
    }

    /// Limit of a variant and its server curve, by the table as last loaded; `None` without a table.
    #[must_use]
    pub fn curve(&self, variant: VariantKey) -> Option<(Limit, Curve)> {
        if self.scope == Scope::Worker {
            return None;
        }
        let table = &self.tables.borrow().slots;
        let column = table.columns.get(table.column(variant)?)?;
        Some((column.limit, column.curve))
    }

    /// Returns the others' usage of a variant of which `taken` slots are taken here, and the backlog of its
    /// lanes where one execution takes `mean`, by the table as last loaded.
    #[must_use]
    pub fn view(
        &self,
        variant: VariantKey,
        taken: u32,
        mean: Span,
        now: Mono,
    ) -> Option<(OtherWorkers, LaneBacklog)> {
        let table = &self.tables.borrow().slots;
        let (own, column) = table.place(self.incarnation, variant)?;
        let others = table.other_workers(own, column, now);
        let taken = taken.saturating_add(others.taken);
        let scan = table.scan(column, mean, now);
        Some((others, scan.backlog(table.behind(column), taken)))
    }
}
