//! Slots of executions that a client or a timeout has abandoned.

use super::{Orphan, VariantSlots};
use crate::priority::ORPHAN_MAX;
use crate::time::Mono;

impl VariantSlots {
    /// Keeps a slot as orphaned until the server's predicted end, at most [`ORPHAN_MAX`] from `now`. `unique`
    /// distinguishes orphans with the same end.
    pub fn orphan(&mut self, now: Mono, end: Mono, unique: u64, ordinal: u32, sent: Mono) {
        if end > now {
            let end = end.min(now + ORPHAN_MAX);
            self.orphans.insert((end, unique, ordinal, sent));
            self.mark_open_ended(ordinal);
            self.leave();
        } else {
            self.release(ordinal);
        }
    }

    /// Releases the orphaned slots whose end has come; returns whether there were any.
    pub fn expire_orphans(&mut self, now: Mono) -> bool {
        let before = self.orphans.len();
        if before == 0 {
            return false;
        }
        while self.orphans.first().is_some_and(|(end, ..)| *end <= now)
            && let Some((_, _, ordinal, _)) = self.orphans.pop_first()
        {
            self.clear_open_ended(ordinal);
            self.end(ordinal);
        }
        self.reset_until();
        self.orphans.len() < before
    }

    /// Releases the orphaned slots of requests that were sent before one that has been answered: servers begin them in that
    /// order.
    pub fn release_passed(&mut self, answered: Mono) {
        let passed = |orphans: &std::collections::BTreeSet<Orphan>| {
            let mut all = orphans.iter();
            all.find(|(.., sent)| *sent < answered).copied()
        };
        while let Some(orphan) = passed(&self.orphans) {
            self.orphans.remove(&orphan);
            let (_, _, ordinal, _) = orphan;
            self.clear_open_ended(ordinal);
            self.end(ordinal);
            self.reset_until();
            self.reported.stale = true;
        }
    }
}
