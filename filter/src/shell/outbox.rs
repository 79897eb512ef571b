//! Verdicts on held streams that have still to be carried out.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use crate::engine::StreamId;
use crate::request::body::BodyChunk;
use crate::verdict::{Refusal, Verdict};

/// Envoy numbers streams, not clients.
type Hasher = BuildHasherDefault<fnv::FnvHasher>;

/// Kinds of verdicts that a callback can carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// Requests sent on. In a callback of another stream's response a local reply makes Envoy stop that response too.
    Sent,
    /// All: those sent on, and then the refusals.
    All,
}

/// Verdicts in the order in which they came, those that send requests on before refusals: a slot is taken for them, and
/// the time runs. It is bounded by the requests that a worker holds or has in flight.
#[derive(Debug, Default)]
pub struct Outbox {
    sent: VecDeque<StreamId>,
    refused: VecDeque<StreamId>,
    verdicts: HashMap<StreamId, Verdict, Hasher>,
}

impl Outbox {
    /// Adds a verdict. It replaces an earlier one on that stream: a request that its deadline overtakes is refused.
    pub fn put(&mut self, stream: StreamId, verdict: Verdict) {
        let queue = match verdict {
            Verdict::Pass | Verdict::PassTo(_) | Verdict::Forward(_) => &mut self.sent,
            Verdict::Reject(_) => &mut self.refused,
            // It stays as it is.
            Verdict::Park => return,
        };
        queue.push_back(stream);
        self.verdicts.insert(stream, verdict);
    }

    /// Removes and returns the next verdict of these kinds.
    pub fn pop(&mut self, kinds: Kinds) -> Option<(StreamId, Verdict)> {
        let is_refusal = |verdict: &Verdict| matches!(verdict, Verdict::Reject(_));
        while let Some(stream) = self.sent.pop_front() {
            // One that was cancelled or replaced is no longer of this kind.
            let verdict = self.verdicts.get(&stream);
            if verdict.is_some_and(|verdict| !is_refusal(verdict)) {
                return Some((stream, self.verdicts.remove(&stream)?));
            }
        }
        if kinds == Kinds::Sent {
            return None;
        }
        while let Some(stream) = self.refused.pop_front() {
            if self.verdicts.get(&stream).is_some_and(is_refusal) {
                return Some((stream, self.verdicts.remove(&stream)?));
            }
        }
        None
    }

    /// Removes the verdict on a stream that has ended, or is answered.
    pub fn cancel(&mut self, stream: StreamId) -> Option<Verdict> {
        self.verdicts.remove(&stream)
    }

    /// The refusal of a stream that waits here.
    pub(super) fn refusal(&self, stream: StreamId) -> Option<&Refusal> {
        match self.verdicts.get(&stream) {
            Some(Verdict::Reject(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// Records a chunk of a body; returns whether a verdict on its request waits here, so that it must not go on.
    pub(super) fn on_body(&mut self, stream: StreamId, received: BodyChunk) -> bool {
        if let Some(Verdict::Forward(dispatch)) = self.verdicts.get_mut(&stream) {
            dispatch.body_follows &= !received.complete;
        }
        self.verdicts.contains_key(&stream)
    }

    /// Whether nothing has to be carried out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.verdicts.is_empty()
    }
}
