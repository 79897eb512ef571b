//! Slots: what is asked of the board, and what its answer lets go.

use weir_api::metrics::Metric;

use super::{Engine, Request, StreamId};
use crate::board::{Ask, Outcome};
use crate::gate::{VariantId, latest_start};
use crate::queue::Place;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::verdict::{Reason, Verdict};

impl Engine {
    /// Refuses those held for a variant whose time is up, tells the board what it should know, and
    /// dispatches as many as it grants. `tick`: time has passed or somebody has rung.
    pub(super) fn hand_over(
        &mut self,
        id: VariantId,
        tick: bool,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(variant) = self.variants.get_mut(id) else {
            return;
        };
        variant.gate.lay_ghosts(now.mono);
        while let Some((reason, stream)) = self.overdue(id, now.mono) {
            self.forget_held(stream);
            verdicts.push((stream, self.refuse(reason)));
        }
        let settled = self
            .variants
            .get(id)
            .is_none_or(|variant| variant.gate.is_settled());
        if settled {
            return;
        }
        for _ in 0..self.settle(id, None, u32::MAX, tick, now.mono) {
            let Some((_, stream)) = self.queue_of(id).and_then(|queue| queue.pop()) else {
                break;
            };
            if let Some(request) = self.forget_held(stream) {
                verdicts.push((stream, self.dispatch(stream, request, now)));
            }
        }
    }

    /// Claims a slot for a request that has just come, unless somebody here goes before it.
    pub(super) fn claim(&mut self, request: &Request, place: Place, now: Mono) -> bool {
        let Some(variant) = self.variants.get_mut(request.variant) else {
            return false;
        };
        variant.gate.lay_ghosts(now);
        let earliest = variant.gate.queue.earliest();
        let first = earliest.is_none_or(|earliest| place.deadline < earliest);
        first && self.settle(request.variant, Some(place.deadline), 1, false, now) == 1
    }

    /// Tells the board of a variant; `arrival` stands before those in the queue. How many may go.
    pub(super) fn settle(
        &mut self,
        id: VariantId,
        arrival: Option<Mono>,
        most: u32,
        tick: bool,
        now: Mono,
    ) -> u32 {
        let Some(variant) = self.variants.get_mut(id) else {
            return 0;
        };
        let gate = &mut variant.gate;
        let waiting = arrival.into_iter().chain(gate.queue.deadlines());
        let ask = Ask {
            variant: variant.key,
            slots: gate.slots(),
            taken: gate.taken(),
            posted: gate.posted,
            until: gate.until(),
            service: variant.service,
            waiting: waiting.clone(),
            most,
            tick,
        };
        let outcome = self.member.settle(ask, now);
        let head = waiting.clone().nth(outcome.granted as usize);
        drop(waiting);
        gate.unsettled = outcome.unsettled;
        if !outcome.unsettled {
            gate.posted_head = head;
            gate.posted = gate.taken().saturating_add(outcome.granted);
        }
        self.count(&outcome);
        outcome.granted
    }

    pub(super) fn count(&mut self, outcome: &Outcome) {
        if outcome.lost > 0 {
            let lost = i64::from(outcome.lost);
            self.stats.by(Metric::SwapsLost, Label::None, lost);
        }
        if outcome.reset {
            self.stats.count(Metric::BoardResets, Label::None);
        }
        if let Some(idle) = outcome.idle {
            self.stats.micros(Metric::HandoverUs, Label::None, idle);
        }
    }

    /// The earliest held for a variant, if it can wait no longer.
    fn overdue(&mut self, id: VariantId, now: Mono) -> Option<(Reason, StreamId)> {
        let variant = self.variants.get_mut(id)?;
        let deadline = variant.gate.queue.earliest()?;
        let reason = if deadline <= now {
            Reason::Expired
        } else if latest_start(deadline, variant.service) < now {
            Reason::Infeasible
        } else {
            return None;
        };
        let (_, stream) = variant.gate.queue.pop()?;
        Some((reason, stream))
    }
}
