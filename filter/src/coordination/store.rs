//! Port to what all VMs of a proxy share: the bytes of the slot table, those of the service times by group, and
//! notifications.

use std::fmt::Debug;

use super::{SlotTable, Unreadable};

/// Storage of the tables, and notification of VMs.
pub trait Store: Debug {
    /// Loads the table's bytes and returns their version; `None` if there are none yet.
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32>;
    /// Replaces the bytes if their version is `version` (`None`: there are none yet); returns whether it did.
    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool;
    /// Loads and reads the table, unless its version is `known`: then it is `table` already. `bytes` is a buffer.
    fn load_table(
        &mut self,
        table: &mut SlotTable,
        bytes: &mut Vec<u8>,
        known: Option<u32>,
    ) -> Option<(u32, Result<(), Unreadable>)> {
        let version = self.load(bytes)?;
        if known == Some(version) {
            return Some((version, Ok(())));
        }
        Some((version, table.read(bytes)))
    }
    /// Writes the table and swaps it in, as [`Store::swap`] does; `bytes` is a buffer.
    fn swap_table(&mut self, table: &SlotTable, bytes: &mut Vec<u8>, version: Option<u32>) -> bool {
        table.write(bytes);
        self.swap(bytes, version)
    }
    /// Loads the bytes of the service times by group and returns their version; `None` if there are none yet.
    fn load_groups(&mut self, into: &mut Vec<u8>) -> Option<u32>;
    /// Replaces these bytes as [`Store::swap`] does the slot table's.
    fn swap_groups(&mut self, bytes: &[u8], version: Option<u32>) -> bool;
    /// Expected version of the bytes that were swapped in last, if nothing was loaded since. It may be wrong if
    /// another VM has written meanwhile, and must then be a version that was never ours.
    fn guess(&mut self) -> Option<u32>;
    /// Makes this VM the owner of a row, and of the notifications to it.
    fn claim_row(&mut self, row: usize);
    /// Notifies the VM that owns a row.
    fn notify(&mut self, row: usize, why: Notification);
}

/// Reason of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Notification {
    /// A slot is free for one of its requests.
    Slot,
    /// There is a new plan.
    Plan,
    /// A variant has started or stopped failing.
    Health,
}
