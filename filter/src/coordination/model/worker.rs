//! One worker of the model: what the engine does with its board (`engine/claim.rs`), without all else.

use std::collections::VecDeque;
use std::time::Duration;

use super::{AFTER, LONG_AGO, LOOK, NOW, SLOTS, STEPS};
use crate::coordination::{
    Ahead, Ask, Board, Cell, Member, Memory, Outcome, Ring, Scope, Sent, TRIES_MAX,
};
use crate::priority::Urgency;
use crate::time::Mono;
use crate::variant::Key;

/// The one variant.
pub(super) const VARIANT: Key = Key(7);
/// What unreadable bytes are read as.
pub(super) const SPOILT: &[u8] = b"not a board";

/// An execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Running {
    /// Its predicted end.
    pub(super) end: Mono,
    /// When it was sent, and its ordinal; 0 where nobody is sent ahead.
    pub(super) sent: Mono,
    ordinal: u32,
}

/// A worker's state between its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    /// What executes for it.
    pub(super) running: Vec<Running>,
    /// What executes, abandoned.
    pub(super) ghosts: Vec<Running>,
    /// Ordinals of what has ended, and whether there are new ghosts, which the board has not heard.
    ended: Vec<u32>,
    news: bool,
    /// Deadlines of those who wait.
    pub(super) waiting: VecDeque<Urgency>,
    until: Mono,
    pub(super) posted: u32,
    posted_head: Option<Urgency>,
    pub(super) unsettled: bool,
    pub(super) entry: Option<usize>,
    said: Vec<(Key, Cell)>,
    /// Steps since it last looked.
    pub(super) looked: u8,
    /// A ring is under way to it: posted since its last look, or before.
    pub(super) ring: (bool, bool),
    /// How often it was rung since it last came for a slot.
    pub(super) rings: u8,
    /// At how many looks on end it still waited although a slot was free all the time.
    pub(super) passed_over: u8,
}

/// The board as it is kept: its bytes could be anybody's.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    pub(super) board: &'a mut Board,
    pub(super) spoilt: &'a mut bool,
    /// Whether this turn's swaps are all lost.
    pub(super) lost: bool,
    /// How long an execution takes, as predicted.
    pub(super) service: Duration,
    /// How many leave together.
    pub(super) batch: u32,
    /// Whether the next is sent before a lane is free.
    pub(super) ahead: bool,
}

/// What makes a worker say what it has, and ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A request, an answer, a client that leaves.
    Event,
    /// It was rung.
    Ring,
    /// Time has passed: nobody waits for company longer than that.
    Look,
}

/// What came of a turn, for those who watch.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) granted: u32,
    pub(super) sent: Sent,
    pub(super) rung: Vec<usize>,
    pub(super) reset: bool,
    pub(super) deadlines: Vec<Urgency>,
    /// Where it was for a slot, and heard: how many waited, and whether the first was due.
    pub(super) asked: Option<(u32, bool)>,
}

impl Worker {
    pub(super) fn incarnation(place: usize) -> u64 {
        place as u64 + 1
    }

    pub(super) fn taken(&self) -> u32 {
        (self.running.len() + self.ghosts.len()) as u32
    }

    /// `claim`, then `park` or `dispatch`.
    pub(super) fn arrive(&mut self, place: usize, deadline: Urgency, kept: &mut Kept<'_>) -> Done {
        self.lay_ghosts();
        if kept.batch > 1 {
            // One more is news even behind the first.
            let after = self.waiting.partition_point(|other| *other <= deadline);
            self.waiting.insert(after, deadline);
            return self.hand_over(place, Cause::Event, kept);
        }
        let first = self.waiting.front().is_none_or(|head| deadline < *head);
        let mut done = Done::default();
        if first {
            done = self.settle(place, Some(deadline), 1, Cause::Event, kept);
        }
        if done.granted == 1 {
            self.run(&done, 0, kept);
            done.deadlines.push(deadline);
        } else {
            let after = self.waiting.partition_point(|other| *other <= deadline);
            self.waiting.insert(after, deadline);
        }
        done
    }

    /// `hand_over`: without anything to say or to ask, nothing.
    pub(super) fn hand_over(&mut self, place: usize, cause: Cause, kept: &mut Kept<'_>) -> Done {
        self.lay_ghosts();
        let settled = !self.unsettled
            && self.waiting.is_empty()
            && self.posted_head.is_none()
            && self.posted == self.taken()
            && self.ended.is_empty()
            && !self.news;
        if settled {
            return Done::default();
        }
        let mut done = self.settle(place, None, u32::MAX, cause, kept);
        for place in 0..done.granted {
            done.deadlines.extend(self.waiting.pop_front());
            self.run(&done, place, kept);
        }
        done
    }

    /// A look: the lease where nothing else renews it, then who waits. Without a lease of its own, as
    /// after the board was spoilt, `renew` says all anew.
    pub(super) fn look(&mut self, place: usize, kept: &mut Kept<'_>) -> Done {
        let renewed = self.renew(place, kept);
        let mut done = self.hand_over(place, Cause::Look, kept);
        done.rung.extend(renewed.rung);
        done.reset |= renewed.reset;
        if !kept.lost {
            (self.looked, self.ring) = (0, (false, self.ring.0));
        }
        done
    }

    pub(super) fn renew(&mut self, place: usize, kept: &mut Kept<'_>) -> Done {
        self.turn(place, kept, |member| member.renew(false, NOW).1)
            .1
    }

    /// Whether it looks now, unless it is slow.
    pub(super) fn is_due(&self) -> bool {
        self.looked >= LOOK
    }

    pub(super) fn finish(&mut self, index: usize) {
        let over = self.running.remove(index);
        self.end(over);
        self.forget_until();
    }

