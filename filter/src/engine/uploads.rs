//! Requests that are upstream while their bodies still arrive: half of a variant's slots at most, of all workers together.

use super::{Engine, Request, StreamId};
use crate::explanation::Limit;
use crate::time::Mono;
use crate::verdict::Verdict;

impl Engine {
    /// Limit for which a request is refused whose body still arrives, if its variant has its maximum of them.
    pub(super) fn exceeds_uploads(&mut self, request: &Request, now: Mono) -> Option<Limit> {
        if !request.uploading || !self.owns_slots() {
            return None;
        }
        let (id, stream) = (request.variant, request.shape.upload);
        let is_full = |engine: &Engine| {
            let variant = engine.variants.get(id);
            variant.is_some_and(|variant| variant.has_max_uploads(stream))
        };
        // Those of other workers may have ended since the slot table was read.
        if !is_full(self) || self.read_usage(id, now) && !is_full(self) {
            return None;
        }
        let max = self.variants.get(id)?.uploads_max(stream);
        // Where there is no place for any, another try is of no use.
        Some(match max {
            0 => Limit::RequestBytes,
            _ => Limit::Streams,
        })
    }

    /// The same for one that waits, and is granted a slot.
    pub(super) fn granted_exceeds_uploads(&mut self, stream: StreamId, now: Mono) -> Option<Limit> {
        let request = self.requests.get(&stream)?;
        if !request.uploading {
            return None;
        }
        let request = request.clone();
        self.exceeds_uploads(&request, now)
    }

    /// Refuses a request that has left its queue with a slot, which the next check of the slot table frees.
    pub(super) fn refuse_granted(&mut self, stream: StreamId, limit: Limit, now: Mono) -> Verdict {
        let Some(request) = self.requests.remove(&stream) else {
            return Verdict::Park;
        };
        if let Some(variant) = self.variants.get_mut(request.variant) {
            variant.slots.reported.stale = true;
        }
        self.refuse_waiting(&request, limit, now)
    }
}
