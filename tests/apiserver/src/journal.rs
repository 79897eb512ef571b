//! The log: every request and every actuation, in the order they took effect.
//!
//! Invariants are checked over it. It decides nothing, and forgets the oldest beyond [`ENTRIES_MAX`].

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::object::Key;
use super::pods::Resources;
use super::request::Verb;

/// Entries remembered: ten minutes at 150 requests a second.
pub const ENTRIES_MAX: usize = 100_000;

/// One request as it was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Who asked.
    pub subject: String,
    /// What was asked.
    pub verb: Verb,
    /// API group, empty for core.
    pub group: String,
    /// Plural name, with its subresource behind a slash.
    pub resource: String,
    /// Of which object, or in which namespace.
    pub key: Key,
    /// The HTTP status it was answered with, or would have been had the answer not been lost.
    pub status: u16,
    /// `Status.reason` of a refusal, else empty.
    pub reason: String,
    /// The content type of a patch.
    pub content_type: String,
    /// The body of a patch, null for others.
    pub body: Value,
    /// Nothing was to be stored.
    pub dry_run: bool,
    /// The client did not get the answer: a fault took it.
    pub lost: bool,
}

/// What the kubelet did to a pod's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actuation {
    /// The pod.
    pub pod: Key,
    /// Its uid.
    pub uid: String,
    /// Its node.
    pub node: String,
    /// The generation of the spec that was actuated.
    pub generation: i64,
    /// What the pod's containers had before, added up.
    pub before: Resources,
    /// What they have now.
    pub after: Resources,
    /// Whether a container was restarted for it.
    pub restarted: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A request was answered.
    Request(Request),
    /// A resize took effect.
    Actuated(Actuation),
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Counted from 1, without gaps.
    pub order: u64,
    /// Since the start, on tokio's clock.
    pub at: Duration,
    /// What happened.
    pub what: What,
}

#[derive(Debug, Default)]
struct Entries {
    kept: VecDeque<Entry>,
    order: u64,
}

/// The log of an API server.
#[derive(Debug, Default)]
pub struct Journal {
    entries: Mutex<Entries>,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, at: Duration, what: What) {
        let mut entries = self.lock();
        entries.order += 1;
        let order = entries.order;
        if entries.kept.len() >= ENTRIES_MAX {
            entries.kept.pop_front();
        }
        entries.kept.push_back(Entry { order, at, what });
    }

    /// All entries after the one of this order, oldest first; 0 for all that are kept.
    pub fn after(&self, order: u64) -> Vec<Entry> {
        let entries = self.lock();
        let first = entries.kept.partition_point(|entry| entry.order <= order);
        entries.kept.range(first..).cloned().collect()
    }

    /// The order of the latest entry.
    pub fn latest(&self) -> u64 {
        self.lock().order
    }

    /// Entries that were forgotten.
    pub fn forgotten(&self) -> u64 {
        let entries = self.lock();
        entries.order - entries.kept.len() as u64
    }

    /// All requests that are kept.
    pub fn requests(&self) -> Vec<Request> {
        let read = |entry: Entry| match entry.what {
            What::Request(request) => Some(request),
            What::Actuated(_) => None,
        };
        self.after(0).into_iter().filter_map(read).collect()
    }

    /// All actuations that are kept.
    pub fn actuations(&self) -> Vec<Actuation> {
        let read = |entry: Entry| match entry.what {
            What::Actuated(actuation) => Some(actuation),
            What::Request(_) => None,
        };
        self.after(0).into_iter().filter_map(read).collect()
    }
}
