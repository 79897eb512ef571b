//! Limits on held requests. Order holds at each limit: the least urgent request is evicted.

use super::{Engine, Request, StreamId};
use crate::explanation::Limit;
use crate::variant::VariantId;
use crate::verdict::Verdict;
use crate::waiting::class::{CLASSES_MAX, ClassId};
use crate::waiting::wait_queue::{Precedence, WaitQueue};

/// Request evicted for another.
struct Victim {
    stream: StreamId,
    why: Limit,
}

/// Requests held, in total and by class.
#[derive(Debug, Default)]
pub(super) struct HeldCounts {
    pub(super) all: usize,
    of_class: [usize; CLASSES_MAX],
}

impl HeldCounts {
    pub(super) fn of(&self, class: ClassId) -> usize {
        self.of_class
            .get(usize::from(class.0))
            .copied()
            .unwrap_or(0)
    }

    pub(super) fn enter(&mut self, class: ClassId) {
        self.all += 1;
        if let Some(of_class) = self.of_class.get_mut(usize::from(class.0)) {
            *of_class += 1;
        }
    }

    pub(super) fn leave(&mut self, class: ClassId) {
        self.all = self.all.saturating_sub(1);
        if let Some(of_class) = self.of_class.get_mut(usize::from(class.0)) {
            *of_class = of_class.saturating_sub(1);
        }
    }
}

impl Engine {
    /// Evicts a request for a newcomer if needed: at the limit of its class, or of all, the least urgent
    /// request is refused, whichever variant it waits for.
    ///
    /// # Errors
    /// The limit that is reached, because the newcomer is the least urgent.
    pub(super) fn evict_for(
        &mut self,
        request: &Request,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) -> Result<(), Limit> {
        let Some(Victim { stream, why }) = self.victim_of(request)? else {
            return Ok(());
        };
        verdicts.push((stream, self.refuse_held(stream, why, request.complete_at)));
        Ok(())
    }

    fn victim_of(&mut self, request: &Request) -> Result<Option<Victim>, Limit> {
        let class = request.class;
        let limit = self
            .config
            .classes
            .get(class)
            .and_then(|of| of.max_requests);
        let (found, why) = if limit.is_some_and(|most| self.held.of(class) >= most) {
            // Evicting it also lowers the total.
            let found = self.least_urgent(|queue| queue.least_urgent_of(class));
            (found, Limit::ClassRequests)
        } else if self.held.all >= self.config.max_requests {
            let found = self.least_urgent(WaitQueue::least_urgent);
            self.mark_contended(request.variant);
            (found, Limit::Requests)
        } else {
            return Ok(None);
        };
        let (precedence, variant, stream) = found.ok_or(why)?;
        if Some(precedence) <= self.precedence(request) {
            return Err(why);
        }
        if why == Limit::Requests {
            self.mark_contended(variant);
        }
        Ok(Some(Victim { stream, why }))
    }

    /// Least urgent request over all variants, by each queue's answer.
    fn least_urgent(
        &self,
        of: impl Fn(&WaitQueue) -> Option<(Precedence, StreamId)>,
    ) -> Option<(Precedence, VariantId, StreamId)> {
        let queues = (0..).map(VariantId).zip(self.variants.iter());
        let found = queues.filter_map(|(id, variant)| {
            let (precedence, stream) = of(&variant.slots.queue)?;
            Some((precedence, id, stream))
        });
        found.max()
    }

    fn precedence(&self, request: &Request) -> Option<Precedence> {
        let variant = self.variants.get(request.variant)?;
        Some(
            variant
                .slots
                .queue
                .precedence(request.class, request.place()),
        )
    }

    /// Marks a variant's slots as contended.
    fn mark_contended(&mut self, variant: VariantId) {
        if let Some(variant) = self.variants.get_mut(variant) {
            variant.slots.queue.set_contended();
        }
    }
}
