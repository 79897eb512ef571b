//! Requests that wait for a variant which expires for them before their deadline, by that time.
//!
//! They wait in the order of their deadlines like all others: a request that can be served by its next variant is
//! no more urgent for it.

use std::collections::BTreeSet;

use super::{Request, StreamId};
use crate::time::Mono;

/// Times at which a variant expires for waiting requests.
#[derive(Debug, Default)]
pub(super) struct Expiries(BTreeSet<(Mono, StreamId)>);

impl Expiries {
    /// Adds a request that begins to wait.
    pub(super) fn enter(&mut self, stream: StreamId, request: &Request) {
        if let Some(at) = request.expires_at() {
            self.0.insert((at, stream));
        }
    }

    /// Removes a request that waits no more.
    pub(super) fn leave(&mut self, stream: StreamId, request: &Request) {
        if let Some(at) = request.expires_at() {
            self.0.remove(&(at, stream));
        }
    }

    /// Earliest of them.
    #[must_use]
    pub(super) fn first(&self) -> Option<(Mono, StreamId)> {
        self.0.first().copied()
    }
}
