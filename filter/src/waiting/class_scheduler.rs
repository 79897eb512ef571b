//! Whose turn it is among the classes of a waiting room: plain numbers, no queues.
//!
//! 1. A class that has somebody waiting and was passed over by higher priorities `starvation` times
//!    in a row is next; of several the one passed over most often.
//! 2. Else the highest priority with somebody waiting.
//! 3. Within a priority the earliest deadline, **until slots turn out to be short**: shares would
//!    only make requests late that earliest-deadline-first brings home. Once somebody was lost for
//!    want of time or room, and until nobody waits, classes of one priority take turns by share:
//!    start-time fair queueing, where each grant moves a class on by 1/share and the least advanced
//!    is next. A class with nobody waiting saves nothing up: it comes back where the others are.
//!
//! While two classes of one priority have somebody waiting without a break and turns go by share,
//! their grants divided by their shares differ by at most 1/share of the one plus 1/share of the
//! other. With n classes below the top priority, one is passed over at most starvation + n − 1
//! times in a row.

use crate::waiting::class::{CLASSES_MAX, Class, Classes, PRIORITY_MAX};
use crate::waiting::queue::Place;

/// What a grant moves a class of share 1 on by. The least share configurable is 1/1000, so that
/// 2⁶⁴ lasts for 10¹¹ grants without a break; where it ends all classes are level, which is EDF.
const STEP: f64 = 65_536.0;
const PRIORITIES: usize = PRIORITY_MAX as usize + 1;

/// Where the classes stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    standings: [Standing; CLASSES_MAX],
    many: usize,
    starvation: u32,
    /// Whether slots have turned out to be short.
    sharing: bool,
    /// Per priority, how far the class that went last had come before it went.
    reached: [u64; PRIORITIES],
}

#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    first: Option<Place>,
    priority: u8,
    /// What a grant moves it on by.
    step: u64,
    /// How far it has come.
    start: u64,
    /// How often in a row it was passed over.
    passed: u32,
}

impl Turn {
    pub(super) fn new(classes: &Classes) -> Turn {
        let mut standings = [Standing::default(); CLASSES_MAX];
        for (standing, class) in standings.iter_mut().zip(&classes.list) {
            *standing = Standing::of(class);
        }
        Turn {
            standings,
            many: classes.len().min(CLASSES_MAX),
            starvation: classes.starvation,
            sharing: false,
            reached: [0; PRIORITIES],
        }
    }

    /// Somebody of the class has come from another room, in which the classes stood as `from` says: what was
    /// short there stays so, and how often the class was passed over goes with it. Shares are kept where the
    /// room was empty before; where others wait the class comes in where they are.
    pub(super) fn carry(&mut self, from: &Turn, class: usize, was_empty: bool) {
        if self.many == 1 {
            return;
        }
        if was_empty {
            self.reached = from.reached;
            self.sharing = from.sharing;
            for (own, other) in self.standings.iter_mut().zip(&from.standings) {
                own.start = other.start;
            }
        } else if from.sharing {
            self.share();
        }
        if let Some((own, other)) = self.standings.get_mut(class).zip(from.standings.get(class)) {
            own.passed = own.passed.max(other.passed);
        }
    }

    /// How many classes there are.
    pub(super) fn many(&self) -> usize {
        self.many
    }

    /// Whether classes of one priority take turns by share just now.
    pub(super) fn is_sharing(&self) -> bool {
        self.sharing
    }

    /// Somebody was lost for want of time or room: from now on by share. All start level.
    pub(super) fn share(&mut self) {
        if self.sharing || self.many == 1 || !self.waiting().any(|_| true) {
            return;
        }
        self.sharing = true;
        self.reached = [0; PRIORITIES];
        for standing in &mut self.standings {
            standing.start = 0;
        }
    }

    /// The first of a class is now this one, or nobody.
    pub(super) fn set_first(&mut self, class: usize, first: Option<Place>) {
        let begins = self.begin(class);
        let Some(standing) = self.standings.get_mut(class) else {
            return;
        };
        match (standing.first, first) {
            (None, Some(_)) => standing.start = begins,
            (Some(_), None) => standing.passed = 0,
            _ => {}
        }
        standing.first = first;
        if first.is_none() && self.sharing {
            let somebody = self.waiting().any(|_| true);
            self.sharing = somebody;
        }
    }

