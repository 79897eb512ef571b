//! Follows a detour over several cycles: allocations that are not the target, on the way to it. Pure.

use std::collections::VecDeque;

use crate::capacity::{Actual, Allocation, Target};
use crate::rollout::{Carried, Path, Shapes, Transition};

/// Part of the demand that counts as rounding.
const TOLERANCE: f64 = 1e-6;
/// Cycles between a search without result and the next search.
const AGAIN: u32 = 5;

/// Detour in progress, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Detour {
    by: VecDeque<Vec<Allocation>>,
    /// Minimum part of the demand that is carried on the way.
    min: f64,
    /// Whether each variant is part of the target, by variant.
    desired: Vec<bool>,
    /// Cycles left without a search.
    rests: u32,
}

impl Detour {
    /// Returns the next allocations of the detour to `targets`, and the part of the demand to carry meanwhile. Leaves
    /// the detour once other variants have targets, the demand exceeds what the detour carries, or `arriving` has grown
    /// above it.
    pub(crate) fn next(
        &mut self,
        actual: &[Actual],
        targets: &[Target],
        (carried, arriving): (Carried<'_>, f64),
    ) -> Option<(Vec<Target>, f64)> {
        self.rests = self.rests.saturating_sub(1);
        let is_reached = |by: &Vec<Allocation>| {
            let each = actual.iter().zip(by);
            each.into_iter()
                .all(|(actual, by)| *actual == Actual::certain(*by))
        };
        while self.by.pop_front_if(|by| is_reached(by)).is_some() {}
        let by = self.by.front()?;
        let now: Vec<Allocation> = actual.iter().map(|one| one.ready).collect();
        let all = carried(&now);
        let then: Vec<Allocation> = targets
            .iter()
            .map(|g| Allocation::new(g.replicas, g.each))
            .collect();
        let loses = self.min < all.min(1.0) - TOLERANCE;
        let for_nothing = all >= 1.0 - TOLERANCE || carried(&then) <= all;
        let unserved = (self.min + TOLERANCE..=all).contains(&arriving);
        let falls_short = carried(by) < self.min - TOLERANCE || loses && (for_nothing || unserved);
        if falls_short
            || !targets
                .iter()
                .map(has_replicas)
                .eq(self.desired.iter().copied())
        {
            self.by.clear();
            return None;
        }
        let targets = by.iter().copied().map(Target::of).collect();
        Some((targets, self.min))
    }

    /// Records the state of a transition to the decision's `targets`; searches a detour if it is blocked.
    pub(crate) fn see(
        &mut self,
        transition: &Transition,
        targets: &[Target],
        shapes: &[Shapes],
        carried: Carried<'_>,
    ) {
        if !transition.is_blocked() {
            return;
        }
        if !self.by.is_empty() {
            self.take(targets, None);
        } else if self.rests == 0 {
            self.take(targets, transition.detour(shapes, carried));
        }
    }

    /// Starts the detour that a search has found on the way to `targets`.
    fn take(&mut self, targets: &[Target], path: Option<Path>) {
        match path {
            Some(path) => {
                self.by = path.by.into();
                // The last allocation is the target, of which the goals at that time say more.
                self.by.pop_back();
                self.min = path.min;
                self.desired = targets.iter().map(has_replicas).collect();
                self.rests = 0;
            }
            None => {
                self.by.clear();
                self.rests = AGAIN;
            }
        }
    }
}

fn has_replicas(target: &Target) -> bool {
    target.replicas > 0
}
