//! The waiting room of one variant: a queue per class and who is next. It knows neither slots nor
//! limits nor the time; what a class may claim is [`class`](crate::waiting::class)'s matter.
//!
//! Earliest deadline first within a class; among classes by priority, a starvation bound, and
//! shares once slots are short: see `turn`. With a single class this is one queue.

use std::cmp::{Ordering, Reverse};

use crate::priority::Urgency;
use crate::time::Mono;
use crate::waiting::class::{CLASSES_MAX, ClassId, Classes};
use crate::waiting::queue::{Place, Queue};

use super::class_scheduler::Turn;

/// Who waits for a slot of one variant.
#[derive(Debug)]
pub struct Room {
    queues: Vec<Queue>,
    turn: Turn,
    len: usize,
}

/// Order of turns among the classes of a room at some moment.
#[derive(Debug, Clone, Copy)]
pub struct Turns(Turn);

/// Precedence of a request where all places are taken, whatever room it waits in: by priority, then by
/// place. The greatest makes room first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    priority: Reverse<u8>,
    place: Place,
}

impl Default for Room {
    fn default() -> Room {
        Room::new(&Classes::default())
    }
}

impl Room {
    /// An empty one.
    #[must_use]
    pub fn new(classes: &Classes) -> Room {
        let turn = Turn::new(classes);
        Room {
            queues: (0..turn.many()).map(|_| Queue::default()).collect(),
            turn,
            len: 0,
        }
    }

    /// How many are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of a class are held.
    #[must_use]
    pub fn len_of(&self, class: ClassId) -> usize {
        self.queues.get(index(class)).map_or(0, Queue::len)
    }

    /// Holds `stream` at `place`.
    pub fn push(&mut self, class: ClassId, place: Place, stream: u32) {
        debug_assert!(index(class) < self.queues.len(), "no such class");
        if let Some(queue) = self.queues.get_mut(index(class)) {
            queue.push(place, stream);
            self.len += 1;
            let first = self.turn.first(index(class));
            if first.is_none_or(|first| place < first) {
                self.turn.set_first(index(class), Some(place));
            }
        }
    }

    /// Takes out who is next; its class is charged for it.
    pub fn pop(&mut self) -> Option<(ClassId, Place, u32)> {
        let class = self.turn.next()?;
        self.turn.went(class);
        self.take(class)
    }

    /// Takes out the earliest of those that are first in their class and satisfy `leaves`, for want
    /// of time: nobody is charged, and from now on classes take turns by share (see
    /// [`contend`](Room::contend)).
    pub fn pop_if(&mut self, leaves: impl Fn(Place) -> bool) -> Option<(ClassId, Place, u32)> {
        let (_, class) = self
            .firsts()
            .filter(|(place, _)| leaves(*place))
            .min_by_key(|(place, _)| *place)?;
        self.contend();
        self.take(class)
    }

    /// Takes out the one at `place`; whether it was there.
    pub fn cancel(&mut self, class: ClassId, place: Place) -> bool {
        let found = self
            .queues
            .get_mut(index(class))
            .is_some_and(|queue| queue.cancel(place));
        if found {
            self.len -= 1;
            if self.turn.first(index(class)) == Some(place) {
                self.refresh(index(class));
            }
        }
        found
    }

    /// The classes' order of turns as it stands, for those that are moved from here.
    #[must_use]
    pub fn turns(&self) -> Turns {
        Turns(self.turn)
    }

    /// Holds `stream`, which waited in another room whose order of turns was `from`: a class that is moved
    /// is no further from its turn than it was.
    pub fn push_from(&mut self, from: &Turns, class: ClassId, place: Place, stream: u32) {
        let was_empty = self.is_empty();
        self.push(class, place, stream);
        self.turn.carry(&from.0, index(class), was_empty);
    }

    /// Slots have turned out to be short: a request was refused or displaced because of those that
    /// wait here. Until nobody waits, classes of one priority take turns by share.
    pub fn contend(&mut self) {
        self.turn.share();
    }

