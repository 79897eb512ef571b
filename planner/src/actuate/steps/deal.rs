//! Room that several would grow into → how much of it each may take, so that the most of the demand is carried once all of it
//! serves. Pure.
//!
//! Where what is wanted does not fit yet, it matters who grows first: of a pipeline's stages the one that carries the
//! least.

use weir_api::Cores;

use super::{Carried, Transition, Variant};
use crate::actuate::Allocation;

/// Parts in which the room is dealt out, each a core at least.
const PARTS: usize = 24;

impl Transition {
    /// Sets how far each may grow for now: as far as it is wanted where there is room for all.
    pub(super) fn deal(&mut self, carried: Carried<'_>) {
        let growing: Vec<(usize, Variant)> = self.pending(Variant::grows).collect();
        let at_most = |variant: &Variant| variant.in_force.at_most;
        let all: Cores = self.variants.iter().map(at_most).sum();
        let free = self.budget.saturating_sub(all);
        let wants = |variant: &Variant| {
            let cores = variant.goal.cores(variant.in_force.ready);
            cores.saturating_sub(at_most(variant))
        };
        let wanted: Cores = growing.iter().map(|(_, variant)| wants(variant)).sum();
        if growing.len() < 2 || wanted <= free {
            return;
        }
        // What has nothing has its first core in any case.
        let firsts: Cores = growing.iter().map(|(_, variant)| variant.first()).sum();
        let part = Cores::whole((free.millis() / 1000).div_ceil(PARTS as u32).max(1));
        let mut most: Vec<Cores> = self.variants.iter().map(at_most).collect();
        for (index, variant) in &growing {
            if let Some(most) = most.get_mut(*index) {
                *most = *most + variant.first();
            }
        }
        let mut left = free.saturating_sub(firsts);
        while left > Cores::ZERO {
            let next = growing.iter().filter_map(|(index, variant)| {
                let goal = variant.goal.cores(variant.in_force.ready);
                let short = goal.saturating_sub(*most.get(*index)?);
                let more = part.min(left).min(short);
                (more > Cores::ZERO).then(|| (*index, more))
            });
            let then = |(index, more): (usize, Cores)| {
                let each = self.variants.iter().zip(&most).enumerate();
                let there = each.map(|(one, (variant, most))| {
                    variant.once_grown(if one == index { *most + more } else { *most })
                });
                (index, more, carried(&there.collect::<Vec<Allocation>>()))
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
    /// What there is once it has grown to so many cores, and what starts serves.
    fn once_grown(&self, most: Cores) -> Allocation {
        if !self.grows() || self.given_up {
            return self.safe();
        }
        let goal = self.grown(most);
        Allocation::new(goal.replicas, goal.each)
    }
}
