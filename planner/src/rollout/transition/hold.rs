//! Shrinking that is wanted → the part of it that may be, so that what goes on to serve carries the demand. Pure.
//!
//! A growth that is not there yet, because a server loads or a kubelet is slow, carries nothing. So cores go as those
//! that take their place come to serve, over several cycles where need be: of the variants that are to shrink, those
//! that carry the most by a core go last.
//!
//! More demand than all that serves carries is no reason to stay as it is. Where the budget leaves no room for what is
//! to carry more, what carries the least makes room: for all that those that serve are to grow by, or for the first
//! replica of one that is to begin, and no more while it loads.

use weir_api::Cores;

use super::{Transition, Variant};
use crate::capacity::{Allocation, Goal, InForce};

/// Part of the demand by which what is carried may fall short: rounding.
pub(super) const TOLERANCE: f64 = 1e-6;

/// Part of the demand that what serves at all is taken to carry, and nothing that serves nobody does.
pub const SERVES_AT_ALL: f64 = 1e-4;

/// The part of what may still go of a variant that goes in one step.
const LESS_PART: usize = 8;

/// The part of the demand that allocations carry: 1 or more where all of it.
pub type Carried<'a> = &'a dyn Fn(&[Allocation]) -> f64;

impl Transition {
    /// Keeps back so much of what is to shrink that no less of the demand is carried than now, or all of it; what is to
    /// grow has its part of the room that there is.
    pub fn hold(&mut self, carried: Carried<'_>) {
        self.keep_back(carried);
        self.deal(carried);
    }

    fn keep_back(&mut self, carried: Carried<'_>) {
        for variant in &mut self.variants {
            (variant.goal, variant.grows_to) = (variant.wanted, None);
        }
        let least = self.safe();
        let now: Vec<Allocation> = self.variants.iter().map(|v| v.in_force.ready).collect();
        let all = carried(&now);
        let enough = all.min(1.0).min(self.least) - TOLERANCE;
        if carried(&least) >= enough {
            return;
        }
        let mut there = least.clone();
        for index in self.by_use(&now, &least, carried) {
            if carried(&there) >= enough {
                break;
            }
            let levels = levels(least.get(index), now.get(index));
            let level = levels.partition_point(|level| {
                let with = replaced(&there, index, *level);
                carried(&with) < enough
            });
            let level = levels.get(level).or(levels.last()).copied();
            there = replaced(&there, index, level.unwrap_or_default());
        }
        let need = match all < 1.0 - TOLERANCE {
            true => self.growth_without_room(carried),
            false => Need::default(),
        };
        let floor = self.floor(all, carried) - TOLERANCE;
        self.make_room(need, &mut there, &least, (carried, floor));
        let at_most: Cores = self.variants.iter().map(|v| v.in_force.at_most).sum();
        let is_above = at_most > self.budget;
        if is_above {
            // The budget is kept, whatever arrives.
            let some = all.min(SERVES_AT_ALL) - TOLERANCE;
            self.make_room(Need::default(), &mut there, &least, (carried, some));
        }
        for ((variant, there), least) in self.variants.iter_mut().zip(&there).zip(&least) {
            if there != least {
                variant.goal = Goal {
                    replicas: variant.wanted.replicas.max(there.replicas()),
                    // Nothing grows above the budget; pods that have more than the least of them go back to it.
                    each: match is_above {
                        true => there.each(),
                        false => variant.wanted.each.max(there.each()),
                    },
                    start: variant.wanted.start,
                };
            }
        }
    }

    /// The part of the demand that must be carried on where `all` of it that is carried now may not: what arrives, where it
    /// is carried now; else no more than some.
    pub(super) fn least_to_serve(&self, all: f64) -> f64 {
        let some = all.min(SERVES_AT_ALL);
        match all >= self.arriving {
            true => self.arriving.max(some),
            false => some,
        }
    }

    /// The part of the demand that must be carried on while room is made: what arrives, where it is carried now; all that
    /// is carried, where it will be with what grows without more room; else no more than some.
    fn floor(&self, all: f64, carried: Carried<'_>) -> f64 {
        let some = self.least_to_serve(all);
        if all >= self.arriving {
            return some;
        }
        let mut then: Vec<Allocation> = self.variants.iter().map(Variant::grown_so_far).collect();
        for change in self.growth() {
            let Some(variant) = self.variants.get(change.variant) else {
                continue;
            };
            then = replaced(
                &then,
                change.variant,
                change.goal.ready(variant.in_force.ready),
            );
        }
        match carried(&then) >= self.arriving {
            true => all,
            false => some,
        }
    }

    /// Variants that are to shrink, by what the cores that go carry, the most by a core first.
    fn by_use(&self, now: &[Allocation], least: &[Allocation], carried: Carried<'_>) -> Vec<usize> {
        let all = carried(now);
        let uses = |(index, (now_one, least_one)): (usize, (&Allocation, &Allocation))| {
            let cores = now_one.cores().saturating_sub(least_one.cores());
            let lost = all - carried(&replaced(now, index, *least_one));
            (cores > Cores::ZERO).then(|| (index, lost / cores.as_f64()))
        };
        let each = now.iter().zip(least).enumerate();
        let mut uses: Vec<(usize, f64)> = each.filter_map(uses).collect();
        uses.sort_by(|a, b| b.1.total_cmp(&a.1));
        uses.into_iter().map(|(index, _)| index).collect()
    }

