//! Capacity of the variants: a fast upper bound for any number of cores, and the exact maximum.

use super::item::Item;
use super::{Allocation, Problem, check, quota};
use crate::TimeLimit;

/// Upper bound of the load that variants can carry, by cores: fractions of choices are allowed.
#[derive(Debug, Clone, Default)]
pub(super) struct CapacityBound {
    /// Cores and load, both cumulative, steepest first.
    steps: Vec<(f64, f64)>,
}

impl CapacityBound {
    /// Returns the bound of each tail of `items`: first of all items, last of none.
    pub(super) fn of_tails(items: &[Item]) -> Vec<CapacityBound> {
        let mut tails: Vec<CapacityBound> = (0..=items.len())
            .map(|from| CapacityBound::of(items.get(from..).unwrap_or_default()))
            .collect();
        tails.shrink_to_fit();
        tails
    }

    fn of(items: &[Item]) -> CapacityBound {
        let mut base = (0.0, 0.0);
        let mut pieces: Vec<(f64, f64)> = Vec::new();
        for item in items {
            let mut before = None;
            for corner in &item.hull {
                match before {
                    None => base = (base.0 + corner.cores, base.1 + corner.load),
                    Some((cores, load)) => pieces.push((corner.cores - cores, corner.load - load)),
                }
                before = Some((corner.cores, corner.load));
            }
        }
        pieces.sort_by(|a, b| (b.1 * a.0).total_cmp(&(a.1 * b.0)));
        let mut steps = vec![base];
        for (cores, load) in pieces {
            base = (base.0 + cores, base.1 + load);
            steps.push(base);
        }
        CapacityBound { steps }
    }

    /// Upper bound of the load with that many cores; negative infinity below the minimum of the
    /// variants.
    pub(super) fn at(&self, cores: f64) -> f64 {
        let after = self.steps.partition_point(|step| step.0 <= cores);
        let Some(before) = after.checked_sub(1).and_then(|index| self.steps.get(index)) else {
            return f64::NEG_INFINITY;
        };
        match self.steps.get(after) {
            None => before.1,
            Some(next) => before.1 + (next.1 - before.1) * (cores - before.0) / (next.0 - before.0),
        }
    }
}

/// Returns the allocation of the greatest capacity within the budget, with the fewest cores, and
/// shares in proportion to capacity: by dynamic programming over the cores. `None` if no variant has
/// any capacity, or time is over.
pub(super) fn max(problem: &Problem, time_limit: &TimeLimit<'_>) -> Option<Allocation> {
    let budget = usize::try_from(problem.budget).ok()?;
    // By cores used: the greatest capacity and, by variant, the choice that led there.
    let mut front: Vec<Option<f64>> = vec![None; budget + 1];
    *front.first_mut()? = Some(0.0);
    let mut taken: Vec<Vec<u32>> = Vec::with_capacity(problem.variants.len());
    for variant in &problem.variants {
        let mut next: Vec<Option<f64>> = vec![None; budget + 1];
        let mut choice = vec![0u32; budget + 1];
        for option in &variant.options {
            if time_limit.is_over() {
                return None;
            }
            let cores = usize::try_from(option.cores).ok()?;
            let places = next.iter_mut().zip(&mut choice).skip(cores);
            for ((place, choice), before) in places.zip(&front) {
                let Some(before) = before else { continue };
                let capacity = before + option.capacity_rps;
                if place.is_none_or(|best| capacity > best) {
                    (*place, *choice) = (Some(capacity), option.cores);
                }
            }
        }
        (front, taken) = (next, {
            taken.push(choice);
            taken
        });
    }
    let mut used = 0;
    let mut most = f64::NEG_INFINITY;
    for (cores, capacity) in front.iter().enumerate() {
        if let Some(capacity) = capacity.filter(|capacity| *capacity > most) {
            (used, most) = (cores, capacity);
        }
    }
    let mut cores = Vec::with_capacity(taken.len());
    for choice in taken.iter().rev() {
        let chosen = *choice.get(used)?;
        used = used.checked_sub(usize::try_from(chosen).ok()?)?;
        cores.push(chosen);
    }
    cores.reverse();
    let shares = quota::by_capacity(&problem.capacities(&cores))?;
    let objective = check::objective(problem, &cores, &shares);
    Some(Allocation {
        cores,
        shares,
        objective,
    })
}
