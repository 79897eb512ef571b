//! One VM at the board: loads it, takes its turn, swaps it in, and tries again where another was
//! quicker.

use std::fmt::Debug;
use std::time::Duration;

use super::batch::Batch;
use super::slot_share::Part;
use super::{Ask, Board, Busy, Cell, Entry, Others, Sent, TERMS, Terms, Turn};
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::Key;

mod health;

/// How often a swap is tried before it is left to the next tick.
pub const TRIES_MAX: u32 = 8;

/// Where the board is kept, and how VMs are rung.
pub trait Store: Debug {
    /// Loads the board's bytes and their version; `None` where there are none yet.
    fn load(&mut self, into: &mut Vec<u8>) -> Option<u32>;
    /// Puts bytes in place of that version, or with `None` where there are none yet; whether it did.
    fn swap(&mut self, bytes: &[u8], version: Option<u32>) -> bool;
    /// The version that what was swapped in last should have, if nothing was loaded since. It may be
    /// wrong where somebody has written meanwhile, and must then be no version that was ever ours.
    fn guess(&mut self) -> Option<u32>;
    /// This VM has that entry from now on: it is rung by it.
    fn own(&mut self, entry: usize);
    /// Rings the VM that has that entry.
    fn ring(&mut self, entry: usize, why: Ring);
}

/// What a VM is rung for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ring {
    /// A slot is free that one of its requests should have.
    Slot,
    /// There is a new plan.
    Plan,
    /// A variant has begun or ceased to fail.
    Health,
}

/// Who queues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All workers of the proxy: one queue in order of deadlines.
    #[default]
    Proxy,
    /// Each worker for itself, with its part of the slots: what there would be without the board.
    Worker,
}

/// A VM's place among those of its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Which process it is in: what the board's founder was called.
    pub process: u64,
    /// Whether it is the one to poll the planner.
    pub polls: bool,
    /// Whether it is the one to report what each VM knows for itself only, such as what it has measured.
    pub reports: bool,
    /// How many VMs have had a request and live.
    pub workers: u32,
    /// How many requests they hold.
    pub held: u32,
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many of those who wait may go: the first so many.
    pub granted: u32,
    /// Whether more of them might have gone, had they been asked for: see [`Turn::more`].
    pub more: bool,
    /// Where a slot was free for somebody before: for how long.
    pub idle: Option<Duration>,
    /// What the other VMs have, as of this turn; nothing where there is no board.
    pub others: Others,
    /// Requests sent, by ordinals, and the work before the lanes: see [`Turn`].
    pub sent: Sent,
    /// Swaps that others were quicker at.
    pub lost: u32,
    /// Whether the board was found unreadable, or was gone, and has been begun anew.
    pub reset: bool,
    /// Whether all tries were lost: nothing is granted, and what was said has to be said again.
    pub unsettled: bool,
}

/// A VM at the board.
#[derive(Debug)]
pub struct Member {
    store: Box<dyn Store>,
    incarnation: u64,
    scope: Scope,
    pub(super) terms: Terms,
    pub(super) serving: bool,
    held: u32,
    process: u64,
    pub(super) entry: Option<usize>,
    part: Part,
    /// What this VM has and holds, by its last word: said again where the board has lost it.
    pub(super) said: Vec<(Key, Cell)>,
    /// How many may still leave of batches closed here, where the VM is for itself.
    open: Vec<(Key, u32)>,
    board: Board,
    bytes: Vec<u8>,
}

impl Member {
    /// The VM `incarnation`, which is another for each start of one.
    #[must_use]
    pub fn new(store: Box<dyn Store>, incarnation: u64, scope: Scope) -> Member {
        Member {
            store,
            incarnation,
            scope,
            terms: TERMS,
            serving: false,
            held: 0,
            process: 0,
            entry: None,
            part: Part::WHOLE,
            said: Vec::new(),
            open: Vec::new(),
            board: Board::default(),
            bytes: Vec::new(),
        }
    }

    /// From now on it counts among those that serve.
    pub fn serve(&mut self) {
        self.serving = true;
    }

    /// From now on it holds so many requests; the board hears of it at the next renewal.
    pub fn hold(&mut self, held: usize) {
        self.held = u32::try_from(held).unwrap_or(u32::MAX);
    }

    /// How many slots of a variant were taken when the board was last looked at.
    #[must_use]
    pub fn taken(&self, variant: Key, now: Mono) -> u32 {
        let column = self.board.column(variant);
        column.map_or(0, |column| self.board.taken(column, now))
    }

