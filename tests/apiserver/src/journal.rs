//! The log: every request and every resize, in the order they took effect.
//!
//! Tests check invariants on it. It decides nothing, and drops the oldest entries beyond
//! [`ENTRIES_MAX`].

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::object::Key;
use super::pods::Resources;
use super::request::Verb;

/// Maximum entries kept: ten minutes at 150 requests a second.
pub const ENTRIES_MAX: usize = 100_000;

/// One request with its response.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The requesting subject.
    pub subject: String,
    /// Its verb.
    pub verb: Verb,
    /// API group, empty for core.
    pub group: String,
    /// Plural name, with its subresource after a slash.
    pub resource: String,
    /// The object, or the namespace.
    pub key: Key,
    /// The HTTP status of the response, even if the response was lost.
    pub status: u16,
    /// `Status.reason` of a refusal, else "".
    pub reason: String,
    /// The content type of a patch.
    pub content_type: String,
    /// The body of a patch, null for others.
    pub body: Value,
    /// Whether it was a dry run.
    pub dry_run: bool,
    /// Whether a fault kept the response from the client.
    pub lost: bool,
    /// Time since the start at which it arrived; it took effect at the entry's time.
    pub arrived: Duration,
}

/// A resize carried out by the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actuation {
    /// The pod.
    pub pod: Key,
    /// Its uid.
    pub uid: String,
    /// Its node.
    pub node: String,
    /// The generation of the applied spec.
    pub generation: i64,
    /// Total resources of the pod's containers before.
    pub before: Resources,
    /// Total resources afterwards.
    pub after: Resources,
    /// Whether it restarted a container.
    pub restarted: bool,
}

/// The content of a log entry.
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
    /// Position, from 1 without gaps.
    pub order: u64,
    /// Time since the start, on tokio's clock.
    pub at: Duration,
    /// Its content.
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

    /// All entries after position `order`, oldest first; 0 for all that are kept.
    pub fn after(&self, order: u64) -> Vec<Entry> {
        let entries = self.lock();
        let first = entries.kept.partition_point(|entry| entry.order <= order);
        entries.kept.range(first..).cloned().collect()
    }

    /// Position of the latest entry.
    pub fn latest(&self) -> u64 {
        self.lock().order
    }

    /// Number of dropped entries.
    pub fn forgotten(&self) -> u64 {
        let entries = self.lock();
        entries.order - entries.kept.len() as u64
    }

    /// All requests kept in the log.
    pub fn requests(&self) -> Vec<Request> {
        let read = |entry: Entry| match entry.what {
            What::Request(request) => Some(request),
            What::Actuated(_) => None,
        };
        self.after(0).into_iter().filter_map(read).collect()
    }

    /// All resizes kept in the log.
    pub fn actuations(&self) -> Vec<Actuation> {
        let read = |entry: Entry| match entry.what {
            What::Actuated(actuation) => Some(actuation),
            What::Request(_) => None,
        };
        self.after(0).into_iter().filter_map(read).collect()
    }
}
