//! Acquisition of slots in the slot table.

use super::batch::Batch;
use super::{Ahead, Ask, Board, Others, Terms, Turn};
use crate::priority::Urgency;
use crate::time::Mono;

impl Board {
    /// Says what the VM `incarnation` holds of a variant, and takes for it what slots are its to take:
    /// those that are free while nobody else who lives holds anything more urgent. Who was rung for a
    /// slot and has not come within the grace loses its right. Where work leaves in batches, nobody goes
    /// before one is closed. `None` where there is no room on the board.
    pub fn settle<W: Iterator<Item = Urgency> + Clone>(
        &mut self,
        incarnation: u64,
        ask: Ask<'_, W>,
        now: Mono,
        terms: &Terms,
    ) -> Option<Turn> {
        let own = self.entry_of(incarnation, now)?;
        let column = self.column_of(ask.variant, now, terms)?;
        let mut turn = Turn {
            others: self.others_of(own, column, now),
            changed: self.renew_entry(own, now, terms)
                | self.answer_ring(own)
                | self.speak_of(column, now, terms),
            ..Turn::default()
        };
        let idle_since = self.columns.get(column)?.idle_since;
        let settles = now < self.settling_until;
        let before = ask.taken.saturating_add(turn.others.taken);
        let mut ending = 0;
        if let Some(ahead) = &ask.ahead {
            let (began, news) = self.follow(column, ahead, ask.slots, before, now);
            turn.sent.began = began;
            turn.changed |= news;
            ending = self.ending(column, ahead, now).min(ask.slots);
        }
        let mut free = free(&ask, turn.others, ending, settles);
        let mut batch = self.batch_of(own, column, &ask, turn.others);
        let mut waiting = ask.waiting.clone();
        let mut head = waiting.next();
        while let Some(urgency) = head {
            if free == 0 || turn.granted == ask.most || !batch.may_leave(head) {
                break;
            }
            // While the board settles no slot can change hands: who holds something more urgent has no
            // use for ours.
            if !settles && self.is_anothers(own, column, urgency, now, terms) {
                break;
            }
            batch.leave();
            free -= 1;
            turn.granted += 1;
            head = waiting.next();
        }
        if turn.granted > 0 {
            turn.idle = idle_since.map(|since| now.since(since));
        }
        // Also for others, where nobody waits here.
        let may_leave = free > 0 && batch.may_leave(head);
        turn.more = may_leave && !batch.is_single() && turn.granted == ask.most && head.is_some();
        if let Some(ahead) = &ask.ahead {
            self.note_sent(column, &ask, ahead, before, &mut turn, now);
        }
        // Whose counts foretell waits needs them exactly.
        let exact = !batch.is_single() || ask.ahead.is_some();
        let (tick, cell) = (ask.tick, ask.cell(turn.granted, now, terms));
        turn.changed |= self.put_cell(own, column, cell, exact);
        turn.changed |= self.note_open(column, batch.open());
        turn.changed |= self.note_idle(own, column, may_leave, now);
        if may_leave && !settles {
            turn.rings = self.ring_earlier(own, column, tick, now);
            turn.rings |= self.ring_company(own, column, batch.open().min(free), now);
            turn.changed |= turn.rings;
        }
        Some(turn)
    }

    /// The variant's batches as this turn finds them.
    fn batch_of<W>(&self, own: usize, column: usize, ask: &Ask<'_, W>, others: Others) -> Batch {
        let open = self.columns.get(column).map_or(0, |column| column.open);
        let waited = self.cell(own, column).waits;
        Batch::new(ask, open, others.waiting, waited)
    }

    /// Notes what a turn lets go, and what the lanes then have before them.
    fn note_sent<W>(
        &mut self,
        column: usize,
        ask: &Ask<'_, W>,
        ahead: &Ahead<'_>,
        taken: u32,
        turn: &mut Turn,
        now: Mono,
    ) {
        let sent = &mut turn.sent;
        sent.lanes = true;
        sent.lead = self.lead(column, ahead.planned);
        sent.waits = self.busy(column, taken, ahead.mean, now).shortest;
        let begins = now + ahead.gap;
        (sent.first, sent.behind) = self.send(column, turn.granted, ask.slots, taken, begins);
        let taken = taken.saturating_add(turn.granted);
        sent.busy = self.busy(column, taken, ahead.mean, now);
        sent.lead_at = self.next_ending(column, ahead.after, now);
    }

    /// Whether the next free slot is another's, who holds something more urgent. Those who were rung and
    /// have not come are passed over: one that lives says so anew at its next tick.
    fn is_anothers(
        &mut self,
        own: usize,
        column: usize,
        urgency: Urgency,
        now: Mono,
        terms: &Terms,
    ) -> bool {
        while let Some((rival, earlier)) = self.earliest_other(own, column, now) {
            if earlier >= urgency {
                return false;
            }
            let rung_at = self
                .entries
                .get(rival)
                .map_or(Mono(0), |entry| entry.rung_at);
            if rung_at == Mono(0) || now.since(rung_at) < terms.grace {
                return true;
            }
            self.strike(rival, column);
        }
        false
    }

    /// Notes since when slots are free for somebody who waits; whether that is news.
    fn note_idle(&mut self, own: usize, column: usize, free: bool, now: Mono) -> bool {
        let idle = free
            && (self.cell(own, column).head.is_some()
                || self.earliest_other(own, column, now).is_some());
        let Some(state) = self.columns.get_mut(column) else {
            return false;
        };
        let before = state.idle_since;
        state.idle_since = idle.then(|| before.unwrap_or(now));
        state.idle_since != before
    }

    /// Marks as rung who is to have a free slot, or, at a tick, all who stand before `own`; whether
    /// anybody was not yet.
    fn ring_earlier(&mut self, own: usize, column: usize, all: bool, now: Mono) -> bool {
        let Some((earliest, _)) = self.earliest_other(own, column, now) else {
            return false;
        };
        let mut rings = self.mark(earliest, now);
        let before = self.cell(own, column).head.unwrap_or(Urgency(u64::MAX));
        for rival in 0..self.entries.len() {
            let head = self.cell(rival, column).head;
            if all && rival != own && head.is_some_and(|head| head < before) {
                rings |= self.mark(rival, now);
            }
        }
        rings
    }

    /// Marks as rung, by urgency, those before `own` of whom `leave` together may leave with a batch: for
    /// those after it `own` rings when it has left. Whether anybody was not yet.
    fn ring_company(&mut self, own: usize, column: usize, leave: u32, now: Mono) -> bool {
        let before = self.cell(own, column).head.unwrap_or(Urgency(u64::MAX));
        let (mut leave, mut rings, mut after) = (leave, false, None);
        while leave > 0 {
            let next = self.next_other(own, column, after, now);
            let Some((head, rival)) = next.filter(|(head, _)| *head < before) else {
                break;
            };
            rings |= self.mark(rival, now);
            leave = leave.saturating_sub(self.cell(rival, column).waits.max(1));
            after = Some((head, rival));
        }
        rings
    }
}

/// Slots the VM could take, `ending` of those taken being about to get free. While the board settles others'
/// are not all known, but what it has said itself was its own.
fn free<W>(ask: &Ask<'_, W>, others: Others, ending: u32, settles: bool) -> u32 {
    let slots = if settles {
        ask.slots.min(ask.posted)
    } else {
        ask.slots
            .saturating_add(ending)
            .saturating_sub(others.taken)
    };
    slots.saturating_sub(ask.taken)
}