    /// How many waited for a variant, at all VMs that live, when the board was last looked at.
    #[must_use]
    pub fn waiting(&self, variant: Key, now: Mono) -> u32 {
        let column = self.board.column(variant);
        column.map_or(0, |column| self.board.waiting(column, now))
    }

    /// Loads the board, to tell what the others have; whether there is one.
    pub fn look(&mut self) -> bool {
        self.scope == Scope::Proxy
            && self.store.load(&mut self.bytes).is_some()
            && self.board.read(&self.bytes).is_ok()
    }

    /// Returns what the others have of a variant of which `taken` slots are taken here, and the work before the
    /// lanes where one execution takes `mean`, by the board as last loaded.
    #[must_use]
    pub fn view(
        &self,
        variant: Key,
        taken: u32,
        mean: Duration,
        now: Mono,
    ) -> Option<(Others, Busy)> {
        let own = |entry: &Entry| entry.incarnation == self.incarnation;
        let own = self.board.entries.iter().position(own)?;
        let column = self.board.column(variant)?;
        let others = self.board.others_of(own, column, now);
        let taken = taken.saturating_add(others.taken);
        Some((others, self.board.busy(column, taken, mean, now)))
    }

    /// Rings all others that live.
    pub fn ring_others(&mut self, why: Ring, now: Mono) {
        if self.store.load(&mut self.bytes).is_some() && self.board.read(&self.bytes).is_ok() {
            for entry in self.board.others(self.incarnation, now) {
                self.store.ring(entry, why);
            }
        }
    }

    /// Renews the lease. `polls`: it can be the one to poll the planner. `None` where the board is
    /// full or all tries were lost.
    pub fn renew(&mut self, polls: bool, now: Mono) -> (Option<Standing>, Outcome) {
        let (incarnation, serving, held) = (self.incarnation, self.serving, self.held);
        let said = (self.scope == Scope::Worker).then(|| self.said.clone());
        let mut standing = None;
        let outcome = self.write(now, |board, terms| {
            let own = board.entry_of(incarnation, now)?;
            let mut changed = board.renew_entry(own, now, terms);
            if let Some(entry) = board.entries.get_mut(own) {
                changed |= (entry.serving, entry.held) != (serving, held);
                (entry.serving, entry.held) = (serving, held);
            }
            if let Some(said) = &said {
                changed |= board.restate(own, said, now, terms);
            }
            if polls && (board.poller.0 == incarnation || board.poller.1 <= now) {
                board.poller = (incarnation, now + terms.poller_lease);
                changed = true;
            }
            standing = Some((
                Standing {
                    process: board.founder,
                    polls: board.poller.0 == incarnation,
                    reports: board.reporter(now) == incarnation,
                    workers: board.workers(now),
                    held: board.held(now),
                },
                Part::among(board, own, now),
            ));
            Some((
                own,
                Turn {
                    changed,
                    ..Turn::default()
                },
            ))
        });
        let standing = standing.filter(|_| !outcome.unsettled);
        if let Some((_, part)) = standing {
            self.part = part;
        }
        (standing.map(|(standing, _)| standing), outcome)
    }

    /// Says what this VM holds of a variant and claims what slots it may: see [`Board::settle`].
    pub fn settle<W: Iterator<Item = Urgency> + Clone>(
        &mut self,
        ask: Ask<'_, W>,
        now: Mono,
    ) -> Outcome {
        self.serving = true;
        if self.scope == Scope::Worker {
            let slots = self.part.of(ask.slots, ask.variant.0 as u32);
            let mut batch = self.batch_of(&ask);
            let outcome = alone(ask.clone(), slots, &mut batch);
            self.open.retain(|(variant, _)| *variant != ask.variant);
            if batch.open() > 0 {
                self.open.push((ask.variant, batch.open()));
            }
            self.remember(ask, outcome.granted, now);
            return outcome;
        }
        let incarnation = self.incarnation;
        let mut full = true;
        let mut outcome = self.write(now, |board, terms| {
            let turn = board.settle(incarnation, ask.clone(), now, terms);
            full = turn.is_none();
            let own = board.entry_of(incarnation, now)?;
            if let Some(entry) = board.entries.get_mut(own) {
                entry.serving = true;
            }
            turn.map(|turn| (own, turn))
        });
        if full {
            // With a slot of its own there is no company to wait for.
            outcome = alone(ask.clone(), ask.slots.min(1), &mut Batch::single());
        }
        self.remember(ask, outcome.granted, now);
        outcome
    }

