//! Capacity and usage of each node, updated with every pod change.
//!
//! Two sums: the scheduler's (reserved: the larger of requested and allocated) and the kubelet's (allocated).
//! Ended pods do not count.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{Key, text};
use super::pods::{Amount, allocated, requests};

#[derive(Debug, Clone, Default)]
struct Counted {
    node: String,
    reserved: Amount,
    allotted: Amount,
}

/// One node's sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) reserved: Amount,
    pub(super) allotted: Amount,
    pub(super) pods: usize,
}

/// The sums of all nodes.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pods: BTreeMap<Key, Counted>,
    nodes: BTreeMap<String, Sums>,
}

impl Ledger {
    /// Updates the count of a pod, or removes it. Returns the node that has more free capacity than before,
    /// if any.
    pub(super) fn count(&mut self, key: &Key, pod: Option<&Value>) -> Option<String> {
        let old = self.pods.remove(key).unwrap_or_default();
        self.add(&old, |sum, own| sum.minus(own), -1);
        let lives = |pod: &&Value| {
            let ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
            !text(pod, "/spec/nodeName").is_empty() && !ended
        };
        let new = match pod.filter(lives) {
            Some(pod) => Counted {
                node: text(pod, "/spec/nodeName").to_owned(),
                reserved: requests(pod).most(allocated(pod)),
                allotted: allocated(pod),
            },
            None => Counted::default(),
        };
        self.add(&new, |sum, own| sum.plus(own), 1);
        let less = |new: Amount, old: Amount| new.cpu_m < old.cpu_m || new.memory < old.memory;
        let freed = less(new.reserved, old.reserved) || less(new.allotted, old.allotted);
        let node = old.node.clone();
        if !new.node.is_empty() {
            self.pods.insert(key.clone(), new);
        }
        (freed && !node.is_empty()).then_some(node)
    }

    fn add(&mut self, pod: &Counted, change: impl Fn(Amount, Amount) -> Amount, count: isize) {
        if pod.node.is_empty() {
            return;
        }
        let sums = self.nodes.entry(pod.node.clone()).or_default();
        sums.reserved = change(sums.reserved, pod.reserved);
        sums.allotted = change(sums.allotted, pod.allotted);
        sums.pods = sums.pods.saturating_add_signed(count);
    }

    pub(super) fn sums(&self, node: &str) -> Sums {
        self.nodes.get(node).copied().unwrap_or_default()
    }

    /// Resources allocated on the pod's node to other pods.
    pub(super) fn others(&self, node: &str, pod: &Key) -> Amount {
        let own = self
            .pods
            .get(pod)
            .map_or(Amount::default(), |counted| counted.allotted);
        self.sums(node).allotted.minus(own)
    }
}
