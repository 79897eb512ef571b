//! Exchange of the service times by group among all workers of a proxy, at each one's renewal.
//!
//! A worker adds what it has measured since its last swap, and reads the sums of all. Each measurement is added by one
//! swap, so it counts once, and a worker that dies takes nothing along but what it measured since.

use std::cell::Ref;

use super::{TRIES_MAX, Worker};
use crate::coordination::GroupTable;
use crate::routing::group_sums::GroupSums;
use crate::time::Mono;
use crate::variant::VariantKey;

impl Worker {
    /// Adds this worker's new measurements to those of all workers, and reads these. Returns whether it did, and the
    /// number of CAS attempts that failed. If all failed, the measurements are as new as before.
    ///
    /// Unreadable or missing shared bytes are replaced by the sums that this worker read last. Only one worker's swap can
    /// do that; the others add to it.
    pub fn share_groups<'a>(
        &mut self,
        own: impl Iterator<Item = (VariantKey, &'a GroupSums)> + Clone,
        now: Mono,
    ) -> (bool, u32) {
        let groups = &mut self.tables.borrow_mut().groups;
        for conflicts in 0..TRIES_MAX {
            let loaded = self.store.load_group_table(groups, &mut self.bytes);
            let mut changed = loaded.is_some_and(|(_, read)| read.is_err());
            groups.expire(now);
            for (key, sums) in own.clone() {
                changed |= groups.add(key, sums).unwrap_or(false);
            }
            if !changed {
                return (true, conflicts);
            }
            let version = loaded.map(|(version, _)| version);
            if (self.store).swap_group_table(groups, &mut self.bytes, version) {
                return (true, conflicts);
            }
            // It has the own measurements, which the next attempt adds.
            groups.clear();
        }
        (false, TRIES_MAX)
    }

    /// Sums of all workers, by the last exchange.
    #[must_use]
    pub fn groups(&self) -> Ref<'_, GroupTable> {
        Ref::map(self.tables.borrow(), |tables| &tables.groups)
    }
}
