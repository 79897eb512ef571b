//! Distributes the free budget among growing variants, so that most of the demand is carried once all of them serve.
//! Pure.
//!
//! The order of growth matters while the target does not fit as a whole: among a pipeline's stages, the weakest grows
//! first.

use weir_api::Cores;

use super::{Carried, Transition, Variant};
use crate::capacity::Allocation;

/// Number of parts into which the free budget is divided, each at least one core.
const PARTS: usize = 24;

impl Transition {
    /// Sets how far each variant may grow for now: up to its target if the budget covers all.
    pub(super) fn distribute(&mut self, carried: Carried<'_>) {
        let growing: Vec<(usize, Variant)> = self.pending(Variant::grows).collect();
        let reserved = |variant: &Variant| variant.actual.reserved;
        let all: Cores = self.variants.iter().map(reserved).sum();
        let free = self.budget.saturating_sub(all);
        let wants = |variant: &Variant| {
            let cores = variant.target.cores(variant.actual.ready);
            cores.saturating_sub(reserved(variant))
        };
        let desired: Cores = growing.iter().map(|(_, variant)| wants(variant)).sum();
        if growing.len() < 2 || desired <= free {
            return;
        }
        // A variant with nothing gets its first core in any case.
        let firsts: Cores = growing.iter().map(|(_, variant)| variant.first()).sum();
        let part = Cores::whole((free.millis() / 1000).div_ceil(PARTS as u32).max(1));
        let mut most: Vec<Cores> = self.variants.iter().map(reserved).collect();
        for (index, variant) in &growing {
            if let Some(most) = most.get_mut(*index) {
                *most = *most + variant.first();
            }
        }
        let mut left = free.saturating_sub(firsts);
        while left > Cores::ZERO {
            let next = growing.iter().filter_map(|(index, variant)| {
                let target = variant.target.cores(variant.actual.ready);
                let short = target.saturating_sub(*most.get(*index)?);
                let more = part.min(left).min(short);
                (more > Cores::ZERO).then_some((*index, more))
            });
            let then = |(index, more): (usize, Cores)| {
                let each = self.variants.iter().zip(&most).enumerate();
                let allocations = each.map(|(one, (variant, most))| {
                    variant.once_grown(if one == index { *most + more } else { *most })
                });
                (
                    index,
                    more,
                    carried(&allocations.collect::<Vec<Allocation>>()),
                )
            };
            let best = next
                .map(then)
                .reduce(|best, one| if one.2 > best.2 { one } else { best });
            let Some((index, more, _)) = best else { break };
            if let Some(most) = most.get_mut(index) {
                *most = *most + more;
            }
            left = left.saturating_sub(more);
        }
        for (index, _) in growing {
            if let (Some(variant), Some(most)) = (self.variants.get_mut(index), most.get(index)) {
                variant.grows_to = Some(*most);
            }
        }
    }
}

impl Variant {
    /// Returns the allocation with `most` cores, once starting replicas serve.
    fn once_grown(&self, most: Cores) -> Allocation {
        if !self.grows() || self.given_up {
            return self.safe();
        }
        let target = self.grown(most);
        Allocation::new(target.replicas, target.each)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Step;
    use super::*;
    use crate::capacity::{Actual, ResourceLimits, Target};

    fn cores(cores: &[u32]) -> Vec<Allocation> {
        Allocation::ones(&cores.iter().map(|n| Cores::whole(*n)).collect::<Vec<_>>())
    }

    /// Returns the cores requested first of each of three variants, on 12 cores. The first forms one stage, the
    /// others a second one; `rates` are requests/s per core.
    fn grown(start: [u32; 3], desired: [u32; 3], rates: [f64; 3]) -> Vec<(usize, u32)> {
        let carried = |allocations: &[Allocation]| {
            let each: Vec<f64> = allocations
                .iter()
                .zip(rates)
                .map(|(one, rate)| one.cores().as_f64() * rate)
                .collect();
            each[0].min(each[1] + each[2]) / 1000.0
        };
        let actual: Vec<Actual> = cores(&start).into_iter().map(Actual::certain).collect();
        let targets: Vec<Target> = cores(&desired).into_iter().map(Target::of).collect();
        let budget = Cores::whole(12);
        let mut transition = Transition::new(&actual, &targets, budget, &ResourceLimits::default());
        transition.hold(&carried);
        let Step::Resize(changes) = transition.next() else {
            return Vec::new();
        };
        let change = |one: &crate::capacity::Resize| (one.variant, one.cores().millis() / 1000);
        changes.iter().map(change).collect()
    }

    #[test]
    fn weakest_stage_grows_first() {
        // Six are free and ten are needed.
        assert_eq!(
            grown([3, 3, 0], [8, 8, 0], [10.0, 10.0, 0.0]),
            [(0, 6), (1, 6)]
        );
        assert_eq!(
            grown([4, 2, 0], [9, 7, 0], [10.0, 10.0, 0.0]),
            [(0, 6), (1, 6)]
        );
        assert_eq!(
            grown([2, 4, 0], [8, 8, 0], [30.0, 10.0, 0.0]),
            [(0, 4), (1, 8)]
        );
        // The budget covers all.
        assert_eq!(
            grown([2, 2, 0], [6, 6, 0], [30.0, 10.0, 0.0]),
            [(0, 6), (1, 6)]
        );
    }

    #[test]
    fn new_variant_gets_its_first_core() {
        let grown = grown([6, 3, 0], [8, 4, 2], [10.0, 10.0, 1.0]);
        assert!(grown.iter().any(|(variant, _)| *variant == 2), "{grown:?}");
        let all: u32 = [6, 3, 0]
            .iter()
            .enumerate()
            .map(|(index, start)| {
                grown
                    .iter()
                    .find(|(variant, _)| *variant == index)
                    .map_or(*start, |(_, cores)| *cores)
            })
            .sum();
        assert!(all <= 12, "{grown:?}");
    }
}
