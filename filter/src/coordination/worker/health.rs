//! Health of variants in the slot table: read by every worker at its renewal, written by the one that sees
//! a signal. Beside it, what all workers have measured.

use super::{AcquireResult, SyncResult, Worker};
use crate::coordination::lead::{Lead, Measured};
use crate::health::Healths;
use crate::time::{Mono, Span};
use crate::variant::VariantKey;

impl Worker {
    /// Health of a variant's servers, by the table as last loaded; `None` if it has no column.
    #[must_use]
    pub fn health(&self, variant: VariantKey) -> Option<Healths> {
        let table = &self.tables.borrow().slots;
        let column = table.columns.get(table.column(variant)?)?;
        Some(column.health)
    }

    /// Service time of a variant that all workers measured together for this planned one, by the table as last
    /// loaded.
    #[must_use]
    pub fn measured(&self, variant: VariantKey, planned: Span, now: Mono) -> Option<Measured> {
        self.lead(variant, planned)?.measured(now)
    }

    /// Measurements of a variant's gap for this planned service time, by the table as last loaded; `None` if it has no
    /// column.
    #[must_use]
    pub fn lead(&self, variant: VariantKey, planned: Span) -> Option<Lead> {
        let table = &self.tables.borrow().slots;
        let column = table.column(variant)?;
        Some(table.lead(column, planned))
    }

    /// Changes a variant's health for all workers; returns the new state. `None` if the table is full or all
    /// CAS attempts failed.
    pub fn note_health(
        &mut self,
        variant: VariantKey,
        now: Mono,
        change: impl Fn(&mut Healths),
    ) -> (Option<Healths>, SyncResult) {
        let incarnation = self.incarnation;
        let mut noted = None;
        let outcome = self.write(now, &mut |table, timeouts| {
            let own = table.assign_row(incarnation, now)?;
            let column = table.assign_column(variant, now, timeouts)?;
            let health = &mut table.columns.get_mut(column)?.health;
            let before = *health;
            change(health);
            noted = Some(*health);
            let changed = *health != before;
            Some((
                own,
                AcquireResult {
                    changed,
                    ..AcquireResult::default()
                },
            ))
        });
        (noted.filter(|_| !outcome.contended), outcome)
    }
}
