//! What the VMs of one Envoy share for one service: the table of members and the last plan.

use std::hash::{BuildHasher, Hasher};

use crate::members::{Members, Standing};
use crate::time::Mono;

use super::call;

/// How often a compare-and-swap is tried before it is left to the next tick.
const TRIES_MAX: usize = 8;

/// A VM's view of what is shared.
pub(super) struct Shared {
    vm_id: String,
    members_key: String,
    plan_key: String,
    queue_prefix: String,
    incarnation: u64,
    queue: Option<(usize, u32)>,
    plan_version: Option<u32>,
}

impl Shared {
    pub(super) fn new(service: &str) -> Shared {
        Shared {
            vm_id: call::text(&["plugin_vm_id"]).unwrap_or_default(),
            members_key: format!("weir/{service}/members"),
            plan_key: format!("weir/{service}/plan"),
            queue_prefix: format!("weir/{service}/vm"),
            // The hasher's keys are the one source of chance a VM has without asking for more.
            incarnation: std::hash::RandomState::new().build_hasher().finish(),
            queue: None,
            plan_version: None,
        }
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Renews our lease; what it says of us, and how many workers there are.
    pub(super) fn renew(&mut self, serving: bool, now: Mono) -> Option<(Standing, u32)> {
        for _ in 0..TRIES_MAX {
            let (bytes, version) = call::shared(&self.members_key);
            let mut members = Members::read(&bytes.unwrap_or_default());
            let standing = members.renew(self.incarnation, serving, now)?;
            if call::set_shared(&self.members_key, &members.write(), version) {
                self.own_queue(standing.index);
                return Some((standing, members.workers(now)));
            }
        }
        None
    }

    /// The last plan put there, with the time it was received, if it is another than last time.
    pub(super) fn new_plan(&mut self) -> Option<(Mono, Vec<u8>)> {
        let (bytes, version) = call::shared(&self.plan_key);
        if version == self.plan_version {
            return None;
        }
        self.plan_version = version;
        let bytes = bytes?;
        let (received, plan) = bytes.split_first_chunk::<8>()?;
        Some((Mono(u64::from_le_bytes(*received)), plan.to_vec()))
    }

    /// Puts a plan there for all, and wakes them.
    pub(super) fn put_plan(&self, plan: &[u8], now: Mono) {
        let bytes = [&now.0.to_le_bytes(), plan].concat();
        call::set_shared(&self.plan_key, &bytes, None);
        let members = Members::read(&call::shared(&self.members_key).0.unwrap_or_default());
        for index in members.others(self.incarnation, now) {
            if let Some(queue) = call::find_queue(&self.vm_id, &self.queue_name(index)) {
                call::ring(queue);
            }
        }
    }

    fn own_queue(&mut self, index: usize) {
        if self.queue.is_none_or(|(owned, _)| owned != index) {
            self.queue = call::own_queue(&self.queue_name(index)).map(|queue| (index, queue));
        }
    }

    fn queue_name(&self, index: usize) -> String {
        format!("{}{index}", self.queue_prefix)
    }
}
