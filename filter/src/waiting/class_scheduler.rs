//! Class scheduler: the order among the classes of a wait queue (start-time fair queueing). Plain numbers,
//! no queues.
//!
//! 1. A class with waiting requests that was passed over by higher priorities `max_skips` times in a row is
//!    next; of several, the one passed over most often.
//! 2. Else the highest priority with waiting requests.
//! 3. Within a priority the earliest deadline, **until slots are contended**: before that, shares would
//!    only delay requests that earliest deadline first serves in time. Once a request was lost to lack of
//!    time or room, and until the queue is empty, classes of one priority are ordered by share with
//!    start-time fair queueing: each grant advances a class by 1/share, and the least advanced is next. A
//!    class without waiting requests accumulates nothing: it resumes at the virtual time of the others.
//!
//! While two classes of one priority have waiting requests all the time and are ordered by share, their
//! grants divided by their shares differ by at most 1/share of the one plus 1/share of the other. With n
//! classes below the highest priority, one is passed over at most max_skips + n − 1 times in a row.

use super::class::{CLASSES_MAX, Class, Classes, PRIORITY_MAX};
use crate::waiting::queue::Place;

/// Increment of a class of share 1. The minimum share is 1/1000, so that 2⁶⁴ lasts for 10¹¹ grants without
/// a break; after that all classes are level, which is EDF.
const STEP: f64 = 65_536.0;
const PRIORITIES: usize = PRIORITY_MAX as usize + 1;

/// State of the classes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassScheduler {
    classes: [ClassState; CLASSES_MAX],
    class_count: usize,
    max_skips: u32,
    /// Whether slots are contended.
    by_share: bool,
    /// Virtual time per priority: start tag of the class granted last, before its grant.
    virtual_time: [u64; PRIORITIES],
}

#[derive(Debug, Clone, Copy, Default)]
struct ClassState {
    first: Option<Place>,
    priority: u8,
    /// Increment of the start tag per grant.
    increment: u64,
    /// Start tag.
    start_tag: u64,
    /// Number of times in a row that it was passed over.
    skips: u32,
}

impl ClassScheduler {
    pub(super) fn new(config: &Classes) -> ClassScheduler {
        let mut classes = [ClassState::default(); CLASSES_MAX];
        for (state, class) in classes.iter_mut().zip(&config.list) {
            *state = ClassState::of(class);
        }
        ClassScheduler {
            classes,
            class_count: config.len().min(CLASSES_MAX),
            max_skips: config.max_skips,
            by_share: false,
            virtual_time: [0; PRIORITIES],
        }
    }

    /// Takes over scheduling state for a class whose request comes from another queue with state `from`:
    /// contention there continues here, and the class keeps its number of skips. Start tags are taken over if
    /// this queue was empty; otherwise the class resumes at the virtual time of the others.
    pub(super) fn inherit(&mut self, from: &ClassScheduler, class: usize, was_empty: bool) {
        if self.class_count == 1 {
            return;
        }
        if was_empty {
            self.virtual_time = from.virtual_time;
            self.by_share = from.by_share;
            for (own, other) in self.classes.iter_mut().zip(&from.classes) {
                own.start_tag = other.start_tag;
            }
        } else if from.by_share {
            self.start_sharing();
        }
        if let Some((own, other)) = self.classes.get_mut(class).zip(from.classes.get(class)) {
            own.skips = own.skips.max(other.skips);
        }
    }

    /// Number of classes.
    pub(super) fn class_count(&self) -> usize {
        self.class_count
    }

    /// Whether classes of one priority are ordered by share.
    pub(super) fn is_by_share(&self) -> bool {
        self.by_share
    }

    /// Orders by share from now on, after a request was lost to lack of time or room. All start level.
    pub(super) fn start_sharing(&mut self) {
        if self.by_share || self.class_count == 1 || !self.waiting().any(|_| true) {
            return;
        }
        self.by_share = true;
        self.virtual_time = [0; PRIORITIES];
        for state in &mut self.classes {
            state.start_tag = 0;
        }
    }

    /// Sets the first request of a class, or none.
    pub(super) fn set_first(&mut self, class: usize, first: Option<Place>) {
        let begins = self.begin(class);
        let Some(state) = self.classes.get_mut(class) else {
            return;
        };
        match (state.first, first) {
            (None, Some(_)) => state.start_tag = begins,
            (Some(_), None) => state.skips = 0,
            _ => {}
        }
        state.first = first;
        if first.is_none() && self.by_share {
            let somebody = self.waiting().any(|_| true);
            self.by_share = somebody;
        }
    }

