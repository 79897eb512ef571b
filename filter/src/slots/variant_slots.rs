//! The slots of one variant, as one worker sees them: how many it has taken, and who waits for one.
//! Whether one is free is for the [`board`](crate::coordination) to say, which knows the other workers too.
//!
//! A slot is taken at dispatch and given back when the *server* is done. Most servers go on
//! executing what a client or a timeout has abandoned: such a slot stays taken by a ghost until
//! the server's predicted end.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::coordination::{Busy, Others, Sent};
use crate::priority::{GHOST_MAX, Urgency};
use crate::time::{Mono, nanos};
use crate::waiting::wait_queue::Room;

/// The whole, in the fixed point of [`Gate::usual_rank`].
const RANK: u64 = 1 << 10;

/// Requests that must wait besides one that is sent ahead of a free lane, if every newcomer went before all that wait.
/// With 8, and budgets between 100 and 600 ms, fewer than 1 % of pairs are out of order at 0.95 × capacity
/// (`engine/tests/lanes.rs`); with none up to 2.2 % are, and 0.3 points more are on time.
const AHEAD_BESIDES: u64 = 8;

/// This worker's part in one variant: what it has taken of its slots, and who waits here.
#[derive(Debug, Default)]
pub struct Gate {
    slots: u32,
    in_flight: u32,
    ghosts: BTreeSet<(Mono, u64, u32)>,
    until: Mono,
    /// How many slots the board last heard we had taken.
    pub posted: u32,
    /// The first of those who wait here, as the board last heard.
    pub posted_head: Option<Urgency>,
    /// Whether the board has not heard what it should have: all tries to tell it were lost.
    pub unsettled: bool,
    /// What the board last said of the other workers.
    pub others: Others,
    /// The board's last word on the lanes, and when it was said.
    pub sent: (Sent, Mono),
    /// Ordinals of executions that have ended, which the board has not heard.
    pub ended: Vec<u32>,
    /// Ordinals of executions whose end nobody can foretell: ghosts and streams.
    endless: Vec<u32>,
    /// Whether the board has not heard of the last of these.
    endless_news: bool,
    /// The part of those who waited here that newcomers had before them, of [`RANK`].
    usual_rank: u32,
    /// Those that wait for a slot.
    pub room: Room,
}

impl Gate {
    /// A gate with this waiting room, and without a slot.
    #[must_use]
    pub fn new(room: Room) -> Gate {
        Gate {
            room,
            usual_rank: RANK as u32 / 2,
            ..Gate::default()
        }
    }

