//! Slots: what is asked of the board, and what its answer lets go.

use weir_api::metrics::Metric;

use super::variant::Variant;
use super::{Engine, Launch, Request, StreamId};
use crate::coordination::{Ask, Member, Outcome, Sent};
use crate::priority::Urgency;
use crate::reason::Reason;
use crate::slots::latest_start;
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;
use crate::verdict::Verdict;
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

impl Engine {
    /// Time has passed, or somebody has rung: every variant's turn.
    pub(super) fn hand_over_all(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if !self.owns_slots() {
            return;
        }
        // Who is moved is in a hurry: it has its say where it comes to before slots are given there.
        for index in 0..self.variants.len() {
            self.clear(VariantId(index), now, verdicts);
        }
        for index in 0..self.variants.len() {
            self.turn(VariantId(index), true, now, verdicts);
        }
        self.settle_stirred(now, verdicts);
    }

    /// One variant's turn, and that of those to which somebody was moved from it.
    pub(super) fn hand_over(
        &mut self,
        id: VariantId,
        tick: bool,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.turn(id, tick, now, verdicts);
        self.settle_stirred(now, verdicts);
    }

    /// Ends, because who is moved can answer in time where it is moved to, and is not moved again at
    /// the same moment.
    fn settle_stirred(&mut self, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        while let Some(id) = self.stirred.pop() {
            self.turn(id, false, now, verdicts);
        }
    }

    /// Moves or refuses those whose time here is up, tells the board what it should know, and
    /// dispatches as many as it grants. `tick`: time has passed or somebody has rung.
    fn turn(
        &mut self,
        id: VariantId,
        tick: bool,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        self.clear(id, now, verdicts);
        let settled = self
            .variants
            .get(id)
            .is_none_or(|variant| variant.gate.is_settled());
        if settled {
            return;
        }
        let (granted, sent) = self.settle(id, None, u32::MAX, tick, now.mono);
        for place in 0..granted {
            let next = self.variants.get_mut(id).and_then(|v| v.gate.room.pop());
            let Some((_, _, stream)) = next else {
                break;
            };
            if let Some(request) = self.forget_held(stream) {
                let launch = Launch::new(&sent, place, granted);
                verdicts.push((stream, self.dispatch(stream, request, launch, now)));
            }
        }
        self.count_batch(id, granted);
    }

    /// Lays the ghosts, and moves or refuses those whose time here is up.
    fn clear(&mut self, id: VariantId, now: Now, verdicts: &mut Vec<(StreamId, Verdict)>) {
        if let Some(variant) = self.variants.get_mut(id) {
            variant.gate.lay_ghosts(now.mono);
        }
        while let Some(stream) = self.overdue(id, now.mono) {
            self.move_or_refuse(stream, now, verdicts);
        }
    }

    fn move_or_refuse(
        &mut self,
        stream: StreamId,
        now: Now,
        verdicts: &mut Vec<(StreamId, Verdict)>,
    ) {
        let Some(mut request) = self.forget_held(stream) else {
            return;
        };
        let to = (request.due > now.mono).then(|| self.elsewhere(&request, now));
        // Where there is no time left but for the rest of the pipeline, nothing has expired yet.
        let reason = if request.deadline.at <= now.mono {
            Reason::Expired
        } else {
            Reason::Infeasible
        };
        match to.flatten() {
            Some(to) => {
                request.variant = to;
                self.park(stream, request);
                if !self.stirred.contains(&to) {
                    self.stirred.push(to);
                }
            }
            None => verdicts.push((stream, self.turn_away(&request, reason, now.mono))),
        }
    }

    /// Claims a slot for a request that has just come, unless somebody here goes before it.
    pub(super) fn claim(&mut self, request: &Request, now: Mono) -> Option<Launch> {
        let variant = self.variants.get_mut(request.variant)?;
        variant.gate.lay_ghosts(now);
        let newcomer = (request.class, request.place());
        if !variant.gate.room.goes_first(request.class, request.place()) {
            return None;
        }
        let (granted, sent) = self.settle(request.variant, Some(newcomer), 1, false, now);
        if granted == 0 {
            return None;
        }
        let variant = self.variants.get_mut(request.variant)?;
        variant.gate.room.charge(request.class);
        Some(Launch::new(&sent, 0, granted))
    }

