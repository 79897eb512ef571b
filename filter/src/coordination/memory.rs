//! A [`Store`] in this process's own memory, for a proxy that is not Envoy: tests and replay. Handles
//! made by [`Clone`] are so many VMs' views of the same store.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Ring, Store};

/// A handle to a store that VMs of one thread share.
#[derive(Debug, Default)]
pub struct Memory {
    kept: Rc<RefCell<Kept>>,
    guess: Option<u32>,
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        Memory {
            kept: Rc::clone(&self.kept),
            guess: None,
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Option<Vec<u8>>,
    version: u32,
    rings: Vec<(usize, Ring)>,
    owned: Vec<usize>,
    swaps_to_lose: u32,
}

impl Memory {
    /// Whom to ring, by entry, since last asked.
    #[must_use]
    pub fn take_rings(&self) -> Vec<(usize, Ring)> {
        std::mem::take(&mut self.kept.borrow_mut().rings)
    }

    /// The entries taken over by their VMs since last asked: the last is that of the VM that last acted.
    #[must_use]
    pub fn take_owned(&self) -> Vec<usize> {
        std::mem::take(&mut self.kept.borrow_mut().owned)
    }

    /// Begins anew, as with a new process.
    pub fn clear(&self) {
        *self.kept.borrow_mut() = Kept::default();
    }

    /// The bytes kept.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        self.kept.borrow().bytes.clone()
    }

    /// Puts other bytes there, as somebody else might who uses our key.
    pub fn overwrite(&self, bytes: Vec<u8>) {
        let mut kept = self.kept.borrow_mut();
        kept.bytes = Some(bytes);
        kept.version = kept.version.wrapping_add(1);
    }

    /// The next so many swaps are lost, as to another VM that was quicker.
    pub fn lose_swaps(&self, count: u32) {
        self.kept.borrow_mut().swaps_to_lose = count;
    }
}

impl Store for Memory {
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        self.guess = None;
        let kept = self.kept.borrow();
        let bytes = kept.bytes.as_ref()?;
        into.clear();
        into.extend_from_slice(bytes);
        Some(kept.version)
    }

    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        let mut kept = self.kept.borrow_mut();
        if kept.swaps_to_lose > 0 {
            kept.swaps_to_lose -= 1;
            return false;
        }
        if kept.bytes.is_some().then_some(kept.version) != version {
            return false;
        }
        let into = kept.bytes.get_or_insert_default();
        into.clear();
        into.extend_from_slice(bytes);
        kept.version = kept.version.wrapping_add(1);
        self.guess = Some(kept.version);
        true
    }

    fn guess(&mut self) -> Option<u32> {
        self.guess.take()
    }

    fn own(&mut self, entry: usize) {
        self.kept.borrow_mut().owned.push(entry);
    }

    fn ring(&mut self, entry: usize, why: Ring) {
        self.kept.borrow_mut().rings.push((entry, why));
    }
}
