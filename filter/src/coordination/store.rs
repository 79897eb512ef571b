//! Port to what all VMs of a proxy share: the slot table, the service times by group, and notifications.

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;

use super::{GroupTable, SlotTable, Unreadable};

/// Tables that a worker reads and changes.
#[derive(Debug, Default)]
pub struct Tables {
    /// Slot table.
    pub slots: SlotTable,
    /// Service times by group.
    pub groups: GroupTable,
}

/// Storage of the tables, and notification of VMs.
pub trait Store: Debug {
    /// Tables in which a worker works: its own copy, or those that all workers change in place.
    fn tables(&self) -> Rc<RefCell<Tables>>;
    /// Loads the slot table and returns its version, unless that is `known`: then it is `table` already. `None` if there
    /// is none yet. `bytes` is a buffer.
    fn load_table(
        &mut self,
        table: &mut SlotTable,
        bytes: &mut Vec<u8>,
        known: Option<u32>,
    ) -> Option<(u32, Result<(), Unreadable>)>;
    /// Replaces the slot table if its version is `version` (`None`: there is none yet); returns whether it did. `table` may
    /// be rounded to what its bytes can express.
    fn swap_table(
        &mut self,
        table: &mut SlotTable,
        bytes: &mut Vec<u8>,
        version: Option<u32>,
    ) -> bool;
    /// Loads the service times by group and returns their version; `None` if there are none yet.
    fn load_group_table(
        &mut self,
        groups: &mut GroupTable,
        bytes: &mut Vec<u8>,
    ) -> Option<(u32, Result<(), Unreadable>)>;
    /// Replaces the service times by group as [`Store::swap_table`] does the slot table.
    fn swap_group_table(
        &mut self,
        groups: &GroupTable,
        bytes: &mut Vec<u8>,
        version: Option<u32>,
    ) -> bool;
    /// Expected version of the slot table that was swapped in last, if nothing was loaded since. It may be wrong if
    /// another VM has written meanwhile, and must then be a version that was never ours.
    fn guess(&mut self) -> Option<u32>;
    /// Makes this VM the owner of a row, and of the notifications to it.
    fn claim_row(&mut self, row: usize);
    /// Notifies the VM that owns a row.
    fn notify(&mut self, row: usize, why: Notification);
}

/// Storage of the tables as bytes, such as Envoy's shared data. Each worker has a copy of the tables, which it reads from
/// the bytes and writes to them.
pub trait ByteStore: Debug {
    /// Loads the slot table's bytes and returns their version; `None` if there are none yet.
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32>;
    /// Replaces the bytes if their version is `version` (`None`: there are none yet); returns whether it did.
    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool;
    /// Loads the bytes of the service times by group and returns their version; `None` if there are none yet.
    fn load_groups(&mut self, into: &mut Vec<u8>) -> Option<u32>;
    /// Replaces these bytes as [`ByteStore::swap`] does the slot table's.
    fn swap_groups(&mut self, bytes: &[u8], version: Option<u32>) -> bool;
    /// Expected version of the slot table: see [`Store::guess`].
    fn guess(&mut self) -> Option<u32>;
    /// Makes this VM the owner of a row, and of the notifications to it.
    fn claim_row(&mut self, row: usize);
    /// Notifies the VM that owns a row.
    fn notify(&mut self, row: usize, why: Notification);
}

impl<B: ByteStore> Store for B {
    fn tables(&self) -> Rc<RefCell<Tables>> {
        Rc::default()
    }

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

    fn swap_table(
        &mut self,
        table: &mut SlotTable,
        bytes: &mut Vec<u8>,
        version: Option<u32>,
    ) -> bool {
        table.round();
        table.write(bytes);
        self.swap(bytes, version)
    }

    fn load_group_table(
        &mut self,
        groups: &mut GroupTable,
        bytes: &mut Vec<u8>,
    ) -> Option<(u32, Result<(), Unreadable>)> {
        let version = self.load_groups(bytes)?;
        Some((version, groups.read(bytes)))
    }

    fn swap_group_table(
        &mut self,
        groups: &GroupTable,
        bytes: &mut Vec<u8>,
        version: Option<u32>,
    ) -> bool {
        groups.write(bytes);
        self.swap_groups(bytes, version)
    }

    fn guess(&mut self) -> Option<u32> {
        ByteStore::guess(self)
    }

    fn claim_row(&mut self, row: usize) {
        ByteStore::claim_row(self, row);
    }

    fn notify(&mut self, row: usize, why: Notification) {
        ByteStore::notify(self, row, why);
    }
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
