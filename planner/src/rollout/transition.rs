//! Staged rollout from the actual capacity to the target. Pure.
//!
//! The order of steps: grow what fits the budget, publish weights for what is there, shrink, grow the rest, publish.
//! At no step do the reserved cores exceed the budget, or the occupied resources their limits (or the values at the
//! start, if those were higher). No published plan counts on cores that are not actual or are about to go. A failed
//! change is given up for this transition. If it may have happened all the same, both outcomes count: the budget
//! assumes more, the plan fewer.
//!
//! Starting replicas delay nothing: serving ones keep what they have, and the cores of the new ones count only in the
//! budget until they serve, in a later transition.

mod detour;
mod distribute;
mod hold;

use weir_api::Cores;

pub use detour::{Path, Shapes};
pub use hold::{Carried, SERVES_AT_ALL};

use crate::capacity::{Allocation, Bounds, Goal, InForce, Resize};

/// Factor of growth at which a growth in progress is requested anew: doubling each time keeps such restarts rare.
pub const MUCH_MORE: f64 = 2.0;

/// Maximum number of steps of one transition: grow, publish, shrink, grow, publish, and as many for failures.
pub const STEPS_MAX: usize = 10;

/// Next step of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make these changes, concurrently.
    Resize(Vec<Resize>),
    /// Publish a plan for these allocations.
    Publish(Vec<Allocation>),
    /// No step is left.
    Done,
}

/// Staged rollout in progress.
#[derive(Debug, Clone)]
pub struct Transition {
    budget: Cores,
    bounds: Bounds,
    variants: Vec<Variant>,
    /// Allocations of the published plan, made before this transition or by it.
    out: Vec<Allocation>,
    /// Whether it was published by this transition.
    is_published: bool,
    /// Minimum part of the demand to carry, if it is lower than now ([`Transition::down_to`]).
    least: f64,
    /// Part of the demand that already arrives ([`Transition::serving`]).
    arriving: f64,
}

#[derive(Debug, Clone, Copy)]
struct Variant {
    in_force: InForce,
    wanted: Goal,
    /// Target for now: the wanted one, or more ([`Transition::hold`]).
    goal: Goal,
    /// Maximum cores for now, if there is not room for all growth ([`Transition::distribute`]).
    grows_to: Option<Cores>,
    given_up: bool,
}

impl Transition {
    /// Creates a transition from `in_force` to `goals` within `budget` and `bounds`.
    pub fn new(in_force: &[InForce], goals: &[Goal], budget: Cores, bounds: &Bounds) -> Transition {
        debug_assert_eq!(in_force.len(), goals.len());
        let variant = |(in_force, goal): (&InForce, &Goal)| Variant {
            in_force: *in_force,
            wanted: *goal,
            goal: *goal,
            grows_to: None,
            given_up: false,
        };
        let variants = in_force.iter().zip(goals).map(variant).collect();
        Transition {
            budget,
            bounds: bounds.clone(),
            variants,
            out: Vec::new(),
            is_published: false,
            least: f64::INFINITY,
            arriving: 0.0,
        }
    }

    /// Sets the allocations of the published plan.
    #[must_use]
    pub fn after(self, out: &[Allocation]) -> Transition {
        Transition {
            out: out.to_vec(),
            ..self
        }
    }

    /// Lowers the part of the demand that must be carried on the way to `least`.
    #[must_use]
    pub fn down_to(self, least: f64) -> Transition {
        Transition { least, ..self }
    }

    /// Sets the part of the demand that already arrives; the rest is expected later. While what arrives can be
    /// served, room for the rest is made only as far as that stays so.
    #[must_use]
    pub fn serving(self, arriving: f64) -> Transition {
        Transition { arriving, ..self }
    }

    /// Returns the next step. The caller reports its changes by [`Transition::confirmed`] or [`Transition::failed`],
    /// its publication by [`Transition::published`].
    pub fn next(&self) -> Step {
        let safe = self.safe();
        let mut each = self.out.iter().zip(&self.variants);
        let is_out = each.all(|(out, variant)| is_in(*out, variant.in_force.ready));
        if !is_out {
            // The published plan counts on capacity that is gone.
            return Step::Publish(safe);
        }
        let growth = self.growth();
        if !growth.is_empty() {
            return Step::Resize(growth);
        }
        if !self.is_published || self.out != safe {
            return Step::Publish(safe);
        }
        let shrinking = self.pending(Variant::shrinks);
        let shrinking: Vec<Resize> = shrinking
            .map(|(variant, pending)| self.change(variant, &pending, pending.shrunk()))
            .collect();
        if shrinking.is_empty() {
            Step::Done
        } else {
            Step::Resize(shrinking)
        }
    }

