//! From what is in force to what is wanted, one safe step at a time. Pure.
//!
//! Grow what fits the budget, publish weights for what is there, shrink, grow the rest, publish.
//! At no step do the cores exceed the budget, or what replicas hold its bounds (or what there may have been at the
//! start, if that was more), and no published plan counts on cores that are not in force or are about to go. A change that failed
//! is given up for this time, and where it may have happened all the same, both are reckoned with:
//! the budget counts the more, the plan the fewer.
//!
//! Replicas that start keep nobody waiting: those that serve go on with what they have, and the cores of
//! the new ones count for the budget alone until they serve too, in a later transition.

mod deal;
mod detour;
mod hold;

use weir_api::Cores;

pub use detour::{Path, Shapes};
pub use hold::{Carried, SERVES_AT_ALL};

use crate::capacity::{Allocation, Bounds, Goal, InForce, Resize};

/// Growth so many times that which was asked for is asked for anew: twice as much each time, so seldom.
pub const MUCH_MORE: f64 = 2.0;

/// Most steps of one transition: grow, publish, shrink, grow, publish, and as many for failures.
pub const STEPS_MAX: usize = 10;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Change these, all at once.
    Resize(Vec<Resize>),
    /// Publish a plan for these allocations.
    Publish(Vec<Allocation>),
    /// Nothing is left to do.
    Done,
}

/// A transition under way.
#[derive(Debug, Clone)]
pub struct Transition {
    budget: Cores,
    bounds: Bounds,
    variants: Vec<Variant>,
    /// Allocations of the plan that is out, made before this transition or by it.
    out: Vec<Allocation>,
    /// Whether it was made by this transition.
    is_published: bool,
    /// Part of the demand below which what is carried may not fall, if it may at all ([`Transition::down_to`]).
    least: f64,
    /// Part of the demand that arrives already ([`Transition::serving`]).
    arriving: f64,
}

#[derive(Debug, Clone, Copy)]
struct Variant {
    in_force: InForce,
    wanted: Goal,
    /// Goal for now: what was wanted, or more ([`Transition::hold`]).
    goal: Goal,
    /// Most cores that it may have for now, where there is not room for all ([`Transition::deal`]).
    grows_to: Option<Cores>,
    given_up: bool,
}

impl Transition {
    /// From what is `in_force` to `goals` within `budget` and `bounds`.
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

    /// The same where a plan for these allocations is out.
    #[must_use]
    pub fn after(self, out: &[Allocation]) -> Transition {
        Transition {
            out: out.to_vec(),
            ..self
        }
    }

    /// The same where no more of the demand than this part need be carried on the way.
    #[must_use]
    pub fn down_to(self, least: f64) -> Transition {
        Transition { least, ..self }
    }

    /// The same where so much of the demand arrives already, and the rest is to come: room for it is made only so far
    /// as what arrives is served on the way, while it is at all.
    #[must_use]
    pub fn serving(self, arriving: f64) -> Transition {
        Transition { arriving, ..self }
    }

    /// The next step. Its changes are to be answered by [`Transition::confirmed`] or
    /// [`Transition::failed`], its publication by [`Transition::published`].
    pub fn next(&self) -> Step {
        let safe = self.safe();
        let mut each = self.out.iter().zip(&self.variants);
        let is_out = each.all(|(out, variant)| is_in(*out, variant.in_force.ready));
        if !is_out {
            // The plan counts on what is not there any more.
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

    /// The backend says that so much is in force, which need not be what was asked.
    pub fn confirmed(&mut self, change: Resize, in_force: InForce) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.in_force = in_force;
            variant.given_up |= in_force.at_most != change.cores();
        }
    }

    /// The change failed; `doubtful` if it may be in force all the same.
    pub fn failed(&mut self, change: Resize, doubtful: bool) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.given_up = true;
            if doubtful {
                variant.in_force = variant.in_force.or(change.goal);
            }
        }
    }

    /// The plan for these allocations is out.
    pub fn published(&mut self, allocations: Vec<Allocation>) {
        (self.out, self.is_published) = (allocations, true);
    }

    /// What is in force now.
    pub fn in_force(&self) -> Vec<InForce> {
        self.variants
            .iter()
            .map(|variant| variant.in_force)
            .collect()
    }

    /// What a plan may count on: in force now and still after the shrinking.
    fn safe(&self) -> Vec<Allocation> {
        self.variants.iter().map(Variant::safe).collect()
    }

    /// What can grow within the budget, partly where not wholly. A core, and what a replica holds, are kept back for each
    /// that is still to have its first: without it nothing could take over what others are to lose.
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

/// Whether a plan for the one may go on where there is the other.
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

    /// As much of its goal as `most` cores bear; what starts is not ended for others to grow.
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

    /// What of its goal is a shrinking.
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

    /// Whether a part of its goal is worth it that what is under way begins anew: what loads goes on as it was asked to, and
    /// what serves until there is room for much more.
    fn may_be_asked_anew(&self, goal: Goal) -> bool {
        let InForce { ready, at_most, .. } = self.in_force;
        let growth = |cores: Cores| cores.saturating_sub(ready.cores()).as_f64();
        let least = match ready != Allocation::NONE && goal.replicas <= ready.replicas() {
            true => growth(at_most) * MUCH_MORE,
            false => growth(at_most),
        };
        growth(goal.cores(ready)) >= least
    }

    /// What it needs to have anything at all, where it has nothing.
    fn first(&self) -> Cores {
        if self.in_force.at_most > Cores::ZERO {
            return Cores::ZERO;
        }
        self.goal.first()
    }
}

#[cfg(test)]
mod tests;