    /// Whether classes of one priority take turns by share just now.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.turn.is_sharing()
    }

    /// The earliest deadline held, of whatever class.
    #[must_use]
    pub fn earliest(&self) -> Option<Mono> {
        self.firsts().map(|(place, _)| place.deadline).min()
    }

    /// Whether a newcomer would be next, before all that are held.
    #[must_use]
    pub fn goes_first(&self, class: ClassId, place: Place) -> bool {
        if self
            .turn
            .first(index(class))
            .is_some_and(|first| first < place)
        {
            return false;
        }
        if self.turn.many() == 1 || self.is_empty() {
            return true;
        }
        let mut turn = self.turn;
        turn.set_first(index(class), Some(place));
        turn.next() == Some(index(class))
    }

    /// A newcomer went without being held: its class is charged for it.
    pub fn charge(&mut self, class: ClassId) {
        self.turn.went(index(class));
    }

    /// What is held in the order of leaving, worked out as far as it is looked at.
    pub fn order(&self) -> impl Iterator<Item = Urgency> + Clone + '_ {
        self.order_after(self.turn)
    }

    /// The same where there is no choice of classes, or nobody: far quicker to copy than what
    /// works out whose turn it is, and what almost every request meets.
    #[must_use]
    pub fn line(&self) -> Option<impl Iterator<Item = Urgency> + Clone + '_> {
        if self.turn.many() > 1 && !self.is_empty() {
            return None;
        }
        let tier = self.turn.tier(0);
        let queue = self.queues.first()?.iter();
        Some(queue.map(move |(place, _)| Urgency::of(tier, place.deadline)))
    }

    /// How urgent one of that class is at that place.
    #[must_use]
    pub fn urgency(&self, class: ClassId, place: Place) -> Urgency {
        Urgency::of(self.turn.tier(index(class)), place.deadline)
    }

    /// Returns the least urgency of a request that is due by then; where there is a choice of classes, any.
    #[must_use]
    pub fn urgency_by(&self, deadline: Mono) -> Urgency {
        if self.turn.many() > 1 {
            return Urgency(u64::MAX);
        }
        Urgency::of(self.turn.tier(0), deadline)
    }

    /// What is held in the order of leaving, behind a newcomer that goes first.
    pub fn order_with(
        &self,
        class: ClassId,
        place: Place,
    ) -> impl Iterator<Item = Urgency> + Clone + '_ {
        let newcomer = self.urgency(class, place);
        let mut turn = self.turn;
        turn.went(index(class));
        std::iter::once(newcomer).chain(self.order_after(turn))
    }

    /// How many would go before a newcomer if nobody else came: exact for two classes but for ties
    /// of shares, else near.
    #[must_use]
    pub fn ahead(&self, class: ClassId, place: Place) -> u32 {
        let own = index(class);
        let before = self.rank(own, place);
        if self.turn.many() == 1 {
            return u32::try_from(before).unwrap_or(u32::MAX);
        }
        let (mut higher, mut ahead) = (0, before);
        for other in self.firsts().map(|(_, other)| other).filter(|o| *o != own) {
            match self.turn.priority(other).cmp(&self.turn.priority(own)) {
                Ordering::Greater => higher += self.held(other),
                Ordering::Equal if self.turn.is_sharing() => {
                    let by_share = self.turn.share_ahead(own, before, other);
                    ahead += by_share.min(self.held(other));
                }
                Ordering::Equal => ahead += self.rank(other, place),
                Ordering::Less => {}
            }
        }
        ahead += higher.min(self.turn.higher_ahead(own, before));
        let above = ahead;
        for other in self.firsts().map(|(_, other)| other) {
            if self.turn.priority(other) < self.turn.priority(own) {
                ahead += self.held(other).min(self.turn.starved_ahead(other, above));
            }
        }
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }

    /// The least urgent of all that are held, which makes room first.
    #[must_use]
    pub fn least_urgent(&self) -> Option<(Precedence, u32)> {
        let latest = |(_, class)| self.least_urgent_of(id(class));
        self.firsts().filter_map(latest).max()
    }

    /// The least urgent of a class.
    #[must_use]
    pub fn least_urgent_of(&self, class: ClassId) -> Option<(Precedence, u32)> {
        let (place, stream) = self.queues.get(index(class))?.latest()?;
        Some((self.precedence(class, place), stream))
    }

    /// The precedence of one of that class at that place.
    #[must_use]
    pub fn precedence(&self, class: ClassId, place: Place) -> Precedence {
        Precedence {
            priority: Reverse(self.turn.priority(index(class))),
            place,
        }
    }

    fn order_after(&self, turn: Turn) -> impl Iterator<Item = Urgency> + Clone + '_ {
        // The first of each is in `turn`.
        let mut lines: [_; CLASSES_MAX] =
            std::array::from_fn(|class| self.queues.get(class).map(|queue| queue.iter().skip(1)));
        let mut turn = turn;
        std::iter::from_fn(move || {
            let class = turn.next()?;
            let first = turn.first(class)?;
            let urgency = Urgency::of(turn.tier(class), first.deadline);
            turn.went(class);
            let next = lines.get_mut(class)?.as_mut()?.next();
            turn.set_first(class, next.map(|(place, _)| place));
            Some(urgency)
        })
    }

    fn rank(&self, class: usize, place: Place) -> usize {
        self.queues.get(class).map_or(0, |queue| queue.rank(place))
    }

    fn held(&self, class: usize) -> usize {
        self.queues.get(class).map_or(0, Queue::len)
    }

    fn firsts(&self) -> impl Iterator<Item = (Place, usize)> + '_ {
        (0..self.queues.len()).filter_map(|class| Some((self.turn.first(class)?, class)))
    }

    fn take(&mut self, class: usize) -> Option<(ClassId, Place, u32)> {
        let (place, stream) = self.queues.get_mut(class)?.pop()?;
        self.len -= 1;
        self.refresh(class);
        Some((id(class), place, stream))
    }

    fn refresh(&mut self, class: usize) {
        let first = self.queues.get(class).and_then(Queue::first);
        self.turn.set_first(class, first.map(|(place, _)| place));
    }
}

fn index(class: ClassId) -> usize {
    usize::from(class.0)
}

/// There are at most [`CLASSES_MAX`].
fn id(class: usize) -> ClassId {
    ClassId(u8::try_from(class).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests;