    /// Records the actual capacity after a change, which may differ from its target.
    pub fn confirmed(&mut self, change: Resize, in_force: InForce) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.in_force = in_force;
            variant.given_up |= in_force.at_most != change.cores();
        }
    }

    /// Records that a change failed; `indeterminate` if it may have happened all the same.
    pub fn failed(&mut self, change: Resize, indeterminate: bool) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.given_up = true;
            if indeterminate {
                variant.in_force = variant.in_force.or(change.goal);
            }
        }
    }

    /// Records that the plan for these allocations is published.
    pub fn published(&mut self, allocations: Vec<Allocation>) {
        (self.out, self.is_published) = (allocations, true);
    }

    /// Returns the actual capacity now.
    pub fn in_force(&self) -> Vec<InForce> {
        self.variants
            .iter()
            .map(|variant| variant.in_force)
            .collect()
    }

    /// Returns the allocations that a plan may count on: actual now and still so after the shrinking.
    fn safe(&self) -> Vec<Allocation> {
        self.variants.iter().map(Variant::safe).collect()
    }

    /// Returns the growth that fits the budget, partial if there is no room for all of it. The first core of each
    /// variant that has none, and the resources of its first replica, are kept free: without them no variant could
    /// take over from those that shrink.
    fn growth(&self) -> Vec<Resize> {
        let mut total: Cores = self.variants.iter().map(|v| v.in_force.at_most).sum();
        let growing: Vec<(usize, Variant)> = self.pending(Variant::grows).collect();
        let mut firsts: Cores = growing.iter().map(|(_, variant)| variant.first()).sum();
        let each = self.variants.iter().map(|v| v.in_force.replicas_at_most);
        let mut held: Vec<u32> = each.collect();
        for (index, variant) in &growing {
            if let Some(held) = held.get_mut(*index).filter(|held| **held == 0) {
                *held = variant.goal.replicas.min(1);
            }
        }
        let mut growth = Vec::with_capacity(growing.len());
        for (index, variant) in growing {
            let (ready, at_most) = (variant.in_force.ready, variant.in_force.at_most);
            let own = variant.first();
            firsts = firsts.saturating_sub(own);
            let free = self.budget.saturating_sub(total.saturating_sub(at_most));
            let most = free.saturating_sub(firsts).max(free.min(own));
            let most = most.min(variant.grows_to.unwrap_or(most));
            let borne = self
                .bounds
                .room(index, &held)
                .max(variant.in_force.replicas());
            let goal = variant.grown(most).at_most(borne);
            if goal != variant.goal && !variant.may_be_asked_anew(goal) {
                continue;
            }
            if let Some(held) = held.get_mut(index) {
                *held = variant.in_force.replicas_at_most.max(goal.replicas);
            }
            total = total.saturating_sub(at_most) + at_most.max(goal.cores(ready));
            if (Variant { goal, ..variant }).grows() {
                growth.push(self.change(index, &variant, goal));
            }
        }
        growth
    }

    fn change(&self, variant: usize, of: &Variant, goal: Goal) -> Resize {
        Resize {
            variant,
            goal,
            ready: of.in_force.ready,
            bound: self.bounds.bound(variant),
        }
    }

    fn pending(&self, which: fn(&Variant) -> bool) -> impl Iterator<Item = (usize, Variant)> {
        let open = self.variants.iter().copied().enumerate();
        open.filter(move |(_, variant)| !variant.given_up && which(variant))
    }
}

/// Whether a plan for `one` remains valid with `other`.
fn is_in(one: Allocation, other: Allocation) -> bool {
    one == Allocation::NONE || one.replicas() <= other.replicas() && one.each() <= other.each()
}

impl Variant {
    fn grows(&self) -> bool {
        let InForce { ready, .. } = self.in_force;
        self.goal.replicas > self.in_force.replicas()
            || self.goal.ready(ready).each() > ready.each()
    }

    fn shrinks(&self) -> bool {
        let InForce { ready, at_most, .. } = self.in_force;
        self.goal.replicas < self.in_force.replicas()
            || self.goal.ready(ready).each() < ready.each()
            || self.goal.cores(ready) < at_most
    }

    /// Returns the largest part of the target that `most` cores cover. Starting replicas are not ended to let others
    /// grow.
    fn grown(&self, most: Cores) -> Goal {
        let InForce {
            ready, starting, ..
        } = self.in_force;
        let goal = self.goal.within(most, ready);
        let started = self.in_force.replicas().min(self.goal.replicas);
        if goal.replicas >= started {
            return goal;
        }
        let as_started = Goal {
            replicas: started,
            start: starting.each(),
            ..self.goal
        };
        let goal = as_started.within(most, ready);
        if goal.replicas >= started {
            return goal;
        }
        self.in_force.goal()
    }

    fn safe(&self) -> Allocation {
        let (ready, goal) = (self.in_force.ready, self.goal.ready(self.in_force.ready));
        let replicas = ready.replicas().min(goal.replicas());
        Allocation::new(replicas, ready.each().min(goal.each()))
    }

    /// Returns the part of the target that shrinks.
    fn shrunk(&self) -> Goal {
        let InForce {
            ready, starting, ..
        } = self.in_force;
        Goal {
            replicas: self.goal.replicas.min(self.in_force.replicas()),
            each: match ready.replicas() {
                0 => self.goal.each,
                _ => self.goal.each.min(ready.each()),
            },
            start: match starting {
                Allocation::NONE => self.goal.start,
                starting => self.goal.start.min(starting.each()),
            },
        }
    }

    /// Whether a partial target justifies restarting the change in progress. A loading server continues as requested;
    /// a serving one does so until there is room for much more.
    fn may_be_asked_anew(&self, goal: Goal) -> bool {
        let InForce { ready, at_most, .. } = self.in_force;
        let growth = |cores: Cores| cores.saturating_sub(ready.cores()).as_f64();
        let least = match ready != Allocation::NONE && goal.replicas <= ready.replicas() {
            true => growth(at_most) * MUCH_MORE,
            false => growth(at_most),
        };
        growth(goal.cores(ready)) >= least
    }

    /// Returns the cores needed to have anything at all, if it has nothing.
    fn first(&self) -> Cores {
        if self.in_force.at_most > Cores::ZERO {
            return Cores::ZERO;
        }
        self.goal.first()
    }
}

#[cfg(test)]
mod tests;
