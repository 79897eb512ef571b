//! The slots of one variant, as one worker sees them: how many it has taken, and who waits for one.
//! Whether one is free is for the [`board`](crate::board) to say, which knows the other workers too.
//!
//! A slot is taken at dispatch and given back when the *server* is done. Most servers go on
//! executing what a client or a timeout has abandoned: such a slot stays taken by a ghost until
//! the server's predicted end.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::board::{Others, Urgency};
use crate::room::Room;
use crate::time::{Mono, nanos};

/// Which variant, in the engine's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariantId(pub u16);

/// Longest that a ghost keeps its slot.
pub const GHOST_MAX: Duration = Duration::from_secs(60);

/// This worker's part in one variant: what it has taken of its slots, and who waits here.
#[derive(Debug, Default)]
pub struct Gate {
    slots: u32,
    in_flight: u32,
    ghosts: BTreeSet<(Mono, u64)>,
    until: Mono,
    /// How many slots the board last heard we had taken.
    pub posted: u32,
    /// The first of those who wait here, as the board last heard.
    pub posted_head: Option<Urgency>,
    /// Whether the board has not heard what it should have: all tries to tell it were lost.
    pub unsettled: bool,
    /// What the board last said of the other workers.
    pub others: Others,
    /// Those that wait for a slot.
    pub room: Room,
}

impl Gate {
    /// A gate with this waiting room, and without a slot.
    #[must_use]
    pub fn new(room: Room) -> Gate {
        Gate {
            room,
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
    }

    /// Takes a slot whose execution should end at `end`.
    pub fn take(&mut self, end: Mono) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.until = self.until.max(end);
    }

    /// Gives back a slot whose execution is over.
    pub fn give_back(&mut self) {
        debug_assert!(self.in_flight > 0, "a slot given back that was not taken");
        self.in_flight = self.in_flight.saturating_sub(1);
        self.forget_until();
    }

    /// Leaves a slot to a ghost until the server's predicted end, at the latest [`GHOST_MAX`] from
    /// `now`; `unique` tells ghosts of the same end apart.
    pub fn abandon(&mut self, now: Mono, end: Mono, unique: u64) {
        if end > now {
            self.ghosts.insert((end.min(now + GHOST_MAX), unique));
        }
        self.give_back();
    }

    /// Lays the ghosts whose end has come; whether there were any.
    pub fn lay_ghosts(&mut self, now: Mono) -> bool {
        let before = self.ghosts.len();
        while self.ghosts.first().is_some_and(|(end, _)| *end <= now) {
            self.ghosts.pop_first();
        }
        self.forget_until();
        self.ghosts.len() < before
    }

    /// When something changes by itself: a ghost's end, which frees a slot for whoever waits at any
    /// worker, and the moment from which the earliest deadline held cannot be met in `service` any
    /// more.
    #[must_use]
    pub fn next_wake(&self, service: Duration) -> Option<Mono> {
        let ghost = self.ghosts.first().map(|(end, _)| *end);
        let head = self
            .room
            .earliest()
            .map(|deadline| latest_start(deadline, service));
        ghost.into_iter().chain(head).min()
    }

    /// How long a newcomer with so many ahead of it here is likely to wait, where one execution takes
    /// `mean`. Of those who wait at other workers as many go first, in proportion, as of those here. Told
    /// low rather than high: what is under way counts as ending now, because a request that is refused
    /// for nothing is worse than one that is refused, or moved, when its last moment has come.
    #[must_use]
    pub fn wait(&self, ahead: u32, mean: Duration) -> Duration {
        let taken = self.taken().saturating_add(self.others.taken);
        let nobody_waits = self.room.is_empty() && self.others.waiting == 0;
        if self.slots == 0 || (nobody_waits && taken < self.slots) {
            return Duration::ZERO;
        }
        let here = self.room.len() as u64;
        let others = u64::from(self.others.waiting);
        let others_ahead = match here {
            0 => others / 2,
            here => others * u64::from(ahead) / here,
        };
        let ahead = u64::from(ahead) + others_ahead;
        if ahead == 0 {
            return Duration::ZERO;
        }
        let ns = mean.as_nanos() * u128::from(ahead) / u128::from(self.slots);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
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
    use crate::class::ClassId;
    use crate::queue::Place;

    #[test]
    fn a_ghost_keeps_its_slot_until_the_predicted_end() {
        let mut gate = Gate::default();
        gate.take(Mono(100));
        gate.abandon(Mono(10), Mono(100), 0);
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
        gate.abandon(Mono(10), Mono(10), 0);
        gate.abandon(Mono(10), Mono(u64::MAX), 1);
        assert_eq!(gate.taken(), 1);
        gate.lay_ghosts(Mono(10) + GHOST_MAX);
        assert_eq!(gate.taken(), 0);
    }

    #[test]
    fn wakes_for_a_ghost_and_for_the_last_moment_to_start() {
        let mut gate = Gate::default();
        let service = Duration::from_nanos(30);
        gate.take(Mono(50));
        gate.abandon(Mono(0), Mono(50), 0);
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
