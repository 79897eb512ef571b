//! The waiting queue of one variant: a queue per class and who is next. It knows neither slots nor
//! limits nor the time; what a class may claim is [`class`](crate::waiting::class)'s matter.
//!
//! Earliest deadline first within a class; among classes by priority, a starvation bound, and
//! shares once slots are short: see `scheduler`. With a single class this is one queue.

use std::cmp::{Ordering, Reverse};

use crate::priority::Urgency;
use crate::time::Mono;
use crate::waiting::class::{CLASSES_MAX, ClassId, Classes};
use crate::waiting::queue::{Place, Queue};

use super::class_scheduler::ClassScheduler;

/// Who waits for a slot of one variant.
#[derive(Debug)]
pub struct WaitQueue {
    queues: Vec<Queue>,
    scheduler: ClassScheduler,
    len: usize,
}

/// Order of scheduler_state among the classes of a queue at some moment.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerState(ClassScheduler);

/// Precedence of a request where all places are taken, whatever queue it waits in: by priority, then by
/// place. The greatest makes queue first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    priority: Reverse<u8>,
    place: Place,
}

impl Default for WaitQueue {
    fn default() -> WaitQueue {
        WaitQueue::new(&Classes::default())
    }
}

impl WaitQueue {
    /// An empty one.
    #[must_use]
    pub fn new(classes: &Classes) -> WaitQueue {
        let scheduler = ClassScheduler::new(classes);
        WaitQueue {
            queues: (0..scheduler.class_count())
                .map(|_| Queue::default())
                .collect(),
            scheduler,
            len: 0,
        }
    }