    /// Takes from what was kept back, the least used first, what there is above the budget and its bounds with what is
    /// needed besides. What serves goes on to serve.
    fn make_room(
        &self,
        need: Need,
        there: &mut Vec<Allocation>,
        least: &[Allocation],
        (carried, floor): (Carried<'_>, f64),
    ) {
        while !self.bears(there, need) {
            let less = |index: usize| {
                let levels = levels(least.get(index), there.get(index));
                let less = |step: usize| {
                    let level = levels.len().checked_sub(1 + step);
                    let less = replaced(there, index, *levels.get(level?)?);
                    Some((carried(&less), less)).filter(|(carried, _)| *carried >= floor)
                };
                less((levels.len() / LESS_PART).max(1)).or_else(|| less(1))
            };
            let all = (0..there.len()).filter_map(less);
            let Some((_, most)) = all.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                return;
            };
            *there = most;
        }
    }

    /// Whether budget and bounds bear what is needed beside what is kept.
    fn bears(&self, there: &[Allocation], need: Need) -> bool {
        let each = || self.variants.iter().zip(there);
        let cores = each().map(|(variant, there)| match variant.shrinks() {
            true => there.cores(),
            false => variant.in_force.at_most,
        });
        let replicas = each().map(|(variant, there)| match variant.shrinks() {
            true => there.replicas(),
            false => variant.in_force.replicas_at_most,
        });
        let mut replicas: Vec<u32> = replicas.collect();
        if let Some(replicas) = need.replica_of.and_then(|index| replicas.get_mut(index)) {
            *replicas += 1;
        }
        cores.sum::<Cores>() + need.cores <= self.budget && self.bounds.bear(&replicas)
    }

    /// Room that growth needs now: cores of those that serve, which have them within a cycle or two; else the first
    /// replica of the greatest that is to begin, unless one loads already. None where what is wanted carries no more.
    fn growth_without_room(&self, carried: Carried<'_>) -> Need {
        let now: Vec<Allocation> = self.variants.iter().map(|v| v.in_force.ready).collect();
        let wanted =
            |variant: &Variant| Allocation::new(variant.wanted.replicas, variant.wanted.each);
        let wanted: Vec<Allocation> = self.variants.iter().map(wanted).collect();
        if carried(&wanted) <= carried(&now) {
            return Need::default();
        }
        let growing: Cores = self.variants.iter().map(Variant::grows_in_place).sum();
        let loads = self.variants.iter().any(Variant::loads);
        if growing > Cores::ZERO || loads {
            return Need {
                cores: growing,
                replica_of: None,
            };
        }
        let begins = self.variants.iter().enumerate();
        let begins = begins.filter(|(_, v)| v.wanted.replicas > v.in_force.replicas());
        let greatest = begins.max_by_key(|(_, v)| v.wanted.cores(v.in_force.ready));
        greatest.map_or(Need::default(), |(index, variant)| Need {
            cores: match variant.first() {
                Cores::ZERO => variant.wanted.start,
                first => first,
            },
            replica_of: Some(index),
        })
    }
}

/// Room that growth needs.
#[derive(Debug, Clone, Copy, Default)]
struct Need {
    cores: Cores,
    /// The variant that is to have one more replica.
    replica_of: Option<usize>,
}

impl Variant {
    /// Cores that those that go on to serve are to have and have not been asked for.
    fn grows_in_place(&self) -> Cores {
        let InForce {
            ready,
            starting,
            at_most,
            ..
        } = self.in_force;
        let asked = at_most.saturating_sub(ready.cores() + starting.cores());
        let staying = self.wanted.ready(ready);
        let before = Allocation::new(staying.replicas(), ready.each());
        let more = staying.cores().saturating_sub(before.cores());
        more.saturating_sub(asked)
    }

    /// Allocation that serves, with the cores that it has been asked to have.
    fn grown_so_far(&self) -> Allocation {
        let InForce { ready, at_most, .. } = self.in_force;
        let grows = self.goal.ready(ready).each() > ready.each();
        match ready.replicas() {
            replicas @ 1.. if grows => {
                let each = Cores::from_millis(at_most.millis() / replicas);
                Allocation::new(replicas, each.max(ready.each()))
            }
            _ => ready,
        }
    }

    /// Whether something of it has been started and does not serve yet.
    fn loads(&self) -> bool {
        let InForce {
            ready,
            starting,
            at_most,
            ..
        } = self.in_force;
        starting != Allocation::NONE || ready == Allocation::NONE && at_most > Cores::ZERO
    }
}

/// Allocations between two, both included: replicas where there are several, else whole cores.
fn levels(least: Option<&Allocation>, most: Option<&Allocation>) -> Vec<Allocation> {
    let (Some(least), Some(most)) = (least.copied(), most.copied()) else {
        return Vec::new();
    };
    let mut levels = vec![least];
    if most.replicas() > least.replicas().max(1) {
        let more = least.replicas() + 1..=most.replicas();
        levels.extend(more.map(|replicas| Allocation::new(replicas, most.each())));
    } else {
        let whole = least.each().millis() / 1000 + 1..=most.each().millis() / 1000;
        levels.extend(whole.map(|cores| Allocation::new(most.replicas(), Cores::whole(cores))));
    }
    if levels.last() != Some(&most) {
        levels.push(most);
    }
    levels
}

fn replaced(all: &[Allocation], index: usize, by: Allocation) -> Vec<Allocation> {
    let mut all = all.to_vec();
    if let Some(one) = all.get_mut(index) {
        *one = by;
    }
    all
}

#[cfg(test)]
mod tests;
