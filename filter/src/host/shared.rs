//! Data of one service shared by the VMs of one Envoy, in Envoy's shared data: the slot table, the service times by
//! group and the last plan; and notifications, by Envoy's shared queues.
//!
//! Envoy frees neither keys nor queues. So there are three keys per service, and one queue per row of the
//! slot table: a restarted VM gets an abandoned row, and its queue.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};
use std::rc::Rc;

use crate::config::{Config, Role};
use crate::coordination::{ByteStore, GROUP_LAYOUT, LAYOUT, Notification};
use crate::shared_plan::{SharedBytes, SharedPlan};

use super::call;

/// A version that Envoy never assigns: a swap against it succeeds only if there is no value yet.
const NOTHING_YET: u32 = u32::MAX;

/// Returns an incarnation that is unique to this start of a VM.
pub(super) fn incarnation() -> u64 {
    // The hasher's keys are the only randomness in a VM without a hostcall.
    std::hash::RandomState::new().build_hasher().finish()
}

/// Key of a service's slot table, with the version of its layout.
pub(super) fn slot_table_key(service: &str, role: Role) -> String {
    format!("weir/{service}/{}/slots{LAYOUT}", role.label())
}

/// Key of a service's times by group, with the version of their layout.
pub(super) fn group_table_key(service: &str, role: Role) -> String {
    format!("weir/{service}/{}/groups{GROUP_LAYOUT}", role.label())
}

/// Queue that this VM owns for the row it claimed last, shared with the one who reads it.
pub(super) type Queue = Rc<Cell<Option<u32>>>;

/// Slot table in shared data, and the queues.
#[derive(Debug)]
pub(super) struct Shared {
    vm_id: String,
    key: String,
    group_key: String,
    queue: Queue,
    guess: Option<u32>,
    /// Queues of other VMs, by row.
    queues: Vec<Option<u32>>,
}

impl Shared {
    pub(super) fn new(key: String, group_key: String, queue: Queue) -> Shared {
        Shared {
            vm_id: call::text(&["plugin_vm_id"]).unwrap_or_default(),
            key,
            group_key,
            queue,
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

impl ByteStore for Shared {
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        self.guess = None;
        let (bytes, version) = call::shared(&self.key);
        // An empty value comes as `None`, but with a version.
        *into = bytes.unwrap_or_default();
        version
    }

    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        let done = call::set_shared(&self.key, bytes, Some(version.unwrap_or(NOTHING_YET)));
        // Envoy increments one version over all keys, once per write. So the next version is ours, unless
        // another key was written in between, which then has it.
        let next = version.and_then(|version| version.checked_add(1));
        self.guess = next.filter(|_| done);
        done
    }

    fn load_groups(&mut self, into: &mut Vec<u8>) -> Option<u32> {
        let (bytes, version) = call::shared(&self.group_key);
        *into = bytes.unwrap_or_default();
        version
    }

    fn swap_groups(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        call::set_shared(&self.group_key, bytes, Some(version.unwrap_or(NOTHING_YET)))
    }

    fn guess(&mut self) -> Option<u32> {
        self.guess.take()
    }

    fn claim_row(&mut self, entry: usize) {
        // In a stream's callback too, the queue belongs to its root.
        self.queue
            .set(call::register_queue(&self.queue_name(entry)));
    }

    fn notify(&mut self, entry: usize, why: Notification) {
        // A queue disappears with the last VM that shared its data; it is looked up again by name.
        if let Some(queue) = self.queue(entry)
            && !call::notify(queue, why)
            && let Some(known) = self.queues.get_mut(entry)
        {
            *known = None;
        }
    }
}

/// Last answer of the planner, for all VMs of the service; the number is the version of the layout.
pub(super) struct Plans {
    key: String,
    service: String,
    version: Option<u32>,
}

impl Plans {
    pub(super) fn new(config: &Config) -> Plans {
        Plans {
            // Gates and routers of the same service have different plans.
            key: format!("weir/{}/{}/plan2", config.service, config.role.label()),
            service: config.service.clone(),
            version: None,
        }
    }

    /// Returns the bytes of the last answer if it is new: see [`SharedPlan::read`].
    pub(super) fn news(&mut self) -> Option<Vec<u8>> {
        let (bytes, version) = call::shared(&self.key);
        if version == self.version {
            return None;
        }
        self.version = version;
        bytes
    }

    /// Shares an answer with all VMs, unless theirs is as new; returns whether it is there now.
    pub(super) fn put(&self, update: SharedPlan<'_>) -> bool {
        update.put(&mut Place(&self.key), &self.service)
    }
}

/// Key of shared data.
struct Place<'a>(&'a str);

impl SharedBytes for Place<'_> {
    fn load(&mut self) -> (Option<Vec<u8>>, Option<u32>) {
        call::shared(self.0)
    }

    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool {
        call::set_shared(self.0, bytes, Some(version.unwrap_or(NOTHING_YET)))
    }
}
