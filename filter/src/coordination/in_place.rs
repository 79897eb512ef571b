//! A [`Store`] of workers that take turns in one thread, as those of a replay do: all change the same tables, so nothing
//! is encoded or copied, and a swap fails only if the tables have been cleared.

use std::cell::RefCell;
use std::rc::Rc;

use super::{GroupTable, Notification, SlotTable, Store, Tables, Unreadable};

/// Version of the tables, as long as there are any.
const VERSION: u32 = 0;

/// Handle to the tables. Each clone is another worker's.
#[derive(Debug, Clone, Default)]
pub struct InPlace {
    tables: Rc<RefCell<Tables>>,
    shared: Rc<RefCell<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether there is a slot table.
    exists: bool,
    notifies: Vec<(usize, Notification)>,
    claimed_row: Option<usize>,
}

impl InPlace {
    /// Swaps the notifications since the last call, by row, for an empty buffer, so that neither side allocates a new one.
    pub fn swap_notifications(&self, buffer: &mut Vec<(usize, Notification)>) {
        buffer.clear();
        std::mem::swap(&mut self.shared.borrow_mut().notifies, buffer);
    }

    /// Row of the worker that acted last, if it got one since the last call.
    #[must_use]
    pub fn take_claimed_row(&self) -> Option<usize> {
        self.shared.borrow_mut().claimed_row.take()
    }

    /// Slot table.
    #[must_use]
    pub fn slots(&self) -> SlotTable {
        self.tables.borrow().slots.clone()
    }

    /// Clears the tables, as a new process does.
    pub fn clear(&self) {
        *self.tables.borrow_mut() = Tables::default();
        *self.shared.borrow_mut() = Shared::default();
    }
}

impl Store for InPlace {
    fn tables(&self) -> Rc<RefCell<Tables>> {
        Rc::clone(&self.tables)
    }

    fn load_table(
        &mut self,
        _: &mut SlotTable,
        _: &mut Vec<u8>,
        _: Option<u32>,
    ) -> Option<(u32, Result<(), Unreadable>)> {
        self.shared.borrow().exists.then_some((VERSION, Ok(())))
    }

    fn swap_table(&mut self, _: &mut SlotTable, _: &mut Vec<u8>, version: Option<u32>) -> bool {
        let mut shared = self.shared.borrow_mut();
        let swaps = shared.exists == version.is_some();
        shared.exists |= swaps;
        swaps
    }

    fn load_group_table(
        &mut self,
        _: &mut GroupTable,
        _: &mut Vec<u8>,
    ) -> Option<(u32, Result<(), Unreadable>)> {
        Some((VERSION, Ok(())))
    }

    fn swap_group_table(&mut self, _: &GroupTable, _: &mut Vec<u8>, _: Option<u32>) -> bool {
        true
    }

    fn guess(&mut self) -> Option<u32> {
        Some(VERSION)
    }

    fn claim_row(&mut self, row: usize) {
        self.shared.borrow_mut().claimed_row = Some(row);
    }

    fn notify(&mut self, row: usize, why: Notification) {
        self.shared.borrow_mut().notifies.push((row, why));
    }
}
