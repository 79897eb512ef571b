//! The slots of one variant: how many requests it may execute at once, and who waits for one.
//!
//! A slot is taken at dispatch and given back when the *server* is done. Most servers go on
//! executing what a client or a timeout has abandoned: such a slot stays taken by a ghost until
//! the server's predicted end.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::queue::Queue;
use crate::time::Mono;

/// Which variant, in the engine's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariantId(pub u16);

/// Longest that a ghost keeps its slot.
pub const GHOST_MAX: Duration = Duration::from_secs(60);

/// Slots and waiting room of one variant.
#[derive(Debug, Default)]
pub struct Gate {
    slots: u32,
    in_flight: u32,
    ghosts: BTreeSet<(Mono, u64)>,
    /// Those that wait for a slot.
    pub queue: Queue,
}

impl Gate {
    /// Sets how many slots there are. Fewer than are taken: none is free until enough are given back.
    pub fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots taken, ghosts included.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.in_flight
            .saturating_add(u32::try_from(self.ghosts.len()).unwrap_or(u32::MAX))
    }

    /// Whether a slot is free.
    #[must_use]
    pub fn has_free(&self) -> bool {
        self.taken() < self.slots
    }

    /// Whether a request that arrives now would go at once: a slot is free and nobody waits.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.has_free() && self.queue.is_empty()
    }

    /// Whether somebody waits and could go.
    #[must_use]
    pub fn can_hand_over(&self) -> bool {
        self.has_free() && !self.queue.is_empty()
    }

    /// Whether nothing is left of it: no slot taken, nobody waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.taken() == 0 && self.queue.is_empty()
    }

    /// Takes a slot.
    pub fn take(&mut self) {
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// Gives back a slot whose execution is over.
    pub fn give_back(&mut self) {
        debug_assert!(self.in_flight > 0, "a slot given back that was not taken");
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Leaves a slot to a ghost until the server's predicted end, at the latest [`GHOST_MAX`] from
    /// `now`; `unique` tells ghosts of the same end apart.
    pub fn abandon(&mut self, now: Mono, end: Mono, unique: u64) {
        self.give_back();
        if end > now {
            self.ghosts.insert((end.min(now + GHOST_MAX), unique));
        }
    }

    /// Lays the ghosts whose end has come.
    pub fn lay_ghosts(&mut self, now: Mono) {
        while self.ghosts.first().is_some_and(|(end, _)| *end <= now) {
            self.ghosts.pop_first();
        }
    }

    /// When something changes by itself: a deadline in the queue, or, where somebody waits, a
    /// ghost's end. Time zero, so at once, where somebody waits beside a slot that a ghost has left.
    #[must_use]
    pub fn next_wake(&self) -> Option<Mono> {
        let deadline = self.queue.earliest()?;
        if self.has_free() {
            return Some(Mono(0));
        }
        let ghost = self.ghosts.first().map_or(deadline, |(end, _)| *end);
        Some(deadline.min(ghost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Place;

    #[test]
    fn a_ghost_keeps_its_slot_until_the_predicted_end() {
        let mut gate = Gate::default();
        gate.set_slots(1);
        gate.take();
        gate.abandon(Mono(10), Mono(100), 0);
        assert!(!gate.has_free());
        gate.lay_ghosts(Mono(99));
        assert!(!gate.has_free());
        gate.lay_ghosts(Mono(100));
        assert!(gate.has_free());
    }

    #[test]
    fn a_ghost_is_bounded_and_one_past_its_end_is_none() {
        let mut gate = Gate::default();
        gate.set_slots(2);
        gate.take();
        gate.take();
        gate.abandon(Mono(10), Mono(10), 0);
        gate.abandon(Mono(10), Mono(u64::MAX), 1);
        assert_eq!(gate.taken(), 1);
        gate.lay_ghosts(Mono(10) + GHOST_MAX);
        assert_eq!(gate.taken(), 0);
    }

    #[test]
    fn fewer_slots_than_taken_closes_the_gate_until_enough_are_back() {
        let mut gate = Gate::default();
        gate.set_slots(3);
        (0..3).for_each(|_| gate.take());
        gate.set_slots(1);
        gate.give_back();
        gate.give_back();
        assert!(!gate.has_free());
        gate.give_back();
        assert!(gate.has_free() && gate.is_idle());
    }

    #[test]
    fn wakes_for_a_deadline_or_an_earlier_ghost() {
        let mut gate = Gate::default();
        gate.set_slots(1);
        gate.take();
        gate.abandon(Mono(0), Mono(50), 0);
        assert_eq!(gate.next_wake(), None, "nobody waits");
        gate.queue.push(
            Place {
                deadline: Mono(80),
                arrival: 0,
            },
            7,
        );
        assert_eq!(gate.next_wake(), Some(Mono(50)));
        gate.lay_ghosts(Mono(50));
        assert!(gate.can_hand_over() && !gate.is_open());
        assert_eq!(gate.next_wake(), Some(Mono(0)), "somebody can go at once");
        gate.take();
        assert_eq!(gate.next_wake(), Some(Mono(80)));
    }
}
