//! Best possible order of steps, by exhaustive search.

use std::collections::{HashSet, VecDeque};

use weir_api::Cores;

use super::case::Case;
use crate::capacity::Allocation;

/// Whether some order of single-variant changes leads from `start` to `desired` while the serving capacity carries the
/// part `min` of the demand at each moment. Growing cores count from the beginning, shrinking ones until the end.
pub(super) fn some_order_does(
    case: &Case,
    start: &[Allocation],
    desired: &[Allocation],
    demand: f64,
    min: f64,
) -> bool {
    let fits = |allocations: &[Allocation]| {
        let cores: Cores = allocations.iter().map(|one| one.cores()).sum();
        cores <= case.budget && case.resources_fit(allocations)
    };
    let shapes: Vec<Vec<Allocation>> = case.variants.iter().map(|one| one.shapes()).collect();
    let mut seen = HashSet::from([start.to_vec()]);
    let mut next = VecDeque::from([start.to_vec()]);
    while let Some(state) = next.pop_front() {
        if state == desired {
            return true;
        }
        let mut changed = state.clone();
        for (index, shapes) in shapes.iter().enumerate() {
            let from = state[index];
            for shape in shapes.iter().filter(|shape| is_one_way(from, **shape)) {
                changed[index] = *shape;
                if seen.contains(&changed) {
                    continue;
                }
                if shape.cores() < from.cores() || fits(&changed) {
                    seen.insert(changed.clone());
                    if case.carried(&changed, demand) >= min {
                        next.push_back(changed.clone());
                    }
                }
            }
            changed[index] = from;
        }
    }
    false
}

/// Whether the change only grows or only shrinks.
fn is_one_way(from: Allocation, to: Allocation) -> bool {
    let none = [from, to].contains(&Allocation::NONE);
    let (replicas, each) = (from.replicas() <= to.replicas(), from.each() <= to.each());
    from != to
        && (none
            || replicas == each
            || from.replicas() == to.replicas()
            || from.each() == to.each())
}