    /// The variant's batches where this VM is for itself.
    fn batch_of<W>(&self, ask: &Ask<'_, W>) -> Batch {
        let open = self.open.iter().find(|(key, _)| *key == ask.variant);
        let said = self.said.iter().find(|(key, _)| *key == ask.variant);
        let waited = said.map_or(0, |(_, cell)| cell.waits);
        Batch::new(ask, open.map_or(0, |(_, open)| *open), 0, waited)
    }

    /// Keeps what was said of a variant, heard or not; of one there is nothing to say of, nothing.
    fn remember<W: Iterator<Item = Urgency>>(&mut self, ask: Ask<'_, W>, granted: u32, now: Mono) {
        let variant = ask.variant;
        let cell = ask.cell(granted, now, &self.terms);
        self.said.retain(|(key, _)| *key != variant);
        if cell.taken > 0 || cell.head.is_some() {
            self.said.push((variant, cell));
        }
    }

    /// Loads, lets `turn` change, and swaps, until a swap succeeds or the tries are used up.
    ///
    /// Where no other VM serves, the board is most likely as we left it: the first try is made on
    /// that, unread. It fails if it is not, and says nothing that a swap has not confirmed.
    fn write(
        &mut self,
        now: Mono,
        mut turn: impl FnMut(&mut Board, &Terms) -> Option<(usize, Turn)>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut guess = self.store.guess().filter(|_| self.board.workers(now) <= 1);
        while outcome.lost < TRIES_MAX {
            let guessed = guess.take();
            let version = guessed.or_else(|| self.store.load(&mut self.bytes));
            outcome.reset = match version {
                _ if guessed.is_some() => false,
                Some(_) => self.board.read(&self.bytes).is_err(),
                // Gone while VMs live that had an entry: they hold slots it does not know of.
                None => self.entry.is_some(),
            };
            if outcome.reset {
                self.board = Board::anew(now, &self.terms);
            } else if version.is_none() {
                self.board = Board::default();
            }
            let joins = self
                .board
                .join(self.incarnation, &self.said, now, &self.terms);
            if self.board.founder == 0 {
                // A board begun anew is still the same process's.
                let known = [self.process, self.incarnation];
                self.board.founder = known.into_iter().find(|id| *id > 0).unwrap_or(1);
            }
            let Some((own, done)) = turn(&mut self.board, &self.terms) else {
                if guessed.is_some() {
                    continue;
                }
                return outcome;
            };
            outcome.others = done.others;
            if done.changed || joins || outcome.reset {
                self.board.write(&mut self.bytes);
                if !self.store.swap(&self.bytes, version) {
                    outcome.lost += u32::from(guessed.is_none());
                    continue;
                }
            } else if guessed.is_some() {
                continue;
            }
            // Also the same entry anew: another may have had it, and its queue, in between.
            if joins || self.entry != Some(own) {
                self.entry = Some(own);
                self.store.own(own);
            }
            if done.rings {
                self.ring_the_marked(now);
            }
            self.process = self.board.founder;
            (outcome.granted, outcome.more) = (done.granted, done.more);
            (outcome.idle, outcome.sent) = (done.idle, done.sent);
            return outcome;
        }
        outcome.unsettled = true;
        outcome
    }

    fn ring_the_marked(&mut self, now: Mono) {
        let marked = self.board.entries.iter().enumerate();
        for (index, _) in marked.filter(|(_, entry)| entry.rung_at == now.max(Mono(1))) {
            self.store.ring(index, Ring::Slot);
        }
    }
}

/// A VM for itself, with so many slots.
fn alone<W: Iterator<Item = Urgency>>(ask: Ask<'_, W>, slots: u32, batch: &mut Batch) -> Outcome {
    let free = slots.saturating_sub(ask.taken);
    let mut waiting = ask.waiting;
    let mut outcome = Outcome::default();
    let mut head = waiting.next();
    while head.is_some() && outcome.granted < free.min(ask.most) && batch.may_leave(head) {
        batch.leave();
        outcome.granted += 1;
        head = waiting.next();
    }
    let may_leave = outcome.granted < free && batch.may_leave(head);
    outcome.more = may_leave && !batch.is_single() && head.is_some();
    outcome
}
