//! Ways that go by what is not wanted, where nothing is left to do and what is wanted is not there: a third variant that
//! bridges two which do not fit beside each other, or one that is wanted as it is and makes room for a while. Pure.
//!
//! All orders of changes of one variant each are searched, the shortest first, in which all that serves carries the
//! demand at each moment; where what there is does not carry it and what is wanted carries more, those that lose least,
//! and nothing of what arrives while that is served.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weir_api::Cores;

use super::hold::{Carried, TOLERANCE};
use super::{Transition, Variant, is_in};
use crate::capacity::{Allocation, InForce};

/// Most allocations of all variants that are looked at in one search.
const STATES_MAX: usize = 4096;
/// Most allocations of one variant that are tried.
const LEVELS_MAX: u32 = 12;
/// Most cores of each that are tried with several replicas.
const EACH_MAX: u32 = 4;
/// Parts of what is carried now that may have to do, one after the other, where it is not all of the demand.
const PARTS: [f64; 5] = [1.0, 0.9, 0.75, 0.5, 0.0];

/// Allocations that a variant may have.
#[derive(Debug, Clone, Copy)]
pub struct Shapes {
    /// Replicas, the fewest and the most.
    pub replicas: (u32, u32),
    /// Cores of each, the fewest and the most.
    pub each: (u32, u32),
}

/// Allocations to go by, and the part of the demand that is carried on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Allocations to go by, one after the other; the last are wanted.
    pub by: Vec<Vec<Allocation>>,
    /// The part of the demand.
    pub least: f64,
}

impl Transition {
    /// Whether no step is left although what is wanted is not there, and nothing is under way that might change that.
    pub fn is_blocked(&self) -> bool {
        let rests = |variant: &Variant| {
            let InForce {
                ready,
                starting,
                at_most,
                ..
            } = variant.in_force;
            // Of what serves nothing is under way: it would have been asked for again. Its pods may differ.
            let is_there = ready != Allocation::NONE || at_most == Cores::ZERO;
            !variant.given_up && starting == Allocation::NONE && is_there
        };
        self.variants.iter().all(rests) && self.now() != self.wanted()
    }

