//! What the VMs of one Envoy share for one service, in Envoy's shared data: the board and the last
//! plan; and how they ring each other, by Envoy's shared queues.
//!
//! Envoy frees neither keys nor queues, so there are two keys a service, and one queue for each entry
//! of the board: a VM started anew gets an entry that was left, and the queue that goes with it.

use std::hash::{BuildHasher, Hasher};

use crate::config::{Config, Role};
use crate::coordination::{Notification, Store};
use crate::shared_plan::{SharedBytes, SharedPlan};

use super::call;

/// No version that Envoy ever gives: a swap against it succeeds only where there is nothing yet.
const NOTHING_YET: u32 = u32::MAX;

/// An incarnation that no other start of a VM has.
pub(super) fn incarnation() -> u64 {
    // The hasher's keys are the one source of chance a VM has without asking for more.
    std::hash::RandomState::new().build_hasher().finish()
}

/// Where a service's board is; the number is the layout's.
pub(super) fn slot_table_key(service: &str, role: Role) -> String {
    format!("weir/{service}/{}/board4", role.label())
}

/// The board's place in shared data, and the queues.
#[derive(Debug)]
pub(super) struct Shared {
    vm_id: String,
    key: String,
    guess: Option<u32>,
    /// The queues of other VMs, by entry.
    queues: Vec<Option<u32>>,
}

impl Shared {
    pub(super) fn new(key: String) -> Shared {
        Shared {
            vm_id: call::text(&["plugin_vm_id"]).unwrap_or_default(),
            key,
            guess: None,
            queues: Vec::new(),
        }
    }

    fn queue_name(&self, entry: usize) -> String {
        format!("{}/{entry}", self.key)
    }

    fn queue(&mut self, entry: usize) -> Option<u32> {
        if self.queues.len() <= entry {
            self.queues.resize(entry + 1, None);
        }
        let name = self.queue_name(entry);
        let known = self.queues.get_mut(entry)?;
        if known.is_none() {
            *known = call::find_queue(&self.vm_id, &name);
        }
        *known
    }
}

impl Store for Shared {
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        self.guess = None;
        let (bytes, version) = call::shared(&self.key);
        // A value without bytes comes as none at all, but with a version.
        *into = bytes.unwrap_or_default();
        version
    }

    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        let done = call::set_shared(&self.key, bytes, Some(version.unwrap_or(NOTHING_YET)));
        // Envoy counts versions up over all keys, one for each write. Ours is the next unless somebody
        // wrote in between, and then the next was another key's.
        let next = version.and_then(|version| version.checked_add(1));
        self.guess = next.filter(|_| done);
        done
    }

    fn guess(&mut self) -> Option<u32> {
        self.guess.take()
    }

    fn claim_row(&mut self, entry: usize) {
        // Also from a stream's callback the queue is its root's.
        call::register_queue(&self.queue_name(entry));
    }

    fn notify(&mut self, entry: usize, why: Notification) {
        // A queue is gone with the last VM that shared data with it; its name is found anew.
        if let Some(queue) = self.queue(entry)
            && !call::notify(queue, why)
            && let Some(known) = self.queues.get_mut(entry)
        {
            *known = None;
        }
    }
}

/// The planner's last word, where all VMs of the service find it; the number is the layout's.
pub(super) struct Plans {
    key: String,
    service: String,
    version: Option<u32>,
}

impl Plans {
    pub(super) fn new(config: &Config) -> Plans {
        Plans {
            // A gate's part of the slots is not what a router of the same service goes by.
            key: format!("weir/{}/{}/plan2", config.service, config.role.label()),
            service: config.service.clone(),
            version: None,
        }
    }

    /// The bytes of the word put there last, if it is another than last time: see [`SharedPlan::read`].
    pub(super) fn news(&mut self) -> Option<Vec<u8>> {
        let (bytes, version) = call::shared(&self.key);
        if version == self.version {
            return None;
        }
        self.version = version;
        bytes
    }

    /// Shares a word with all VMs, unless what is there is as new; whether it is there now.
    pub(super) fn put(&self, word: SharedPlan<'_>) -> bool {
        word.put(&mut Place(&self.key), &self.service)
    }
}

/// A key of shared data.
struct Place<'a>(&'a str);

impl SharedBytes for Place<'_> {
    fn load(&mut self) -> (Option<Vec<u8>>, Option<u32>) {
        call::shared(self.0)
    }

    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        call::set_shared(self.0, bytes, Some(version.unwrap_or(NOTHING_YET)))
    }
}
