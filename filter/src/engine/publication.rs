//! Variants of which no slot is free: in an overload most checks find one, and then publish what waits, and no more.

use super::variant::Variant;
use super::{CHECK_PERIOD, Engine};
use crate::coordination::{Publication, TIMEOUTS, Usage};
use crate::time::{Mono, Span};
use crate::variant::VariantId;

/// Longest time for which a lane report is kept.
const KEPT_FOR: Span = TIMEOUTS.renewal;

impl Engine {
    /// Publishes the requests that wait for a variant if that is all that an acquisition would do: no slot is free, or will
    /// be before the next check. Returns whether it did.
    pub(super) fn publish_if_full(&mut self, id: VariantId, now: Mono) -> bool {
        if !self.config.overlap || self.workers <= 1 {
            return false;
        }
        let Some(variant) = self.variants.get_mut(id) else {
            return false;
        };
        let publication = variant.publication(now);
        let others =
            publication.and_then(|publication| self.worker.publish_if_full(publication, now));
        let (Some(publication), Some(others)) = (publication, others) else {
            return false;
        };
        variant.slots.reported.head = publication.usage.head;
        variant.slots.others = others;
        true
    }
}

impl Variant {
    /// Its usage by this worker, if the last lane report will do while no slot is free: nothing has ended here since, no
    /// request may be sent early before the next check, and a newcomer's forecast will read the slot table anew, for other
    /// workers wait too.
    fn publication(&self, now: Mono) -> Option<Publication> {
        let slots = &self.slots;
        let keeps_report = self.batch <= 1
            && self.completion.is_none()
            && self.ended.is_empty()
            && slots.others.waiting > 0
            && slots.lanes.0.lead_at.is_none_or(|at| at > now)
            && now.since(slots.reported.at) < KEPT_FOR
            && slots.is_reported();
        if !keeps_report {
            return None;
        }
        let waiting_count = u32::try_from(slots.queue.len()).unwrap_or(u32::MAX);
        let after = self.sends_after(waiting_count, now);
        // Executions that began since may be known to other workers only.
        (slots.reported.at + after >= now + CHECK_PERIOD).then(|| Publication {
            variant: self.key,
            slots: slots.planned(),
            usage: Usage {
                taken: slots.taken(),
                waiting_count,
                until: slots.until().min(now + TIMEOUTS.orphan_max),
                head: slots.queue.head(),
                uploads: self.uploads,
            },
            after,
            mean: self.full.mean,
        })
    }
}
