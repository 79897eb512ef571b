//! Limits the shrinking so that the replicas that keep serving carry the demand. Pure.
//!
//! Growth that is not actual yet, because a server loads or a kubelet is slow, carries nothing. Therefore cores are
//! taken away only as their successors start to serve, over several cycles if needed. Among shrinking variants, those
//! that carry most per core go last.
//!
//! A demand above the actual capacity does not block the rollout. If the budget does not cover variants that would
//! carry more, those that carry least free capacity: for all growth of serving replicas, or for the first replica of
//! a new variant, and for no more while it loads.

use weir_api::Cores;

use super::{Transition, Variant};
use crate::capacity::{Actual, Allocation, Target};

/// Part of the demand that counts as rounding.
pub(super) const TOLERANCE: f64 = 1e-6;

/// Part of the demand that anything that serves is taken to carry.
pub const SERVES_AT_ALL: f64 = 1e-4;

/// Divisor of what a variant may still lose: the part that goes in one step.
const LESS_PART: usize = 8;

/// Part of the demand that allocations carry: 1 or more if all of it.
pub type Carried<'a> = &'a dyn Fn(&[Allocation]) -> f64;

impl Transition {
    /// Limits shrinking so that as much of the demand is carried as now, or all of it. Distributes the free budget
    /// among the growing variants.
    pub fn hold(&mut self, carried: Carried<'_>) {
        self.keep_back(carried);
        self.distribute(carried);
    }

    fn keep_back(&mut self, carried: Carried<'_>) {
        for variant in &mut self.variants {
            (variant.target, variant.grows_to) = (variant.desired, None);
        }
        let min = self.safe();
        let now: Vec<Allocation> = self.variants.iter().map(|v| v.actual.ready).collect();
        let all = carried(&now);
        let enough = all.min(1.0).min(self.min) - TOLERANCE;
        if carried(&min) >= enough {
            return;
        }
        let mut kept = min.clone();
        for index in self.by_use(&now, &min, carried) {
            if carried(&kept) >= enough {
                break;
            }
            let levels = levels(min.get(index), now.get(index));
            let level = levels.partition_point(|level| {
                let with = replaced(&kept, index, *level);
                carried(&with) < enough
            });
            let level = levels.get(level).or(levels.last()).copied();
            kept = replaced(&kept, index, level.unwrap_or_default());
        }
        let need = match all < 1.0 - TOLERANCE {
            true => self.needed_capacity(carried),
            false => Need::default(),
        };
        let floor = self.floor(all, carried) - TOLERANCE;
        self.free_capacity(need, &mut kept, &min, (carried, floor));
        let reserved: Cores = self.variants.iter().map(|v| v.actual.reserved).sum();
        let is_above = reserved > self.budget;
        if is_above {
            // The budget is kept, whatever arrives.
            let some = all.min(SERVES_AT_ALL) - TOLERANCE;
            self.free_capacity(Need::default(), &mut kept, &min, (carried, some));
        }
        for ((variant, kept), min) in self.variants.iter_mut().zip(&kept).zip(&min) {
            if kept != min {
                variant.target = Target {
                    replicas: variant.desired.replicas.max(kept.replicas()),
                    // Nothing grows above the budget; pods with more than the minimum shrink to it.
                    each: match is_above {
                        true => kept.each(),
                        false => variant.desired.each.max(kept.each()),
                    },
                    start: variant.desired.start,
                };
            }
        }
    }

    /// Returns the part of the demand to keep carrying when `all` that is carried now cannot be kept: what arrives,
    /// if it is carried now; otherwise the minimum that still serves.
    pub(super) fn min_to_serve(&self, all: f64) -> f64 {
        let some = all.min(SERVES_AT_ALL);
        match all >= self.arriving {
            true => self.arriving.max(some),
            false => some,
        }
    }