    /// First request of the class.
    pub(super) fn first(&self, class: usize) -> Option<Place> {
        self.classes.get(class)?.first
    }

    /// Class to be granted next.
    pub(super) fn next_class(&self) -> Option<usize> {
        if self.class_count == 1 {
            return self.first(0).map(|_| 0);
        }
        let starved = self
            .waiting()
            .filter(|(_, state, _)| state.skips >= self.max_skips)
            .max_by_key(|(_, state, _)| (state.skips, state.priority));
        if let Some((class, _, _)) = starved {
            return Some(class);
        }
        let top = self.waiting().map(|(_, s, _)| s.priority).max()?;
        self.waiting()
            .filter(|(_, state, _)| state.priority == top)
            .min_by_key(|(_, state, first)| {
                let start_tag = if self.by_share { state.start_tag } else { 0 };
                (start_tag, *first)
            })
            .map(|(class, _, _)| class)
    }

    /// Accounts for a grant to the class.
    pub(super) fn grant(&mut self, class: usize) {
        if self.class_count == 1 {
            return;
        }
        let start_tag = self.begin(class);
        let Some(state) = self.classes.get_mut(class) else {
            return;
        };
        state.skips = 0;
        let priority = state.priority;
        if self.by_share {
            state.start_tag = start_tag.saturating_add(state.increment);
            if let Some(virtual_time) = self.virtual_time.get_mut(usize::from(priority)) {
                *virtual_time = start_tag.max(*virtual_time);
            }
        }
        for other in &mut self.classes {
            if other.first.is_some() && other.priority < priority {
                other.skips = other.skips.saturating_add(1);
            }
        }
    }

    /// Tier of the class: 0 if it is the only one or has reached `max_skips`, else 1 for the highest priority
    /// and more for those below.
    pub(super) fn tier(&self, class: usize) -> u8 {
        match self.classes.get(class) {
            Some(state) if self.class_count > 1 && state.skips < self.max_skips => {
                1 + PRIORITY_MAX.saturating_sub(state.priority)
            }
            _ => 0,
        }
    }

    /// Priority of the class.
    pub(super) fn priority(&self, class: usize) -> u8 {
        self.classes.get(class).map_or(0, |s| s.priority)
    }

    /// Number of requests of `other`, which has waiting requests and the same priority, that go by share before
    /// the one with `before` others of `class` ahead of it.
    pub(super) fn share_ahead(&self, class: usize, before: usize, other: usize) -> usize {
        let Some((own, other)) = self.classes.get(class).zip(self.classes.get(other)) else {
            return 0;
        };
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        let start_tag = own.increment.saturating_mul(before);
        let lead = start_tag
            .saturating_add(self.begin(class))
            .saturating_sub(other.start_tag);
        usize::try_from(lead.div_ceil(other.increment)).unwrap_or(usize::MAX)
    }

    /// Number of requests of higher priority that can go before the one with `before` others of `class` ahead
    /// of it, which goes at the latest by `max_skips`.
    pub(super) fn higher_ahead(&self, class: usize, before: usize) -> usize {
        let skips = self.classes.get(class).map_or(0, |s| s.skips) as usize;
        let most = (before.saturating_add(1)).saturating_mul(self.max_skips.max(1) as usize);
        most.saturating_sub(skips)
    }

    /// Number of grants to the class by `max_skips` while `before` requests of higher priority go.
    pub(super) fn skipped_ahead(&self, class: usize, before: usize) -> usize {
        let skips = self.classes.get(class).map_or(0, |s| s.skips);
        let max_skips = self.max_skips.max(1) as usize;
        (skips as usize).saturating_add(before) / max_skips
    }

    /// Start tag of the class once a request waits.
    fn begin(&self, class: usize) -> u64 {
        let Some(state) = self.classes.get(class) else {
            return 0;
        };
        let virtual_time = self.virtual_time.get(usize::from(state.priority)).copied();
        match state.first {
            Some(_) => state.start_tag,
            None => state.start_tag.max(virtual_time.unwrap_or(0)),
        }
    }

    fn waiting(&self) -> impl Iterator<Item = (usize, &ClassState, Place)> {
        self.classes
            .iter()
            .enumerate()
            .filter_map(|(class, state)| Some((class, state, state.first?)))
    }
}

impl ClassState {
    fn of(class: &Class) -> ClassState {
        ClassState {
            priority: class.priority.min(PRIORITY_MAX),
            // A cast from f64 saturates; never 0.
            increment: ((STEP / class.share) as u64).max(1),
            ..ClassState::default()
        }
    }
}
