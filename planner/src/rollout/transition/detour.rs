//! Finds detours for a blocked transition: allocations off the target that lead to it. A third variant may bridge two
//! that do not fit side by side, or a variant at its target may free capacity for a while. Pure.
//!
//! The search tries all orders of single-variant changes, shortest first, that carry the demand at each moment. If
//! the actual capacity does not carry it and the target carries more, it takes those that lose least, and nothing of
//! what arrives while that is served.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weir_api::Cores;

use super::hold::{Carried, TOLERANCE};
use super::{Transition, Variant, is_in};
use crate::capacity::{Actual, Allocation};

/// Maximum number of states (allocations of all variants) that one search visits.
const STATES_MAX: usize = 4096;
/// Maximum number of allocations tried per variant.
const LEVELS_MAX: u32 = 12;
/// Maximum number of sizes tried per replica, if there may be several replicas.
const EACH_MAX: u32 = 4;
/// Parts of the currently carried demand that a detour may fall to, tried in order, if not all of the demand is
/// carried.
const PARTS: [f64; 5] = [1.0, 0.9, 0.75, 0.5, 0.0];

/// Range of allocations that a variant may have.
#[derive(Debug, Clone, Copy)]
pub struct Shapes {
    /// Minimum and maximum number of replicas.
    pub replicas: (u32, u32),
    /// Minimum and maximum cores of each, in steps.
    pub each: (u32, u32),
    /// Step of cores.
    pub step: Cores,
}

/// Detour: its allocations, and the part of the demand carried on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Allocations of all variants, in order; the last is the target.
    pub by: Vec<Vec<Allocation>>,
    /// Minimum part of the demand that is carried.
    pub min: f64,
}

impl Transition {
    /// Whether no step is left although the target is not reached, and no change in progress could help.
    pub fn is_blocked(&self) -> bool {
        let rests = |variant: &Variant| {
            let Actual {
                ready,
                starting,
                reserved,
                ..
            } = variant.actual;
            // A serving variant has no change in progress: it would have been requested again. Its pods may differ.
            let is_stable = ready != Allocation::NONE || reserved == Cores::ZERO;
            !variant.given_up && starting == Allocation::NONE && is_stable
        };
        self.variants.iter().all(rests) && self.now() != self.desired()
    }

    /// Returns the variants whose target exceeds their actual cores.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        let each = self.variants.iter().enumerate();
        let waits = |(_, variant): &(usize, &Variant)| {
            let ready = variant.actual.ready;
            variant.desired.cores(ready) > ready.cores()
        };
        each.filter(waits).map(|(index, _)| index)
    }

    /// Returns a detour to the target, if [`Transition::is_blocked`] and there is one.
    pub fn detour(&self, shapes: &[Shapes], carried: Carried<'_>) -> Option<Path> {
        let (now, desired) = (self.now(), self.desired());
        let (all, then) = (carried(&now), carried(&desired));
        let floor = self.min_to_serve(all);
        let is_short = all < 1.0 - TOLERANCE && then > all + TOLERANCE;
        let parts = if is_short {
            PARTS.iter()
        } else {
            PARTS.get(..1)?.iter()
        };
        let mut min_before = f64::INFINITY;
        for part in parts {
            let min = (all.min(1.0) * part).max(floor);
            if min >= min_before {
                continue;
            }
            min_before = min;
            for is_third in [false, true] {
                let levels = self.levels(shapes, is_third);
                if let Some(by) = self.search(&levels, &|allocations| {
                    carried(allocations) >= min - TOLERANCE
                }) {
                    return Some(Path { by, min });
                }
            }
        }
        None
    }

    fn now(&self) -> Vec<Allocation> {
        self.variants.iter().map(|v| v.actual.ready).collect()
    }

    fn desired(&self) -> Vec<Allocation> {
        let desired = |v: &Variant| Allocation::new(v.desired.replicas, v.desired.each);
        self.variants.iter().map(desired).collect()
    }

    /// Returns the allocations to try, by variant: only of variants that change, or of others too.
    fn levels(&self, shapes: &[Shapes], is_third: bool) -> Vec<Vec<Allocation>> {
        let each = self.now().into_iter().zip(self.desired()).zip(shapes);
        let of = |((now, desired), shapes): ((Allocation, Allocation), &Shapes)| {
            if now == desired && !is_third {
                return vec![now];
            }
            let mut levels = shapes.levels(now, desired, self.budget);
            levels.extend([now, desired]);
            levels.sort_unstable();
            levels.dedup();
            levels
        };
        each.map(of).collect()
    }

    /// Returns the shortest path whose every state satisfies `is_enough`.
    fn search(
        &self,
        levels: &[Vec<Allocation>],
        is_enough: &dyn Fn(&[Allocation]) -> bool,
    ) -> Option<Vec<Vec<Allocation>>> {
        let space = Space::new(levels)?;
        let (start, desired) = (space.key(&self.now())?, space.key(&self.desired())?);
        let end = space.state(desired);
        let left = |state: &[Allocation]| state.iter().zip(&end).filter(|(a, b)| a != b).count();
        let mut before: HashMap<u64, u64> = HashMap::from([(start, start)]);
        let mut next = BinaryHeap::from([Reverse((left(&self.now()), 0, start))]);
        while let Some(Reverse((_, steps, key))) = next.pop() {
            if key == desired {
                return Some(space.way(&before, key));
            }
            let mut state = space.state(key);
            for (index, levels) in levels.iter().enumerate() {
                let from = *state.get(index)?;
                let (weight, own) = (*space.weights.get(index)?, space.place(index, from)?);
                let changes = levels.iter().zip(0_u64..);
                for (level, place) in changes.filter(|(level, _)| is_one_way(from, **level)) {
                    let changed = key - own + place * weight;
                    if before.contains_key(&changed) {
                        continue;
                    }
                    *state.get_mut(index)? = *level;
                    if level.cores() < from.cores() || self.fit(&state) {
                        if before.len() == STATES_MAX {
                            return None;
                        }
                        before.insert(changed, key);
                        if is_enough(&state) {
                            next.push(Reverse((steps + 1 + left(&state), steps + 1, changed)));
                        }
                    }
                }
                *state.get_mut(index)? = from;
            }
        }
        None
    }

    fn fit(&self, allocations: &[Allocation]) -> bool {
        let cores: Cores = allocations.iter().map(|one| one.cores()).sum();
        let replicas: Vec<u32> = allocations.iter().map(|one| one.replicas()).collect();
        cores <= self.budget && self.limits.fit(&replicas)
    }
}