    /// Returns the part of the demand to keep carrying while capacity is freed: what arrives, if it is carried now; all
    /// that is carried, if the growth in progress will carry what arrives; otherwise the minimum that still serves.
    fn floor(&self, all: f64, carried: Carried<'_>) -> f64 {
        let some = self.min_to_serve(all);
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
                change.target.ready(variant.actual.ready),
            );
        }
        match carried(&then) >= self.arriving {
            true => all,
            false => some,
        }
    }

    /// Returns the shrinking variants, by the demand carried per core that goes, highest first.
    fn by_use(&self, now: &[Allocation], min: &[Allocation], carried: Carried<'_>) -> Vec<usize> {
        let all = carried(now);
        let uses = |(index, (now_one, least_one)): (usize, (&Allocation, &Allocation))| {
            let cores = now_one.cores().saturating_sub(least_one.cores());
            let lost = all - carried(&replaced(now, index, *least_one));
            (cores > Cores::ZERO).then(|| (index, lost / cores.as_f64()))
        };
        let each = now.iter().zip(min).enumerate();
        let mut uses: Vec<(usize, f64)> = each.filter_map(uses).collect();
        uses.sort_by(|a, b| b.1.total_cmp(&a.1));
        uses.into_iter().map(|(index, _)| index).collect()
    }

    /// Reduces the capacity that was kept, least used first, until `need` fits in budget and limits. What serves
    /// keeps serving.
    fn free_capacity(
        &self,
        need: Need,
        kept: &mut Vec<Allocation>,
        min: &[Allocation],
        (carried, floor): (Carried<'_>, f64),
    ) {
        while !self.fits(kept, need) {
            let less = |index: usize| {
                let levels = levels(min.get(index), kept.get(index));
                let less = |step: usize| {
                    let level = levels.len().checked_sub(1 + step);
                    let less = replaced(kept, index, *levels.get(level?)?);
                    Some((carried(&less), less)).filter(|(carried, _)| *carried >= floor)
                };
                less((levels.len() / LESS_PART).max(1)).or_else(|| less(1))
            };
            let all = (0..kept.len()).filter_map(less);
            let Some((_, most)) = all.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                return;
            };
            *kept = most;
        }
    }

    /// Whether budget and limits cover `need` beside what is kept.
    fn fits(&self, kept: &[Allocation], need: Need) -> bool {
        let each = || self.variants.iter().zip(kept);
        let cores = each().map(|(variant, kept)| match variant.shrinks() {
            true => kept.cores(),
            false => variant.actual.reserved,
        });
        let replicas = each().map(|(variant, kept)| match variant.shrinks() {
            true => kept.replicas(),
            false => variant.actual.replicas_reserved,
        });
        let mut replicas: Vec<u32> = replicas.collect();
        if let Some(replicas) = need.replica_of.and_then(|index| replicas.get_mut(index)) {
            *replicas += 1;
        }
        cores.sum::<Cores>() + need.cores <= self.budget && self.limits.fit(&replicas)
    }

    /// Returns the capacity that growth needs now: the cores of serving replicas, which get them within a cycle or two.
    /// Otherwise the first replica of the largest new variant, unless one loads already. None if the target carries
    /// no more.
    fn needed_capacity(&self, carried: Carried<'_>) -> Need {
        let now: Vec<Allocation> = self.variants.iter().map(|v| v.actual.ready).collect();
        let desired =
            |variant: &Variant| Allocation::new(variant.desired.replicas, variant.desired.each);
        let desired: Vec<Allocation> = self.variants.iter().map(desired).collect();
        if carried(&desired) <= carried(&now) {
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
        let begins = begins.filter(|(_, v)| v.desired.replicas > v.actual.replicas());
        let max = begins.max_by_key(|(_, v)| v.desired.cores(v.actual.ready));
        max.map_or(Need::default(), |(index, variant)| Need {
            cores: match variant.first() {
                Cores::ZERO => variant.desired.start,
                first => first,
            },
            replica_of: Some(index),
        })
    }
}

/// Capacity that growth needs.
#[derive(Debug, Clone, Copy, Default)]
struct Need {
    cores: Cores,
    /// Variant that gets one more replica.
    replica_of: Option<usize>,
}

impl Variant {
    /// Returns the growth of the replicas that keep serving that has not been requested yet.
    fn grows_in_place(&self) -> Cores {
        let Actual {
            ready,
            starting,
            reserved,
            ..
        } = self.actual;
        let requested = reserved.saturating_sub(ready.cores() + starting.cores());
        let staying = self.desired.ready(ready);
        let before = Allocation::new(staying.replicas(), ready.each());
        let more = staying.cores().saturating_sub(before.cores());
        more.saturating_sub(requested)
    }

    /// Returns the serving allocation with the cores requested for it.
    fn grown_so_far(&self) -> Allocation {
        let Actual {
            ready, reserved, ..
        } = self.actual;
        let grows = self.target.ready(ready).each() > ready.each();
        match ready.replicas() {
            replicas @ 1.. if grows => {
                let each = Cores::from_millis(reserved.millis() / replicas);
                Allocation::new(replicas, each.max(ready.each()))
            }
            _ => ready,
        }
    }

    /// Whether any of its replicas has started and does not serve yet.
    fn loads(&self) -> bool {
        let Actual {
            ready,
            starting,
            reserved,
            ..
        } = self.actual;
        starting != Allocation::NONE || ready == Allocation::NONE && reserved > Cores::ZERO
    }
}

/// Lists the allocations between two, inclusive: by replica if there are several, otherwise by whole core.
fn levels(min: Option<&Allocation>, most: Option<&Allocation>) -> Vec<Allocation> {
    let (Some(min), Some(most)) = (min.copied(), most.copied()) else {
        return Vec::new();
    };
    let mut levels = vec![min];
    if most.replicas() > min.replicas().max(1) {
        let more = min.replicas() + 1..=most.replicas();
        levels.extend(more.map(|replicas| Allocation::new(replicas, most.each())));
    } else {
        let whole = min.each().millis() / 1000 + 1..=most.each().millis() / 1000;
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
