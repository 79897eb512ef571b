//! Slots that clients hold: of requests that are upstream while their bodies still arrive, and of streams whose readers are
//! behind. They are half of a variant's slots at most, of all workers together.

use super::{Engine, Request, StreamId};
use crate::explanation::Limit;
use crate::time::Mono;
use crate::variant::VariantId;
use crate::verdict::Verdict;

impl Engine {
    /// Limit for which a request is refused whose body still arrives, if its variant has its maximum of them.
    pub(super) fn exceeds_uploads(&mut self, request: &Request, now: Mono) -> Option<Limit> {
        if !request.uploading || !self.owns_slots() {
            return None;
        }
        let (id, stream) = (request.variant, request.shape.upload);
        // Those of other workers may have ended since the slot table was read.
        let is_full = |engine: &Engine| {
            let variant = engine.variants.get(id);
            variant.is_some_and(|variant| variant.has_max_uploads(stream))
        };
        if !is_full(self) || !self.has_max_uploads(id, stream, now) {
            return None;
        }
        let max = self.variants.get(id)?.uploads_max(stream);
        // Where there is no place for any, another try is of no use.
        Some(match max {
            0 => Limit::RequestBytes,
            _ => Limit::Streams,
        })
    }

    /// Whether clients hold as many slots of a variant as they may, by the slot table as it is now.
    pub(super) fn has_max_uploads(&mut self, id: VariantId, stream: bool, now: Mono) -> bool {
        self.read_usage(id, now);
        let variant = self.variants.get(id);
        variant.is_some_and(|variant| variant.has_max_uploads(stream))
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
