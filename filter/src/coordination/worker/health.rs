//! Variants' health on the board: read by every VM at its renewal, written by whichever sees a sign of it.

use super::{Member, Outcome, Turn};
use crate::health::Health;
use crate::time::Mono;
use crate::variant::Key;

impl Member {
    /// How a variant's servers are, as any VM had seen them when the board was last looked at; `None` where
    /// it has no column.
    #[must_use]
    pub fn health(&self, variant: Key) -> Option<Health> {
        let column = self.board.columns.get(self.board.column(variant)?)?;
        Some(column.health)
    }

    /// Changes a variant's health for all VMs; what it is then. `None` where the board is full or all tries
    /// were lost.
    pub fn note_health(
        &mut self,
        variant: Key,
        now: Mono,
        change: impl Fn(&mut Health),
    ) -> (Option<Health>, Outcome) {
        let incarnation = self.incarnation;
        let mut noted = None;
        let outcome = self.write(now, |board, terms| {
            let own = board.entry_of(incarnation, now)?;
            let column = board.column_of(variant, now, terms)?;
            let health = &mut board.columns.get_mut(column)?.health;
            let before = *health;
            change(health);
            noted = Some(*health);
            let changed = *health != before;
            Some((
                own,
                Turn {
                    changed,
                    ..Turn::default()
                },
            ))
        });
        (noted.filter(|_| !outcome.unsettled), outcome)
    }
}
