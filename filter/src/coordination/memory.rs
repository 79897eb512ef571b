//! A [`Store`] in this process's memory, for tests and replay. Each clone is another VM's view of the same
//! store.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Notification, Store};

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
        *self.shared.borrow_mut() = Shared::default();
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
}

impl Store for Memory {
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
        if shared.swaps_to_fail > 0 {
            shared.swaps_to_fail -= 1;
            return false;
        }
        if shared.bytes.is_some().then_some(shared.version) != version {
            return false;
        }
        let into = shared.bytes.get_or_insert_default();
        into.clear();
        into.extend_from_slice(bytes);
        shared.version = shared.version.wrapping_add(1);
        self.guess = Some(shared.version);
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