    /// Tells the board of a variant; a newcomer stands before those in the room. How many may go,
    /// and what was sent.
    pub(super) fn settle(
        &mut self,
        id: VariantId,
        newcomer: Option<(ClassId, Place)>,
        most: u32,
        tick: bool,
        now: Mono,
    ) -> (u32, Sent) {
        let Some(variant) = self.variants.get_mut(id) else {
            return (0, Sent::default());
        };
        let more = u32::from(newcomer.is_some());
        let waits = u32::try_from(variant.gate.room.len()).unwrap_or(u32::MAX);
        let question = Question {
            waits: waits.saturating_add(more),
            due: variant.due(self.config.batch_wait, now),
            most,
            tick,
            overlaps: self.config.overlap,
        };
        let room = &variant.gate.room;
        let member = &mut self.member;
        let (outcome, head) = match (newcomer, room.line()) {
            (Some((class, place)), Some(line)) => {
                let order = std::iter::once(room.urgency(class, place)).chain(line);
                question.put(member, variant, order, now)
            }
            (Some((class, place)), None) => {
                let order = room.order_with(class, place);
                question.put(member, variant, order, now)
            }
            (None, Some(line)) => question.put(member, variant, line, now),
            (None, None) => question.put(member, variant, room.order(), now),
        };
        let gate = &mut variant.gate;
        // Of a batch that was closed with a newcomer the others go at the next look, at once.
        gate.unsettled = outcome.unsettled || outcome.more;
        if !outcome.unsettled {
            gate.posted_head = head;
            gate.posted = gate.taken().saturating_add(outcome.granted);
            gate.others = outcome.others;
            gate.sent = (outcome.sent, now);
            gate.heard();
        }
        if outcome.granted > 0 {
            variant.company_since = head.map(|_| now);
        }
        self.count(&outcome);
        self.learn(id, outcome.sent.began, now);
        (outcome.granted, outcome.sent)
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

    fn count_batch(&mut self, id: VariantId, granted: u32) {
        let batches = self
            .variants
            .get(id)
            .is_some_and(|variant| variant.batch > 1);
        if granted > 0 && batches {
            let fill = u64::from(granted);
            self.stats
                .value(Metric::BatchFill, Label::Variant(id), fill);
        }
    }

    /// One held for a variant that can wait there no longer.
    fn overdue(&mut self, id: VariantId, now: Mono) -> Option<StreamId> {
        let variant = self.variants.get_mut(id)?;
        if variant.gate.room.is_empty() {
            return None;
        }
        let service = variant.predicted.high;
        let begins = variant.must_begin(now);
        let late = |deadline| deadline <= now || latest_start(deadline, service) < begins;
        let (_, _, stream) = variant.gate.room.pop_if(|place| late(place.deadline))?;
        Some(stream)
    }
}

/// What is asked of the board beside what the variant's gate says by itself.
#[derive(Debug, Clone, Copy)]
struct Question {
    waits: u32,
    due: Option<Urgency>,
    most: u32,
    tick: bool,
    overlaps: bool,
}

impl Question {
    /// The board's answer, and who is first of those who then still wait.
    fn put<W: Iterator<Item = Urgency> + Clone>(
        self,
        member: &mut Member,
        variant: &Variant,
        waiting: W,
        now: Mono,
    ) -> (Outcome, Option<Urgency>) {
        let gate = &variant.gate;
        let ask = Ask {
            variant: variant.key,
            slots: gate.slots(),
            taken: gate.taken(),
            posted: gate.posted,
            until: gate.until(),
            service: variant.predicted.high,
            waits: self.waits,
            waiting: waiting.clone(),
            batch: variant.batch,
            due: self.due,
            most: self.most,
            tick: self.tick,
            ahead: self.overlaps.then(|| variant.ahead(self.waits, now)),
        };
        let outcome = member.settle(ask, now);
        let head = waiting.into_iter().nth(outcome.granted as usize);
        (outcome, head)
    }
}
