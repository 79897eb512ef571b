//! A [`ByteStore`] in this process's memory, for tests and benches. Each clone is another VM's view of the same store.

use std::cell::RefCell;
use std::rc::Rc;

use super::{ByteStore, Notification};

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
        self.shared.borrow().bytes.clone()
    }

    /// Overwrites the bytes, as another program could that uses our key.
    pub fn overwrite(&self, bytes: Vec<u8>) {
        let mut shared = self.shared.borrow_mut();
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
    /// Begins a swap; returns whether it is carried out.
    fn swaps(&mut self, version: Option<u32>) -> bool {
        if self.swaps_to_fail > 0 {
            self.swaps_to_fail -= 1;
            return false;
        }
        if self.bytes.as_ref().map(|_| self.version) != version {
            return false;
        }
        self.version = self.version.wrapping_add(1);
        true
    }
}

impl ByteStore for Memory {
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        self.guess = None;
        let shared = self.shared.borrow();
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
        let into = shared.bytes.get_or_insert_default();
        into.clear();
        into.extend_from_slice(bytes);
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