    /// Sets how many slots the proxy has. Fewer than are taken: none is free until enough are given
    /// back.
    pub fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
    }

    /// How many slots the proxy has, all its workers together.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots this worker has taken, ghosts included.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.in_flight
            .saturating_add(u32::try_from(self.ghosts.len()).unwrap_or(u32::MAX))
    }

    /// The latest predicted end of what is taken.
    #[must_use]
    pub fn until(&self) -> Mono {
        self.until
    }

    /// Whether nothing is left of it: no slot taken, nobody waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.taken() == 0 && self.room.is_empty()
    }

    /// Whether the board knows all there is to say, and nobody waits who could ask it for more.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.unsettled
            && self.room.is_empty()
            && self.posted_head.is_none()
            && self.posted == self.taken()
            && self.ended.is_empty()
            && !self.endless_news
    }

    /// Takes a slot whose execution should end at `end`.
    pub fn take(&mut self, end: Mono) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.until = self.until.max(end);
    }

    /// Gives back the slot of an execution that is over.
    pub fn give_back(&mut self, ordinal: u32) {
        self.forget_endless(ordinal);
        self.end(ordinal);
        self.leave();
    }

    fn leave(&mut self) {
        debug_assert!(self.in_flight > 0, "a slot given back that was not taken");
        self.in_flight = self.in_flight.saturating_sub(1);
        self.forget_until();
    }

    fn end(&mut self, ordinal: u32) {
        if ordinal > 0 {
            self.ended.push(ordinal);
        }
    }

    /// Nobody can foretell the end of that execution.
    pub fn set_endless(&mut self, ordinal: u32) {
        if ordinal > 0 && !self.endless.contains(&ordinal) {
            self.endless.push(ordinal);
            self.endless_news = true;
        }
    }

    /// The end of that execution can be foretold, or is over.
    pub fn forget_endless(&mut self, ordinal: u32) {
        self.endless.retain(|endless| *endless != ordinal);
    }

    /// Ordinals of executions whose end nobody can foretell.
    #[must_use]
    pub fn endless(&self) -> &[u32] {
        &self.endless
    }

    /// The board has been looked at: what the others have, and what the lanes have before them.
    pub fn see(&mut self, others: Others, busy: Busy, now: Mono) {
        self.others = others;
        (self.sent.0.busy, self.sent.1) = (busy, now);
    }

    /// The board has heard what there was to say.
    pub fn heard(&mut self) {
        self.ended.clear();
        self.endless_news = false;
    }

    /// Leaves a slot to a ghost until the server's predicted end, at the latest [`GHOST_MAX`] from
    /// `now`; `unique` tells ghosts of the same end apart.
    pub fn abandon(&mut self, now: Mono, end: Mono, unique: u64, ordinal: u32) {
        if end > now {
            let end = end.min(now + GHOST_MAX);
            self.ghosts.insert((end, unique, ordinal));
            self.set_endless(ordinal);
            self.leave();
        } else {
            self.give_back(ordinal);
        }
    }

    /// Lays the ghosts whose end has come; whether there were any.
    pub fn lay_ghosts(&mut self, now: Mono) -> bool {
        let before = self.ghosts.len();
        while self.ghosts.first().is_some_and(|(end, ..)| *end <= now)
            && let Some((_, _, ordinal)) = self.ghosts.pop_first()
        {
            self.forget_endless(ordinal);
            self.end(ordinal);
        }
        self.forget_until();
        self.ghosts.len() < before
    }

    /// When something changes by itself: a ghost's end, which frees a slot for whoever waits at any
    /// worker, the beginning of a lane's lead, and the moment from which the earliest deadline held cannot be
    /// met in `service` any more.
    #[must_use]
    pub fn next_wake(&self, service: Duration) -> Option<Mono> {
        let ghost = self.ghosts.first().map(|(end, ..)| *end);
        let lead = self.sent.0.lead_at.filter(|_| !self.room.is_empty());
        let head = self
            .room
            .earliest()
            .map(|deadline| latest_start(deadline, service));
        ghost.into_iter().chain(lead).chain(head).min()
    }

    /// How long a newcomer with so many ahead of it here is likely to wait, where one execution takes
    /// `mean` and `batch` are executed together. What is under way counts with what is left of it, as far as
    /// the board tells; more urgent ones that come later do not.
    #[must_use]
    pub fn wait(&self, ahead: u32, mean: Duration, batch: u32, now: Mono) -> Duration {
        let taken = self.taken().saturating_add(self.others.taken);
        let nobody_waits = self.room.is_empty() && self.others.waiting == 0;
        if self.slots == 0 || (nobody_waits && taken < self.slots) {
            return Duration::ZERO;
        }
        let Some(busy) = self.busy(now) else {
            return self.wait_told_low(ahead, mean);
        };
        let ahead = u64::from(ahead) + self.others_ahead(ahead);
        if ahead == 0 {
            // It has the next slot to get free, which may be at once: refused, it would leave that idle.
            return Duration::ZERO;
        }
        self.backlog(busy, nanos(mean).saturating_mul(ahead), mean, batch)
    }

    /// Where nothing is known of what is under way it counts as ending now, because a request that is refused
    /// for nothing is worse than one that is refused, or moved, when its last moment has come.
    fn wait_told_low(&self, ahead: u32, mean: Duration) -> Duration {
        let here = self.room.len() as u64;
        let others = u64::from(self.others.waiting);
        let others_ahead = match here {
            0 => others / 2,
            here => others * u64::from(ahead) / here,
        };
        let ahead = u64::from(ahead) + others_ahead;
        let ns = mean.as_nanos() * u128::from(ahead) / u128::from(self.slots.max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Whether the board tells what is under way.
    #[must_use]
    pub fn foresees(&self) -> bool {
        self.sent.0.lanes
    }

    /// Time until what is sent is done, and `work` ns more.
    fn backlog(&self, busy: Busy, work: u64, mean: Duration, batch: u32) -> Duration {
        // When the next begins the other lanes are half done, each in the mean.
        let others = u64::from(self.slots.saturating_sub(batch.max(1)));
        let work = work.saturating_add(nanos(busy.rest));
        let work = work.saturating_sub(nanos(mean) / 2 * others);
        Duration::from_nanos(work / u64::from(self.slots.max(1))).max(busy.shortest)
    }

    /// Of those who wait at other workers as many go first, in proportion, as of those here; where few wait
    /// here, as of those who came before.
    fn others_ahead(&self, ahead: u32) -> u64 {
        let others = u64::from(self.others.waiting);
        let here = self.room.len() as u64;
        let (ahead, usual) = (u64::from(ahead), u64::from(self.usual_rank));
        others * (ahead * RANK + usual) / ((here + 1) * RANK)
    }

    /// A newcomer has found its place in the room.
    pub fn note_rank(&mut self, ahead: u32) {
        let here = self.room.len() as u64;
        if let Some(rank) = (u64::from(ahead) * RANK).checked_div(here) {
            let usual = u64::from(self.usual_rank) * 15 + rank.min(RANK);
            self.usual_rank = u32::try_from(usual / 16).unwrap_or(0);
        }
    }

    /// Requests that must wait, here and at other workers, for one of them to be sent ahead of a free lane. One that
    /// comes a moment later may be more urgent: the likelier that is, the more must wait, because among many the first
    /// is seldom overtaken. Where all newcomers go last, one.
    #[must_use]
    pub fn ahead_min(&self) -> u32 {
        let first = RANK - u64::from(self.usual_rank).min(RANK);
        1 + u32::try_from(first * AHEAD_BESIDES / RANK).unwrap_or(0)
    }

    /// Time until the first lane gets free, as far as the board tells; none where one is.
    #[must_use]
    pub fn until_free(&self, now: Mono) -> Duration {
        let taken = self.taken().saturating_add(self.others.taken);
        let busy = self.busy(now).filter(|_| taken >= self.slots);
        busy.map_or(Duration::ZERO, |busy| busy.shortest)
    }

    /// Work before the lanes by now.
    fn busy(&self, now: Mono) -> Option<Busy> {
        let (sent, at) = &self.sent;
        sent.lanes.then(|| {
            let gone = now.since(*at);
            let gone_by_all = gone * self.slots;
            Busy {
                rest: sent.busy.rest.saturating_sub(gone_by_all),
                shortest: sent.busy.shortest.saturating_sub(gone),
            }
        })
    }

    fn forget_until(&mut self) {
        if self.taken() == 0 {
            self.until = Mono(0);
        }
    }
}

/// The last moment at which an execution that takes so long can start and end by the deadline.
#[must_use]
pub fn latest_start(deadline: Mono, service: Duration) -> Mono {
    Mono(deadline.0.saturating_sub(nanos(service)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::class::ClassId;
    use crate::waiting::queue::Place;

    #[test]
    fn a_ghost_keeps_its_slot_until_the_predicted_end() {
        let mut gate = Gate::default();
        gate.take(Mono(100));
        gate.abandon(Mono(10), Mono(100), 0, 0);
        assert!(!gate.lay_ghosts(Mono(99)));
        assert_eq!((gate.taken(), gate.until()), (1, Mono(100)));
        assert!(gate.lay_ghosts(Mono(100)));
        assert_eq!((gate.taken(), gate.until()), (0, Mono(0)));
        assert!(gate.is_idle());
    }

    #[test]
    fn a_ghost_is_bounded_and_one_past_its_end_is_none() {
        let mut gate = Gate::default();
        gate.take(Mono(0));
        gate.take(Mono(0));
        gate.abandon(Mono(10), Mono(10), 0, 0);
        gate.abandon(Mono(10), Mono(u64::MAX), 1, 0);
        assert_eq!(gate.taken(), 1);
        gate.lay_ghosts(Mono(10) + GHOST_MAX);
        assert_eq!(gate.taken(), 0);
    }

    #[test]
    fn wakes_for_a_ghost_and_for_the_last_moment_to_start() {
        let mut gate = Gate::default();
        let service = Duration::from_nanos(30);
        gate.take(Mono(50));
        gate.abandon(Mono(0), Mono(50), 0, 0);
        assert_eq!(
            gate.next_wake(service),
            Some(Mono(50)),
            "others may wait for it"
        );
        let place = Place {
            deadline: Mono(70),
            arrival: 0,
        };
        gate.room.push(ClassId(0), place, 7);
        assert_eq!(gate.next_wake(service), Some(Mono(40)));
        gate.room.cancel(ClassId(0), place);
        gate.lay_ghosts(Mono(50));
        assert_eq!(gate.next_wake(service), None);
    }

    #[test]
    fn is_settled_when_the_board_knows_all() {
        let mut gate = Gate::default();
        assert!(gate.is_settled());
        gate.take(Mono(1));
        assert!(!gate.is_settled());
        gate.posted = 1;
        assert!(gate.is_settled());
        gate.posted_head = Some(Urgency(9));
        assert!(!gate.is_settled());
    }
}