    /// Who is first in the class.
    pub(super) fn first(&self, class: usize) -> Option<Place> {
        self.standings.get(class)?.first
    }

    /// Whose turn it is.
    pub(super) fn next(&self) -> Option<usize> {
        if self.many == 1 {
            return self.first(0).map(|_| 0);
        }
        let starved = self
            .waiting()
            .filter(|(_, standing, _)| standing.passed >= self.starvation)
            .max_by_key(|(_, standing, _)| (standing.passed, standing.priority));
        if let Some((class, _, _)) = starved {
            return Some(class);
        }
        let top = self.waiting().map(|(_, s, _)| s.priority).max()?;
        self.waiting()
            .filter(|(_, standing, _)| standing.priority == top)
            .min_by_key(|(_, standing, first)| {
                let start = if self.sharing { standing.start } else { 0 };
                (start, *first)
            })
            .map(|(class, _, _)| class)
    }

    /// One of the class went.
    pub(super) fn went(&mut self, class: usize) {
        if self.many == 1 {
            return;
        }
        let start = self.begin(class);
        let Some(standing) = self.standings.get_mut(class) else {
            return;
        };
        standing.passed = 0;
        let priority = standing.priority;
        if self.sharing {
            standing.start = start.saturating_add(standing.step);
            if let Some(reached) = self.reached.get_mut(usize::from(priority)) {
                *reached = start.max(*reached);
            }
        }
        for other in &mut self.standings {
            if other.first.is_some() && other.priority < priority {
                other.passed = other.passed.saturating_add(1);
            }
        }
    }

    /// The tier of the class: 0 where there is one only or it is starved, else 1 for the highest
    /// priority and more for those below.
    pub(super) fn tier(&self, class: usize) -> u8 {
        match self.standings.get(class) {
            Some(standing) if self.many > 1 && standing.passed < self.starvation => {
                1 + PRIORITY_MAX.saturating_sub(standing.priority)
            }
            _ => 0,
        }
    }

    /// The priority of the class.
    pub(super) fn priority(&self, class: usize) -> u8 {
        self.standings.get(class).map_or(0, |s| s.priority)
    }

    /// How many of `other`, which has somebody waiting and the same priority, go by share before
    /// the one that has `before` others of `class` in front.
    pub(super) fn share_ahead(&self, class: usize, before: usize, other: usize) -> usize {
        let Some((own, other)) = self.standings.get(class).zip(self.standings.get(other)) else {
            return 0;
        };
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        let start = own.step.saturating_mul(before);
        let lead = start
            .saturating_add(self.begin(class))
            .saturating_sub(other.start);
        usize::try_from(lead.div_ceil(other.step)).unwrap_or(usize::MAX)
    }

    /// How many of higher priority can go before the one that has `before` others of `class` in
    /// front, which goes for being starved at the latest.
    pub(super) fn higher_ahead(&self, class: usize, before: usize) -> usize {
        let passed = self.standings.get(class).map_or(0, |s| s.passed) as usize;
        let most = (before.saturating_add(1)).saturating_mul(self.starvation.max(1) as usize);
        most.saturating_sub(passed)
    }

    /// How often the class goes because it is starved while so many of higher priority go.
    pub(super) fn starved_ahead(&self, class: usize, before: usize) -> usize {
        let passed = self.standings.get(class).map_or(0, |s| s.passed);
        let starvation = self.starvation.max(1) as usize;
        (passed as usize).saturating_add(before) / starvation
    }

    /// Where the class stands once somebody waits.
    fn begin(&self, class: usize) -> u64 {
        let Some(standing) = self.standings.get(class) else {
            return 0;
        };
        let reached = self.reached.get(usize::from(standing.priority)).copied();
        match standing.first {
            Some(_) => standing.start,
            None => standing.start.max(reached.unwrap_or(0)),
        }
    }

    fn waiting(&self) -> impl Iterator<Item = (usize, &Standing, Place)> {
        self.standings
            .iter()
            .enumerate()
            .filter_map(|(class, standing)| Some((class, standing, standing.first?)))
    }
}

impl Standing {
    fn of(class: &Class) -> Standing {
        Standing {
            priority: class.priority.min(PRIORITY_MAX),
            // A cast from f64 ends at the bounds; never 0.
            step: ((STEP / class.share) as u64).max(1),
            ..Standing::default()
        }
    }
}
