//! Staged rollout from the actual capacity to the target. Pure.
//!
//! The order of steps: grow what fits the budget, publish weights for the actual capacity, shrink, grow the rest,
//! publish. At no step do the reserved cores exceed the budget, or the occupied resources their limits (or the values
//! at the start, if those were higher). No published plan counts on cores that are not actual or are about to go. A
//! failed change is given up for this transition. If it may have happened all the same, both outcomes count: the
//! budget assumes more, the plan fewer.
//!
//! Starting replicas delay nothing: serving ones keep what they have, and the cores of the new ones count only in the
//! budget until they serve, in a later transition.

mod detour;
mod distribute;
mod hold;

use weir_api::Cores;

pub use detour::{Path, Shapes};
pub use hold::{Carried, SERVES_AT_ALL};

use crate::capacity::{Actual, Allocation, Resize, ResourceLimits, Target};

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
    limits: ResourceLimits,
    variants: Vec<Variant>,
    /// Allocations of the published plan, made before this transition or by it.
    out: Vec<Allocation>,
    /// Whether it was published by this transition.
    is_published: bool,
    /// Minimum part of the demand to carry, if it is lower than now ([`Transition::down_to`]).
    min: f64,
    /// Part of the demand that already arrives ([`Transition::serving`]).
    arriving: f64,
}

#[derive(Debug, Clone, Copy)]
struct Variant {
    actual: Actual,
    desired: Target,
    /// Target for now: the desired one, or more ([`Transition::hold`]).
    target: Target,
    /// Maximum cores for now, if the budget does not cover all growth ([`Transition::distribute`]).
    grows_to: Option<Cores>,
    given_up: bool,
}

