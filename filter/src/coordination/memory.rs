//! A [`Store`] in this process's memory, for tests and replay. Each clone is another VM's view of the same
//! store. It keeps the table as it was swapped in, and encodes it only where its bytes are wanted: a replay would spend
//! most of its time on checksums.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Notification, SlotTable, Store, Unreadable};

/// Handle to a store that VMs of one thread share.
#[derive(Debug, Default)]
pub struct Memory {
    shared: Rc<RefCell<Shared>>,
    guess: Option<u32>,
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        Memory {
            shared: Rc::clone(&self.shared),
            guess: None,
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    bytes: Option<Vec<u8>>,
    /// Table of which `bytes` are not written yet.
    table: Option<SlotTable>,
    /// Table that has been replaced by bytes, for its buffers.
    spare: SlotTable,
    version: u32,
    notifies: Vec<(usize, Notification)>,
    claimed_rows: Vec<usize>,
    swaps_to_fail: u32,
    groups: Groups,
}

/// Service times by group.
#[derive(Debug, Default)]
struct Groups {
    bytes: Option<Vec<u8>>,
    version: u32,
    swaps_to_fail: u32,
}

impl Memory {
    /// Returns the notifications since the last call, by row.
    #[must_use]
    pub fn take_notifications(&self) -> Vec<(usize, Notification)> {
        std::mem::take(&mut self.shared.borrow_mut().notifies)
    }

    /// Swaps the notifications since the last call for an empty buffer, so that neither side allocates a new one.
    pub fn swap_notifications(&self, buffer: &mut Vec<(usize, Notification)>) {
        buffer.clear();
        std::mem::swap(&mut self.shared.borrow_mut().notifies, buffer);
    }

    /// Returns the rows claimed since the last call; the last one belongs to the VM that acted last.
    #[must_use]
    pub fn take_claimed_rows(&self) -> Vec<usize> {
        std::mem::take(&mut self.shared.borrow_mut().claimed_rows)
    }

    /// Clears the store, as a new process does.
    pub fn clear(&self) {
        let mut shared = self.shared.borrow_mut();
        // No version is used twice: a worker takes what it knows of a version for that table.
        let version = shared.version.wrapping_add(1);
        *shared = Shared {
            version,
            ..Shared::default()
        };
    }

    /// Bytes of the store.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut shared = self.shared.borrow_mut();
        shared.encode();
        shared.bytes.clone()
    }

    /// Overwrites the bytes, as another program could that uses our key.
    pub fn overwrite(&self, bytes: Vec<u8>) {
        let mut shared = self.shared.borrow_mut();
        shared.forget_table();
        shared.bytes = Some(bytes);
        shared.version = shared.version.wrapping_add(1);
    }

    /// Makes the next `count` swaps fail, as if another VM were quicker.
    pub fn fail_swaps(&self, count: u32) {
        self.shared.borrow_mut().swaps_to_fail = count;
    }

    /// The same for the service times by group.
    pub fn fail_group_swaps(&self, count: u32) {
        self.shared.borrow_mut().groups.swaps_to_fail = count;
    }

    /// Overwrites the bytes of the service times by group; `None`: as if there never were any.
    pub fn overwrite_groups(&self, bytes: Option<Vec<u8>>) {
        let groups = &mut self.shared.borrow_mut().groups;
        groups.bytes = bytes;
        groups.version = groups.version.wrapping_add(1);
    }
}

impl Shared {
    /// Writes the bytes of the table, if there is one.
    fn encode(&mut self) {
        if let Some(table) = self.table.take() {
            table.write(self.bytes.get_or_insert_default());
            self.spare = table;
        }
    }

    fn forget_table(&mut self) {
        if let Some(table) = self.table.take() {
            self.spare = table;
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_none() && self.table.is_none()
    }

    /// Begins a swap; returns whether it is carried out.
    fn swaps(&mut self, version: Option<u32>) -> bool {
        if self.swaps_to_fail > 0 {
            self.swaps_to_fail -= 1;
            return false;
        }
        if (!self.is_empty()).then_some(self.version) != version {
            return false;
        }
        self.version = self.version.wrapping_add(1);
        true
    }
}

impl Store for Memory {
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        self.guess = None;
        let mut shared = self.shared.borrow_mut();
        shared.encode();
        let bytes = shared.bytes.as_ref()?;
        into.clear();
        into.extend_from_slice(bytes);
        Some(shared.version)
    }

    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        let mut shared = self.shared.borrow_mut();
        if !shared.swaps(version) {
            return false;
        }
        shared.forget_table();
        let into = shared.bytes.get_or_insert_default();
        into.clear();
        into.extend_from_slice(bytes);
        self.guess = Some(shared.version);
        true
    }

    fn load_table(
        &mut self,
        table: &mut SlotTable,
        bytes: &mut Vec<u8>,
        known: Option<u32>,
    ) -> Option<(u32, Result<(), Unreadable>)> {
        self.guess = None;
        let shared = self.shared.borrow();
        let version = shared.version;
        if known == Some(version) && !shared.is_empty() {
            return Some((version, Ok(())));
        }
        if let Some(shared) = &shared.table {
            table.copy_from(shared);
            return Some((version, Ok(())));
        }
        drop(shared);
        let version = self.load(bytes)?;
        Some((version, table.read(bytes)))
    }

    fn swap_table(&mut self, table: &SlotTable, _: &mut Vec<u8>, version: Option<u32>) -> bool {
        let mut shared = self.shared.borrow_mut();
        if !shared.swaps(version) {
            return false;
        }
        let mut known = match shared.table.take() {
            Some(known) => known,
            None => std::mem::take(&mut shared.spare),
        };
        known.copy_from(table);
        debug_assert!(
            !cfg!(test) || known.is_read_back(),
            "a table that is read as another"
        );
        shared.table = Some(known);
        self.guess = Some(shared.version);
        true
    }

    fn load_groups(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        let groups = &self.shared.borrow().groups;
        into.clone_from(groups.bytes.as_ref()?);
        Some(groups.version)
    }

    fn swap_groups(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        let groups = &mut self.shared.borrow_mut().groups;
        if groups.swaps_to_fail > 0 {
            groups.swaps_to_fail -= 1;
            return false;
        }
        if groups.bytes.as_ref().map(|_| groups.version) != version {
            return false;
        }
        groups.version = groups.version.wrapping_add(1);
        let into = groups.bytes.get_or_insert_default();
        into.clear();
        into.extend_from_slice(bytes);
        true
    }

    fn guess(&mut self) -> Option<u32> {
        self.guess.take()
    }

    fn claim_row(&mut self, row: usize) {
        self.shared.borrow_mut().claimed_rows.push(row);
    }

    fn notify(&mut self, row: usize, why: Notification) {
        self.shared.borrow_mut().notifies.push((row, why));
    }
}