    pub(super) fn abandon(&mut self, index: usize) {
        let over = self.running.remove(index);
        if over.end > NOW {
            self.news |= over.ordinal > 0;
            self.ghosts.push(over);
            self.ghosts.sort_unstable();
        } else {
            self.end(over);
        }
        self.forget_until();
    }

    fn end(&mut self, over: Running) {
        if over.ordinal > 0 {
            self.ended.push(over.ordinal);
            self.ended.sort_unstable();
        }
    }

    /// A step of time goes by.
    pub(super) fn age(&mut self) {
        for running in &mut self.running {
            running.end.0 -= 1;
            running.sent = running.sent.earlier(LONG_AGO);
        }
        for ghost in &mut self.ghosts {
            ghost.end = ghost.end.earlier(NOW);
            ghost.sent = ghost.sent.earlier(LONG_AGO);
        }
        self.until = self.until.earlier(NOW);
        for (_, cell) in &mut self.said {
            cell.until = cell.until.earlier(NOW);
        }
        self.looked += 1;
    }

    fn settle(
        &mut self,
        place: usize,
        arrival: Option<Urgency>,
        most: u32,
        cause: Cause,
        kept: &mut Kept<'_>,
    ) -> Done {
        let waiting: Vec<Urgency> = arrival
            .into_iter()
            .chain(self.waiting.iter().copied())
            .collect();
        let ended = std::mem::take(&mut self.ended);
        let endless: Vec<u32> = self.ghosts.iter().map(|ghost| ghost.ordinal).collect();
        let ahead = Ahead {
            after: AFTER,
            gap: Duration::ZERO,
            mean: kept.service,
            ended: &ended,
            landed: None,
            planned: kept.service,
            endless: &endless,
        };
        let ask = Ask {
            variant: VARIANT,
            slots: SLOTS,
            taken: self.taken(),
            posted: self.posted,
            until: self.until,
            service: kept.service,
            waiting: waiting.iter().copied(),
            waits: waiting.len() as u32,
            most,
            batch: kept.batch,
            due: (cause == Cause::Look).then_some(Urgency(u64::MAX)),
            tick: cause != Cause::Event,
            ahead: kept.ahead.then_some(ahead),
        };
        let (outcome, mut done) = self.turn(place, kept, |member| member.settle(ask, NOW));
        self.unsettled = outcome.unsettled;
        done.sent = outcome.sent;
        if outcome.unsettled {
            self.ended = ended;
        } else {
            self.news = false;
            self.posted_head = waiting.get(outcome.granted as usize).copied();
            self.posted = self.taken() + outcome.granted;
            self.rings = 0;
            done.asked = Some((waiting.len() as u32, cause == Cause::Look));
        }
        done
    }

    /// A turn of the real member over the kept bytes.
    fn turn(
        &mut self,
        place: usize,
        kept: &mut Kept<'_>,
        act: impl FnOnce(&mut Member) -> Outcome,
    ) -> (Outcome, Done) {
        let marks = kept.board.entries.iter().map(|entry| entry.rung_at == NOW);
        let marked: Vec<bool> = marks.collect();
        let store = Memory::default();
        let mut bytes = SPOILT.to_vec();
        if !*kept.spoilt {
            kept.board.write(&mut bytes);
        }
        store.overwrite(bytes);
        if kept.lost {
            store.lose_swaps(TRIES_MAX);
        }
        let incarnation = Worker::incarnation(place);
        let mut member = Member::new(Box::new(store.clone()), incarnation, Scope::Proxy);
        (member.terms, member.serving) = (STEPS, true);
        (member.entry, member.said) = (self.entry, std::mem::take(&mut self.said));
        let outcome = act(&mut member);
        (self.entry, self.said) = (member.entry, std::mem::take(&mut member.said));
        if !outcome.unsettled {
            *kept.spoilt = kept.board.read(&store.bytes().unwrap()).is_err();
        }
        // Steps are coarse: who was marked by another in this step is rung once more, which is no news.
        let news = |entry: &usize| marked.get(*entry) != Some(&true);
        let slot = |(entry, why): (usize, Ring)| (why == Ring::Slot).then_some(entry);
        let rings = store.take_rings().into_iter().filter_map(slot);
        let done = Done {
            granted: outcome.granted,
            sent: Sent::default(),
            rung: rings.filter(news).collect(),
            reset: outcome.reset && !outcome.unsettled,
            deadlines: Vec::new(),
            asked: None,
        };
        (outcome, done)
    }

    /// Number `place` of those granted is sent.
    fn run(&mut self, done: &Done, place: u32, kept: &Kept<'_>) {
        let lies = done.sent.first > 0 && place + done.sent.behind >= done.granted;
        let begins = if lies { NOW + done.sent.waits } else { NOW };
        let end = begins + kept.service;
        let (sent, ordinal) = match done.sent.first {
            0 => (Mono(0), 0),
            first => (NOW, first + place),
        };
        self.running.push(Running { end, sent, ordinal });
        self.running.sort_unstable();
        self.until = self.until.max(end);
    }

    fn lay_ghosts(&mut self) {
        let over = self.ghosts.extract_if(.., |ghost| ghost.end <= NOW);
        for over in over.collect::<Vec<_>>() {
            self.end(over);
        }
        self.forget_until();
    }

    fn forget_until(&mut self) {
        if self.taken() == 0 {
            self.until = Mono(0);
        }
    }
}

/// A moment, one step later.
pub(super) trait Earlier {
    /// Seen from a step later. What is past `floor` is all the same.
    #[must_use]
    fn earlier(self, floor: Mono) -> Self;
}

impl Earlier for Mono {
    fn earlier(self, floor: Mono) -> Mono {
        if self == Mono(0) {
            self
        } else {
            Mono(self.0 - 1).max(floor)
        }
    }
}