impl Transition {
    /// Creates a transition from `actual` to `targets` within `budget` and `limits`.
    pub fn new(
        actual: &[Actual],
        targets: &[Target],
        budget: Cores,
        limits: &ResourceLimits,
    ) -> Transition {
        debug_assert_eq!(actual.len(), targets.len());
        let variant = |(actual, target): (&Actual, &Target)| Variant {
            actual: *actual,
            desired: *target,
            target: *target,
            grows_to: None,
            given_up: false,
        };
        let variants = actual.iter().zip(targets).map(variant).collect();
        Transition {
            budget,
            limits: limits.clone(),
            variants,
            out: Vec::new(),
            is_published: false,
            min: f64::INFINITY,
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

    /// Lowers the part of the demand that must be carried on the way to `min`.
    #[must_use]
    pub fn down_to(self, min: f64) -> Transition {
        Transition { min, ..self }
    }

    /// Sets the part of the demand that already arrives; the rest is expected later. While what arrives can be
    /// served, capacity for the rest is freed only as far as that stays so.
    #[must_use]
    pub fn serving(self, arriving: f64) -> Transition {
        Transition { arriving, ..self }
    }

    /// Returns the next step. The caller reports its changes by [`Transition::confirmed`] or [`Transition::failed`],
    /// its publication by [`Transition::published`].
    pub fn next(&self) -> Step {
        let safe = self.safe();
        let mut each = self.out.iter().zip(&self.variants);
        let is_out = each.all(|(out, variant)| is_in(*out, variant.actual.ready));
        if !is_out {
            // The published plan counts on capacity that was lost.
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
    pub fn confirmed(&mut self, change: Resize, actual: Actual) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.actual = actual;
            variant.given_up |= actual.reserved != change.cores();
        }
    }

    /// Records that a change failed; `indeterminate` if it may have happened all the same.
    pub fn failed(&mut self, change: Resize, indeterminate: bool) {
        if let Some(variant) = self.variants.get_mut(change.variant) {
            variant.given_up = true;
            if indeterminate {
                variant.actual = variant.actual.or(change.target);
            }
        }
    }

    /// Records that the plan for these allocations is published.
    pub fn published(&mut self, allocations: Vec<Allocation>) {
        (self.out, self.is_published) = (allocations, true);
    }

    /// Returns the actual capacity now.
    pub fn actual(&self) -> Vec<Actual> {
        self.variants.iter().map(|variant| variant.actual).collect()
    }

    /// Returns the allocations that a plan may count on: actual now and still so after the shrinking.
    fn safe(&self) -> Vec<Allocation> {
        self.variants.iter().map(Variant::safe).collect()
    }

    /// Returns the growth that fits the budget, partial if it does not cover all of it. The first core of each
    /// variant that has none, and the resources of its first replica, are kept free: without them no variant could
    /// take over from those that shrink.
    fn growth(&self) -> Vec<Resize> {
        let mut total: Cores = self.variants.iter().map(|v| v.actual.reserved).sum();
        let growing: Vec<(usize, Variant)> = self.pending(Variant::grows).collect();
        let mut firsts: Cores = growing.iter().map(|(_, variant)| variant.first()).sum();
        let each = self.variants.iter().map(|v| v.actual.replicas_reserved);
        let mut replicas: Vec<u32> = each.collect();
        for (index, variant) in &growing {
            if let Some(replicas) = replicas.get_mut(*index).filter(|replicas| **replicas == 0) {
                *replicas = variant.target.replicas.min(1);
            }
        }
        let mut growth = Vec::with_capacity(growing.len());
        for (index, variant) in growing {
            let (ready, reserved) = (variant.actual.ready, variant.actual.reserved);
            let own = variant.first();
            firsts = firsts.saturating_sub(own);
            let free = self.budget.saturating_sub(total.saturating_sub(reserved));
            let most = free.saturating_sub(firsts).max(free.min(own));
            let most = most.min(variant.grows_to.unwrap_or(most));
            let fitting = self
                .limits
                .max_replicas(index, &replicas)
                .max(variant.actual.replicas());
            let target = variant.grown(most).at_most(fitting);
            if target != variant.target && !variant.may_be_requested_anew(target) {
                continue;
            }
            if let Some(replicas) = replicas.get_mut(index) {
                *replicas = variant.actual.replicas_reserved.max(target.replicas);
            }
            total = total.saturating_sub(reserved) + reserved.max(target.cores(ready));
            if (Variant { target, ..variant }).grows() {
                growth.push(self.change(index, &variant, target));
            }
        }
        growth
    }

    fn change(&self, variant: usize, of: &Variant, target: Target) -> Resize {
        Resize {
            variant,
            target,
            ready: of.actual.ready,
            limited: self.limits.is_limited(variant),
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
        let Actual { ready, .. } = self.actual;
        self.target.replicas > self.actual.replicas()
            || self.target.ready(ready).each() > ready.each()
    }

    fn shrinks(&self) -> bool {
        let Actual {
            ready, reserved, ..
        } = self.actual;
        self.target.replicas < self.actual.replicas()
            || self.target.ready(ready).each() < ready.each()
            || self.target.cores(ready) < reserved
    }

    /// Returns the largest part of the target that `most` cores cover. Starting replicas are not ended to let others
    /// grow.
    fn grown(&self, most: Cores) -> Target {
        let Actual {
            ready, starting, ..
        } = self.actual;
        let target = self.target.within(most, ready);
        let started = self.actual.replicas().min(self.target.replicas);
        if target.replicas >= started {
            return target;
        }
        let as_started = Target {
            replicas: started,
            start: starting.each(),
            ..self.target
        };
        let target = as_started.within(most, ready);
        if target.replicas >= started {
            return target;
        }
        self.actual.target()
    }

    fn safe(&self) -> Allocation {
        let (ready, target) = (self.actual.ready, self.target.ready(self.actual.ready));
        let replicas = ready.replicas().min(target.replicas());
        Allocation::new(replicas, ready.each().min(target.each()))
    }

    /// Returns the part of the target that shrinks.
    fn shrunk(&self) -> Target {
        let Actual {
            ready, starting, ..
        } = self.actual;
        Target {
            replicas: self.target.replicas.min(self.actual.replicas()),
            each: match ready.replicas() {
                0 => self.target.each,
                _ => self.target.each.min(ready.each()),
            },
            start: match starting {
                Allocation::NONE => self.target.start,
                starting => self.target.start.min(starting.each()),
            },
        }
    }

    /// Whether a partial target justifies restarting the change in progress. A loading server continues as requested;
    /// a serving one does so until the budget covers much more.
    fn may_be_requested_anew(&self, target: Target) -> bool {
        let Actual {
            ready, reserved, ..
        } = self.actual;
        let growth = |cores: Cores| cores.saturating_sub(ready.cores()).as_f64();
        let min = match ready != Allocation::NONE && target.replicas <= ready.replicas() {
            true => growth(reserved) * MUCH_MORE,
            false => growth(reserved),
        };
        growth(target.cores(ready)) >= min
    }

    /// Returns the cores needed to have anything at all, if it has nothing.
    fn first(&self) -> Cores {
        if self.actual.reserved > Cores::ZERO {
            return Cores::ZERO;
        }
        self.target.first()
    }
}

#[cfg(test)]
mod tests;
