//! Wait queue of one variant: a queue per class, and the order among them. It knows neither slots nor
//! limits nor time; [`class`](crate::waiting::class) defines the classes.
//!
//! Earliest deadline first within a class; among classes by priority, a maximum number of skips, and shares
//! once slots are contended: see `class_scheduler`. With a single class this is one queue.

use std::cmp::{Ordering, Reverse};

use crate::priority::Urgency;
use crate::time::{Mono, Span};
use crate::waiting::class::{CLASSES_MAX, ClassId, Classes};
use crate::waiting::queue::{Place, Queue};

use super::class_scheduler::ClassScheduler;

/// Requests waiting for a slot of one variant.
#[derive(Debug)]
pub struct WaitQueue {
    queues: Vec<Queue>,
    scheduler: ClassScheduler,
    len: usize,
    contended: bool,
}

/// Snapshot of a queue's class scheduler.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerState(ClassScheduler);

/// Precedence of a request at a limit, in any queue: by priority, then by place. The greatest is evicted
/// first.
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
    /// Creates an empty queue.
    #[must_use]
    pub fn new(classes: &Classes) -> WaitQueue {
        let scheduler = ClassScheduler::new(classes);
        WaitQueue {
            queues: (0..scheduler.class_count())
                .map(|_| Queue::default())
                .collect(),
            scheduler,
            len: 0,
            contended: false,
        }
    }

    /// Number of requests held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of requests of a class.
    #[must_use]
    pub fn len_of(&self, class: ClassId) -> usize {
        self.queues.get(index(class)).map_or(0, Queue::len)
    }

    /// Adds `stream` at `place`.
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

    /// Removes the next request and charges its class.
    pub fn pop(&mut self) -> Option<(ClassId, Place, u32)> {
        let class = self.scheduler.next_class()?;
        self.scheduler.grant(class);
        self.take(class)
    }

    /// Removes the earliest request that is first in its class and satisfies `leaves`, for lack of time: no
    /// class is charged, and from now on classes are ordered by share (see
    /// [`set_contended`](WaitQueue::set_contended)).
    pub fn pop_where(
        &mut self,
        leaves: impl Fn(ClassId, Place) -> bool,
    ) -> Option<(ClassId, Place, u32)> {
        let (_, class) = self
            .firsts()
            .filter(|(place, class)| leaves(id(*class), *place))
            .min_by_key(|(place, _)| *place)?;
        self.set_contended();
        self.take(class)
    }

    /// Removes the request at `place`; returns whether it was there.
    pub fn cancel(&mut self, class: ClassId, place: Place) -> bool {
        let found = self
            .queues
            .get_mut(index(class))
            .is_some_and(|queue| queue.cancel(place));
        if found {
            self.removed();
            if self.scheduler.first(index(class)) == Some(place) {
                self.refresh(index(class));
            }
        }
        found
    }

    /// Snapshot of the class scheduler, for requests moved from here.
    #[must_use]
    pub fn scheduler_state(&self) -> SchedulerState {
        SchedulerState(self.scheduler)
    }

    /// Adds `stream` from another queue with scheduler state `from`, so that its class is no further from its
    /// turn than there.
    pub fn push_from(&mut self, from: &SchedulerState, class: ClassId, place: Place, stream: u32) {
        let was_empty = self.is_empty();
        self.push(class, place, stream);
        self.scheduler.inherit(&from.0, index(class), was_empty);
    }

    /// Marks slots as contended: a request was refused or displaced because of those waiting here. Until the
    /// queue is empty, classes of one priority are ordered by share.
    pub fn set_contended(&mut self) {
        self.contended = !self.is_empty();
        self.scheduler.start_sharing();
    }

    /// Whether slots are contended.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.contended
    }

    /// Latest deadline held, of any class.
    #[must_use]
    pub fn latest(&self) -> Option<Mono> {
        let latest = self.queues.iter().filter_map(Queue::latest);
        latest.map(|(place, _)| place.deadline).max()
    }

    /// Earliest deadline held, of any class.
    #[must_use]
    pub fn earliest(&self) -> Option<Mono> {
        self.firsts().map(|(place, _)| place.deadline).min()
    }

    /// Earliest of the latest starts of the requests that are first in their classes, by the service time of each.
    #[must_use]
    pub fn latest_start(&self, service: impl Fn(ClassId, Place) -> Span) -> Option<Mono> {
        let starts = self.firsts().map(|(place, class)| {
            let service = service(id(class), place);
            place.deadline - service
        });
        starts.min()
    }

    /// Whether a newcomer would go before all requests held.
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

    /// Charges the class of a newcomer that was never held.
    pub fn charge(&mut self, class: ClassId) {
        self.scheduler.grant(index(class));
    }

    /// Urgencies in the order of leaving, computed lazily; a newcomer goes first.
    pub fn order(
        &self,
        newcomer: Option<(ClassId, Place)>,
    ) -> impl Iterator<Item = Urgency> + Clone + '_ {
        let mut scheduler = self.scheduler;
        let first = newcomer.map(|(class, place)| {
            scheduler.grant(index(class));
            self.urgency(class, place)
        });
        first.into_iter().chain(self.order_after(scheduler))
    }

    /// The same for a single class, or an empty queue; else `None`. Far cheaper to copy than the general order,
    /// and the case of almost every request.
    #[must_use]
    pub fn single_class_order(
        &self,
        newcomer: Option<(ClassId, Place)>,
    ) -> Option<impl Iterator<Item = Urgency> + Clone + '_> {
        if self.scheduler.class_count() > 1 && !self.is_empty() {
            return None;
        }
        let first = newcomer.map(|(class, place)| self.urgency(class, place));
        let tier = self.scheduler.tier(0);
        let queue = self.queues.first()?.iter();
        let waiting = queue.map(move |(place, _)| Urgency::of(tier, place.deadline));
        Some(first.into_iter().chain(waiting))
    }

    /// Urgency of the request that leaves first.
    #[must_use]
    pub fn head(&self) -> Option<Urgency> {
        let class = self.scheduler.next_class()?;
        let first = self.scheduler.first(class)?;
        Some(Urgency::of(self.scheduler.tier(class), first.deadline))
    }

    /// Urgency of a request of that class at that place.
    #[must_use]
    pub fn urgency(&self, class: ClassId, place: Place) -> Urgency {
        Urgency::of(self.scheduler.tier(index(class)), place.deadline)
    }

    /// Least urgency of a request due by `deadline`; with several classes, any.
    #[must_use]
    pub fn urgency_by(&self, deadline: Mono) -> Urgency {
        if self.scheduler.class_count() > 1 {
            return Urgency(u64::MAX);
        }
        Urgency::of(self.scheduler.tier(0), deadline)
    }

    /// Number of requests that would go before a newcomer without further arrivals: exact for two classes but
    /// for ties of shares, else approximate.
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

    /// Least urgent request held, which is evicted first.
    #[must_use]
    pub fn least_urgent(&self) -> Option<(Precedence, u32)> {
        let latest = |(_, class)| self.least_urgent_of(id(class));
        self.firsts().filter_map(latest).max()
    }

    /// Least urgent request of a class.
    #[must_use]
    pub fn least_urgent_of(&self, class: ClassId) -> Option<(Precedence, u32)> {
        let (place, stream) = self.queues.get(index(class))?.latest()?;
        Some((self.precedence(class, place), stream))
    }

    /// Precedence of a request of that class at that place.
    #[must_use]
    pub fn precedence(&self, class: ClassId, place: Place) -> Precedence {
        Precedence {
            priority: Reverse(self.scheduler.priority(index(class))),
            place,
        }
    }

    fn order_after(&self, scheduler: ClassScheduler) -> impl Iterator<Item = Urgency> + Clone + '_ {
        // The scheduler holds the first request of each class.
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
        self.removed();
        self.refresh(class);
        Some((id(class), place, stream))
    }

    /// Counts a request that is no longer held.
    fn removed(&mut self) {
        self.len -= 1;
        self.contended &= self.len > 0;
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
