//! One queue for all workers of a proxy. Envoy runs one VM per worker thread; what their engines must
//! know of each other lies on one board: who lives, how many slots of each variant each has taken, and
//! the earliest deadline each holds. Every change is a compare-and-swap of the whole board.
//!
//! A slot belongs to whoever holds the earliest deadline. Whoever frees one that another should have
//! *rings* that other, who then claims it: a ring is a hint and may be lost, a claim is a swap and
//! cannot be doubled. `docs/board.md` is the protocol, what each party may assume, and how it is
//! checked.
//!
//! Pure: the board is a value, its bytes come from and go to a [`Store`]; time is an argument.

use std::time::Duration;

use crate::time::Mono;

use self::batch::Batch;

mod ask;
mod batch;
mod bytes;
mod lanes;
mod member;
mod memory;
mod part;
mod table;

pub use ask::{Ask, Others, Turn, Urgency};
pub use bytes::Unreadable;
pub use lanes::{Ahead, Busy, Landed, RUNS_MAX, Run, Sent};
pub use member::{Member, Outcome, Ring, Scope, Standing, Store, TRIES_MAX};
pub use memory::Memory;
pub use table::{Cell, Column, Entry};

/// Most VMs on a board; a further one works with a single slot of each variant and is never rung.
pub const ENTRIES_MAX: usize = 256;
/// Most variants on a board, those gone from the plan but still executing included.
pub const COLUMNS_MAX: usize = 128;

/// The protocol's times. [`TERMS`] are those that hold in Envoy; the model checks others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How long a VM counts as alive after it last wrote.
    pub lease: Duration,
    /// How old a lease may be before a VM with nothing else to say renews it.
    pub renewal: Duration,
    /// How long a free slot is kept for the holder of the earliest deadline, once rung; then anybody
    /// who waits may have it.
    pub grace: Duration,
    /// How long nobody takes more slots than it had, after a board was found unreadable: by then every
    /// VM has said anew what it holds.
    pub settling: Duration,
    /// Longest that a slot counts as taken by somebody who has died.
    pub ghost_max: Duration,
    /// How long a VM that polls the planner remains the one to poll without another sign.
    pub poller_lease: Duration,
    /// How long a variant that nobody speaks of keeps its column.
    pub column_idle: Duration,
}

/// The times that hold in Envoy. The lease is short because a VM that has trapped keeps others from its
/// slots for so long; one that only stalls is taken for dead without harm, until it writes again: what it
/// has taken counts to its predicted end.
pub const TERMS: Terms = Terms {
    lease: Duration::from_millis(250),
    renewal: Duration::from_millis(50),
    grace: Duration::from_millis(5),
    settling: Duration::from_millis(500),
    ghost_max: crate::gate::GHOST_MAX,
    poller_lease: Duration::from_millis(500),
    column_idle: Duration::from_secs(60),
};

const _: () = assert!(TERMS.lease.as_millis() >= 3 * TERMS.renewal.as_millis());
const _: () = assert!(TERMS.settling.as_millis() >= TERMS.lease.as_millis());

/// A variant on the board: a hash of its name, the same in every VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u64);

impl Key {
    /// The key of a variant's name.
    #[must_use]
    pub fn of(name: &str) -> Key {
        use std::hash::Hasher;
        let mut hasher = fnv::FnvHasher::default();
        hasher.write(name.as_bytes());
        Key(hasher.finish())
    }
}

/// Who is on the board, what each has taken and holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Board {
    /// Whether it was begun anew in place of one that was unreadable or gone: 1, or 0 for the first.
    pub resets: u32,
    /// Until then nobody takes more slots than it had: what others hold is not all known yet.
    pub settling_until: Mono,
    /// Which process: the incarnation of the VM that began the board.
    pub founder: u64,
    /// The incarnation of the VM that polls the planner, and until when it does.
    pub poller: (u64, Mono),
    /// The variants.
    pub columns: Vec<Column>,
    /// The VMs.
    pub entries: Vec<Entry>,
    /// What each VM has of each variant: `entries` × `columns`, row by row.
    cells: Vec<Cell>,
    /// Executions of the variants' servers.
    pub runs: Vec<Run>,
}

impl Board {
    /// An empty board in place of one that is unreadable or gone.
    #[must_use]
    pub fn anew(now: Mono, terms: &Terms) -> Board {
        Board {
            resets: 1,
            settling_until: now + terms.settling,
            ..Board::default()
        }
    }

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

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