impl Shapes {
    fn levels(&self, now: Allocation, desired: Allocation, budget: Cores) -> Vec<Allocation> {
        let ((fewest, most), (min, max)) = (self.replicas, self.each);
        let none = (fewest == 0 || min == 0).then_some(Allocation::NONE);
        let (min, max) = (min.max(1), max.min(budget.count(self.step)));
        let (fewest, levels_max) = match most > 1 {
            true => (fewest.max(1), EACH_MAX),
            false => (1, LEVELS_MAX),
        };
        let by = usize::try_from(max.saturating_sub(min) / levels_max + 1).unwrap_or(1);
        let sizes = (min..=max).step_by(by);
        let mut each: Vec<Cores> = sizes.map(|steps| self.step.times(steps)).collect();
        each.extend([now.each(), desired.each()]);
        let replicas = fewest..=most.min(fewest + LEVELS_MAX);
        let all = replicas.flat_map(|n| each.iter().map(move |each| Allocation::new(n, *each)));
        all.chain(none).collect()
    }
}

/// Whether the change only grows or only shrinks.
fn is_one_way(from: Allocation, to: Allocation) -> bool {
    from != to && (is_in(from, to) || is_in(to, from))
}

/// Encoding of the allocations of all variants as one number, from their indices in `levels`.
struct Space<'a> {
    levels: &'a [Vec<Allocation>],
    /// Number of states of the variants before it, by variant.
    weights: Vec<u64>,
}

impl Space<'_> {
    fn new(levels: &[Vec<Allocation>]) -> Option<Space<'_>> {
        let mut weights = Vec::with_capacity(levels.len());
        let mut all = 1_u64;
        for levels in levels {
            weights.push(all);
            all = all.checked_mul(u64::try_from(levels.len()).ok()?)?;
        }
        Some(Space { levels, weights })
    }

    fn place(&self, index: usize, of: Allocation) -> Option<u64> {
        let place = self.levels.get(index)?.binary_search(&of).ok()?;
        Some(u64::try_from(place).ok()? * self.weights.get(index)?)
    }

    fn key(&self, allocations: &[Allocation]) -> Option<u64> {
        let each = allocations.iter().enumerate();
        each.map(|(index, one)| self.place(index, *one)).sum()
    }

    fn state(&self, mut key: u64) -> Vec<Allocation> {
        let each = self.levels.iter().map(|levels| {
            let count = levels.len() as u64;
            let place = usize::try_from(key % count).unwrap_or_default();
            key /= count;
            levels.get(place).copied().unwrap_or_default()
        });
        each.collect()
    }

    /// Returns the path from after the start to `end`.
    fn way(&self, before: &HashMap<u64, u64>, end: u64) -> Vec<Vec<Allocation>> {
        let mut way = vec![end];
        while let Some(key) = way
            .last()
            .and_then(|last| before.get(last).filter(|one| *one != last))
        {
            way.push(*key);
        }
        way.pop();
        way.into_iter().rev().map(|key| self.state(key)).collect()
    }
}
