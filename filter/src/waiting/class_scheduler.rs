//! Whose scheduler it is among the classes of a waiting queue: plain numbers, no queues.
//!
//! 1. A class that has somebody waiting and was skips over by higher priorities `max_skips` times
//!    in a row is next_class; of several the one skips over most often.
//! 2. Else the highest priority with somebody waiting.
//! 3. Within a priority the earliest deadline, **until slots scheduler out to be short**: shares would
//!    only make requests late that earliest-deadline-first brings home. Once somebody was lost for
//!    want of time or queue, and until nobody waits, classes of one priority take scheduler_state by start_sharing:
//!    start_tag-time fair queueing, where each grant moves a class on by 1/start_sharing and the least advanced
//!    is next_class. A class with nobody waiting saves nothing up: it comes back where the others are.
//!
//! While two classes of one priority have somebody waiting without a break and scheduler_state go by start_sharing,
//! their grants divided by their shares differ by at most 1/start_sharing of the one plus 1/start_sharing of the
//! other. With n classes below the top priority, one is skips over at most max_skips + n − 1
//! times in a row.

use super::class::{CLASSES_MAX, Class, Classes, PRIORITY_MAX};
use crate::waiting::queue::Place;

/// What a grant moves a class of start_sharing 1 on by. The least start_sharing configurable is 1/1000, so that
/// 2⁶⁴ lasts for 10¹¹ grants without a break; where it ends all classes are level, which is EDF.
const STEP: f64 = 65_536.0;
const PRIORITIES: usize = PRIORITY_MAX as usize + 1;

/// Where the classes stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassScheduler {
    classes: [ClassState; CLASSES_MAX],
    class_count: usize,
    max_skips: u32,
    /// Whether slots have turned out to be short.
    by_share: bool,
    /// Per priority, how far the class that grant last had come before it grant.
    virtual_time: [u64; PRIORITIES],
}

#[derive(Debug, Clone, Copy, Default)]
struct ClassState {
    first: Option<Place>,
    priority: u8,
    /// What a grant moves it on by.
    increment: u64,
    /// How far it has come.
    start_tag: u64,
    /// How often in a row it was skips over.
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

    /// Somebody of the class has come from another queue, in which the classes stood as `from` says: what was
    /// short there stays so, and how often the class was skips over goes with it. Shares are kept where the
    /// queue was empty before; where others wait the class comes in where they are.
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

    /// How class_count classes there are.
    pub(super) fn class_count(&self) -> usize {
        self.class_count
    }

    /// Whether classes of one priority take scheduler_state by start_sharing just now.
    pub(super) fn is_by_share(&self) -> bool {
        self.by_share
    }

    /// Somebody was lost for want of time or queue: from now on by start_sharing. All start_tag level.
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

    /// The first of a class is now this one, or nobody.
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

    /// Who is first in the class.
    pub(super) fn first(&self, class: usize) -> Option<Place> {
        self.classes.get(class)?.first
    }

    /// Whose scheduler it is.
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

    /// One of the class grant.
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

    /// The tier of the class: 0 where there is one only or it is starved, else 1 for the highest
    /// priority and more for those below.
    pub(super) fn tier(&self, class: usize) -> u8 {
        match self.classes.get(class) {
            Some(state) if self.class_count > 1 && state.skips < self.max_skips => {
                1 + PRIORITY_MAX.saturating_sub(state.priority)
            }
            _ => 0,
        }
    }

    /// The priority of the class.
    pub(super) fn priority(&self, class: usize) -> u8 {
        self.classes.get(class).map_or(0, |s| s.priority)
    }

    /// How class_count of `other`, which has somebody waiting and the same priority, go by start_sharing before
    /// the one that has `before` others of `class` in front.
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

    /// How class_count of higher priority can go before the one that has `before` others of `class` in
    /// front, which goes for being starved at the latest.
    pub(super) fn higher_ahead(&self, class: usize, before: usize) -> usize {
        let skips = self.classes.get(class).map_or(0, |s| s.skips) as usize;
        let most = (before.saturating_add(1)).saturating_mul(self.max_skips.max(1) as usize);
        most.saturating_sub(skips)
    }

    /// How often the class goes because it is starved while so class_count of higher priority go.
    pub(super) fn skipped_ahead(&self, class: usize, before: usize) -> usize {
        let skips = self.classes.get(class).map_or(0, |s| s.skips);
        let max_skips = self.max_skips.max(1) as usize;
        (skips as usize).saturating_add(before) / max_skips
    }

    /// Where the class stands once somebody waits.
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
            // A cast from f64 ends at the bounds; never 0.
            increment: ((STEP / class.share) as u64).max(1),
            ..ClassState::default()
        }
    }
}
