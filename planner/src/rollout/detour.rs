//! The way to what is wanted that goes by what is not, over cycles. Pure.

use std::collections::VecDeque;

use crate::capacity::{Allocation, Goal, InForce};
use crate::rollout::{Carried, Path, Shapes, Transition};

/// Part of the demand that is rounding.
const TOLERANCE: f64 = 1e-6;
/// Cycles from a search that found nothing to the next.
const AGAIN: u32 = 5;

/// Allocations to go by, if there are any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Detour {
    by: VecDeque<Vec<Allocation>>,
    /// Part of the demand that is carried on the way.
    least: f64,
    /// Variants that are wanted in the end: `true` for each of them.
    wanted: Vec<bool>,
    /// Cycles in which none is searched.
    rests: u32,
}

impl Detour {
    /// What to go to, where `goals` are wanted, and so much of the demand as must be carried meanwhile. It is left once
    /// other variants are wanted, the demand has risen above what it carries, or more has come to be `arriving`.
    pub(crate) fn next(
        &mut self,
        in_force: &[InForce],
        goals: &[Goal],
        (carried, arriving): (Carried<'_>, f64),
    ) -> Option<(Vec<Goal>, f64)> {
        self.rests = self.rests.saturating_sub(1);
        let is_there = |by: &Vec<Allocation>| {
            let each = in_force.iter().zip(by);
            each.into_iter()
                .all(|(there, by)| *there == InForce::certain(*by))
        };
        while self.by.pop_front_if(|by| is_there(by)).is_some() {}
        let by = self.by.front()?;
        let now: Vec<Allocation> = in_force.iter().map(|one| one.ready).collect();
        let all = carried(&now);
        let then: Vec<Allocation> = goals
            .iter()
            .map(|g| Allocation::new(g.replicas, g.each))
            .collect();
        let loses = self.least < all.min(1.0) - TOLERANCE;
        let for_nothing = all >= 1.0 - TOLERANCE || carried(&then) <= all;
        let unserved = (self.least + TOLERANCE..=all).contains(&arriving);
        let falls_short =
            carried(by) < self.least - TOLERANCE || loses && (for_nothing || unserved);
        if falls_short || !goals.iter().map(is_wanted).eq(self.wanted.iter().copied()) {
            self.by.clear();
            return None;
        }
        let goals = by.iter().copied().map(Goal::of).collect();
        Some((goals, self.least))
    }

    /// Where a transition has come to, whose `goals` are those of the decision: searches where it is blocked.
    pub(crate) fn see(
        &mut self,
        transition: &Transition,
        goals: &[Goal],
        shapes: &[Shapes],
        carried: Carried<'_>,
    ) {
        if !transition.is_blocked() {
            return;
        }
        if !self.by.is_empty() {
            self.take(goals, None);
        } else if self.rests == 0 {
            self.take(goals, transition.detour(shapes, carried));
        }
    }

    /// Takes what a search has found on the way to `goals`.
    fn take(&mut self, goals: &[Goal], path: Option<Path>) {
        match path {
            Some(path) => {
                self.by = path.by.into();
                // Of what is wanted, the goals of then say more.
                self.by.pop_back();
                self.least = path.least;
                self.wanted = goals.iter().map(is_wanted).collect();
                self.rests = 0;
            }
            None => {
                self.by.clear();
                self.rests = AGAIN;
            }
        }
    }
}

fn is_wanted(goal: &Goal) -> bool {
    goal.replicas > 0
}
