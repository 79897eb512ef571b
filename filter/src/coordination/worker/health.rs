//! Variants' health on the table: read by every VM at its renewal, written by whichever sees a sign of it.

use super::{AcquireResult, SyncResult, Worker};
use crate::health::Health;
use crate::time::Mono;
use crate::variant::VariantKey;

impl Worker {
    /// How a variant's servers are, as any VM had seen them when the table was last looked at; `None` where
    /// it has no column.
    #[must_use]
    pub fn health(&self, variant: VariantKey) -> Option<Health> {
        let column = self.table.columns.get(self.table.column(variant)?)?;
        Some(column.health)
    }

    /// Changes a variant's health for all VMs; what it is then. `None` where the table is full or all tries
    /// were lost.
    pub fn note_health(
        &mut self,
        variant: VariantKey,
        now: Mono,
        change: impl Fn(&mut Health),
    ) -> (Option<Health>, SyncResult) {
        let incarnation = self.incarnation;
        let mut noted = None;
        let outcome = self.write(now, |table, timeouts| {
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