    /// Variants that are to have more than they have.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        let each = self.variants.iter().enumerate();
        let waits = |(_, variant): &(usize, &Variant)| {
            let ready = variant.in_force.ready;
            variant.wanted.cores(ready) > ready.cores()
        };
        each.filter(waits).map(|(index, _)| index)
    }

    /// A path to what is wanted, where [`Transition::is_blocked`] and there is one.
    pub fn detour(&self, shapes: &[Shapes], carried: Carried<'_>) -> Option<Path> {
        let (now, wanted) = (self.now(), self.wanted());
        let (all, then) = (carried(&now), carried(&wanted));
        let floor = self.least_to_serve(all);
        let is_short = all < 1.0 - TOLERANCE && then > all + TOLERANCE;
        let parts = if is_short {
            PARTS.iter()
        } else {
            PARTS.get(..1)?.iter()
        };
        let mut least_before = f64::INFINITY;
        for part in parts {
            let least = (all.min(1.0) * part).max(floor);
            if least >= least_before {
                continue;
            }
            least_before = least;
            for is_third in [false, true] {
                let levels = self.levels(shapes, is_third);
                if let Some(by) = self.search(&levels, &|there| carried(there) >= least - TOLERANCE)
                {
                    return Some(Path { by, least });
                }
            }
        }
        None
    }

    fn now(&self) -> Vec<Allocation> {
        self.variants.iter().map(|v| v.in_force.ready).collect()
    }

    fn wanted(&self) -> Vec<Allocation> {
        let wanted = |v: &Variant| Allocation::new(v.wanted.replicas, v.wanted.each);
        self.variants.iter().map(wanted).collect()
    }

    /// Allocations to try, by variant: of those that are to change, or of others too.
    fn levels(&self, shapes: &[Shapes], is_third: bool) -> Vec<Vec<Allocation>> {
        let each = self.now().into_iter().zip(self.wanted()).zip(shapes);
        let of = |((now, wanted), shapes): ((Allocation, Allocation), &Shapes)| {
            if now == wanted && !is_third {
                return vec![now];
            }
            let mut levels = shapes.levels(now, wanted, self.budget);
            levels.extend([now, wanted]);
            levels.sort_unstable();
            levels.dedup();
            levels
        };
        each.map(of).collect()
    }

    /// The shortest way, where each allocation on it is enough.
    fn search(
        &self,
        levels: &[Vec<Allocation>],
        is_enough: &dyn Fn(&[Allocation]) -> bool,
    ) -> Option<Vec<Vec<Allocation>>> {
        let space = Space::new(levels)?;
        let (start, wanted) = (space.key(&self.now())?, space.key(&self.wanted())?);
        let end = space.state(wanted);
        let left = |there: &[Allocation]| there.iter().zip(&end).filter(|(a, b)| a != b).count();
        let mut before: HashMap<u64, u64> = HashMap::from([(start, start)]);
        let mut next = BinaryHeap::from([Reverse((left(&self.now()), 0, start))]);
        while let Some(Reverse((_, steps, key))) = next.pop() {
            if key == wanted {
                return Some(space.way(&before, key));
            }
            let mut there = space.state(key);
            for (index, levels) in levels.iter().enumerate() {
                let from = *there.get(index)?;
                let (weight, own) = (*space.weights.get(index)?, space.place(index, from)?);
                let changes = levels.iter().zip(0_u64..);
                for (level, place) in changes.filter(|(level, _)| is_one_way(from, **level)) {
                    let changed = key - own + place * weight;
                    if before.contains_key(&changed) {
                        continue;
                    }
                    *there.get_mut(index)? = *level;
                    if level.cores() < from.cores() || self.bear(&there) {
                        if before.len() == STATES_MAX {
                            return None;
                        }
                        before.insert(changed, key);
                        if is_enough(&there) {
                            next.push(Reverse((steps + 1 + left(&there), steps + 1, changed)));
                        }
                    }
                }
                *there.get_mut(index)? = from;
            }
        }
        None
    }

    fn bear(&self, there: &[Allocation]) -> bool {
        let cores: Cores = there.iter().map(|one| one.cores()).sum();
        let replicas: Vec<u32> = there.iter().map(|one| one.replicas()).collect();
        cores <= self.budget && self.bounds.bear(&replicas)
    }
}

impl Shapes {
    fn levels(&self, now: Allocation, wanted: Allocation, budget: Cores) -> Vec<Allocation> {
        let ((fewest, most), (least, greatest)) = (self.replicas, self.each);
        let none = (fewest == 0 || least == 0).then_some(Allocation::NONE);
        let (least, greatest) = (least.max(1), greatest.min(budget.millis() / 1000));
        let (fewest, levels_max) = match most > 1 {
            true => (fewest.max(1), EACH_MAX),
            false => (1, LEVELS_MAX),
        };
        let by = usize::try_from(greatest.saturating_sub(least) / levels_max + 1).unwrap_or(1);
        let mut each: Vec<Cores> = (least..=greatest).step_by(by).map(Cores::whole).collect();
        each.extend([now.each(), wanted.each()]);
        let replicas = fewest..=most.min(fewest + LEVELS_MAX);
        let all = replicas.flat_map(|n| each.iter().map(move |each| Allocation::new(n, *each)));
        all.chain(none).collect()
    }
}

/// Whether it only grows or only shrinks.
fn is_one_way(from: Allocation, to: Allocation) -> bool {
    from != to && (is_in(from, to) || is_in(to, from))
}

/// Allocations of all variants as one number: the places of each in its levels.
struct Space<'a> {
    levels: &'a [Vec<Allocation>],
    /// Number of states of all variants before it, by variant.
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

    fn key(&self, there: &[Allocation]) -> Option<u64> {
        let each = there.iter().enumerate();
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

    /// From what came after the start to `there`.
    fn way(&self, before: &HashMap<u64, u64>, there: u64) -> Vec<Vec<Allocation>> {
        let mut way = vec![there];
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