    /// How class_count are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How class_count of a class are held.
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
            let first = self.scheduler.first(index(class));
            if first.is_none_or(|first| place < first) {
                self.scheduler.set_first(index(class), Some(place));
            }
        }
    }

    /// Takes out who is next; its class is charged for it.
    pub fn pop(&mut self) -> Option<(ClassId, Place, u32)> {
        let class = self.scheduler.next_class()?;
        self.scheduler.grant(class);
        self.take(class)
    }

    /// Takes out the earliest of those that are first in their class and satisfy `leaves`, for want
    /// of time: nobody is charged, and from now on classes take scheduler_state by share (see
    /// [`set_contended`](WaitQueue::set_contended)).
    pub fn pop_where(&mut self, leaves: impl Fn(Place) -> bool) -> Option<(ClassId, Place, u32)> {
        let (_, class) = self
            .firsts()
            .filter(|(place, _)| leaves(*place))
            .min_by_key(|(place, _)| *place)?;
        self.set_contended();
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
            if self.scheduler.first(index(class)) == Some(place) {
                self.refresh(index(class));
            }
        }
        found
    }

    /// The classes' order of scheduler_state as it stands, for those that are moved from here.
    #[must_use]
    pub fn scheduler_state(&self) -> SchedulerState {
        SchedulerState(self.scheduler)
    }

    /// Holds `stream`, which waited in another queue whose order of scheduler_state was `from`: a class that is moved
    /// is no further from its scheduler than it was.
    pub fn push_from(&mut self, from: &SchedulerState, class: ClassId, place: Place, stream: u32) {
        let was_empty = self.is_empty();
        self.push(class, place, stream);
        self.scheduler.inherit(&from.0, index(class), was_empty);
    }

    /// Slots have turned out to be short: a request was refused or displaced because of those that
    /// wait here. Until nobody waits, classes of one priority take scheduler_state by share.
    pub fn set_contended(&mut self) {
        self.scheduler.start_sharing();
    }

    /// Whether classes of one priority take scheduler_state by share just now.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.scheduler.is_by_share()
    }

    /// The earliest deadline held, of whatever class.
    #[must_use]
    pub fn earliest(&self) -> Option<Mono> {
        self.firsts().map(|(place, _)| place.deadline).min()
    }

    /// Whether a newcomer would be next, before all that are held.
    #[must_use]
    pub fn is_next(&self, class: ClassId, place: Place) -> bool {
        if self
            .scheduler
            .first(index(class))
            .is_some_and(|first| first < place)
        {
            return false;
        }
        if self.scheduler.class_count() == 1 || self.is_empty() {
            return true;
        }
        let mut scheduler = self.scheduler;
        scheduler.set_first(index(class), Some(place));
        scheduler.next_class() == Some(index(class))
    }

    /// A newcomer grant without being held: its class is charged for it.
    pub fn charge(&mut self, class: ClassId) {
        self.scheduler.grant(index(class));
    }

    /// What is held in the order of leaving, worked out as far as it is looked at.
    pub fn order(&self) -> impl Iterator<Item = Urgency> + Clone + '_ {
        self.order_after(self.scheduler)
    }

    /// The same where there is no choice of classes, or nobody: far quicker to copy than what
    /// works out whose scheduler it is, and what almost every request meets.
    #[must_use]
    pub fn single_class_order(&self) -> Option<impl Iterator<Item = Urgency> + Clone + '_> {
        if self.scheduler.class_count() > 1 && !self.is_empty() {
            return None;
        }
        let tier = self.scheduler.tier(0);
        let queue = self.queues.first()?.iter();
        Some(queue.map(move |(place, _)| Urgency::of(tier, place.deadline)))
    }

    /// How urgent one of that class is at that place.
    #[must_use]
    pub fn urgency(&self, class: ClassId, place: Place) -> Urgency {
        Urgency::of(self.scheduler.tier(index(class)), place.deadline)
    }

    /// Returns the least urgency of a request that is due by then; where there is a choice of classes, any.
    #[must_use]
    pub fn urgency_by(&self, deadline: Mono) -> Urgency {
        if self.scheduler.class_count() > 1 {
            return Urgency(u64::MAX);
        }
        Urgency::of(self.scheduler.tier(0), deadline)
    }

    /// What is held in the order of leaving, behind a newcomer that goes first.
    pub fn order_with(
        &self,
        class: ClassId,
        place: Place,
    ) -> impl Iterator<Item = Urgency> + Clone + '_ {
        let newcomer = self.urgency(class, place);
        let mut scheduler = self.scheduler;
        scheduler.grant(index(class));
        std::iter::once(newcomer).chain(self.order_after(scheduler))
    }

    /// How class_count would go before a newcomer if nobody else came: exact for two classes but for ties
    /// of shares, else near.
    #[must_use]
    pub fn ahead(&self, class: ClassId, place: Place) -> u32 {
        let own = index(class);
        let before = self.rank(own, place);
        if self.scheduler.class_count() == 1 {
            return u32::try_from(before).unwrap_or(u32::MAX);
        }
        let (mut higher, mut ahead) = (0, before);
        for other in self.firsts().map(|(_, other)| other).filter(|o| *o != own) {
            match self
                .scheduler
                .priority(other)
                .cmp(&self.scheduler.priority(own))
            {
                Ordering::Greater => higher += self.held(other),
                Ordering::Equal if self.scheduler.is_by_share() => {
                    let by_share = self.scheduler.share_ahead(own, before, other);
                    ahead += by_share.min(self.held(other));
                }
                Ordering::Equal => ahead += self.rank(other, place),
                Ordering::Less => {}
            }
        }
        ahead += higher.min(self.scheduler.higher_ahead(own, before));
        let above = ahead;
        for other in self.firsts().map(|(_, other)| other) {
            if self.scheduler.priority(other) < self.scheduler.priority(own) {
                ahead += self
                    .held(other)
                    .min(self.scheduler.skipped_ahead(other, above));
            }
        }
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }

    /// The least urgent of all that are held, which makes queue first.
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
            priority: Reverse(self.scheduler.priority(index(class))),
            place,
        }
    }

    fn order_after(&self, scheduler: ClassScheduler) -> impl Iterator<Item = Urgency> + Clone + '_ {
        // The first of each is in `scheduler`.
        let mut lines: [_; CLASSES_MAX] =
            std::array::from_fn(|class| self.queues.get(class).map(|queue| queue.iter().skip(1)));
        let mut scheduler = scheduler;
        std::iter::from_fn(move || {
            let class = scheduler.next_class()?;
            let first = scheduler.first(class)?;
            let urgency = Urgency::of(scheduler.tier(class), first.deadline);
            scheduler.grant(class);
            let next = lines.get_mut(class)?.as_mut()?.next();
            scheduler.set_first(class, next.map(|(place, _)| place));
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
        (0..self.queues.len()).filter_map(|class| Some((self.scheduler.first(class)?, class)))
    }

    fn take(&mut self, class: usize) -> Option<(ClassId, Place, u32)> {
        let (place, stream) = self.queues.get_mut(class)?.pop()?;
        self.len -= 1;
        self.refresh(class);
        Some((id(class), place, stream))
    }

    fn refresh(&mut self, class: usize) {
        let first = self.queues.get(class).and_then(Queue::first);
        self.scheduler
            .set_first(class, first.map(|(place, _)| place));
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
