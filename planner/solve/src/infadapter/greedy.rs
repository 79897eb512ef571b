//! Heuristic allocation without a solver: one variant carries the load that the others' minimum
//! cores do not. It is the solver's starting point, and the planner's fallback when the solver's
//! time runs out. It is never reported as optimal.

use super::{Allocation, Problem};

/// Returns the best of these candidates: the current cores, and for each variant the fewest cores
/// of it that carry the demand while the others have their minimum. `None` if no candidate carries
/// it.
pub fn start(problem: &Problem, current: Option<&[u32]>) -> Option<Allocation> {
    let min: Vec<u32> = problem
        .variants
        .iter()
        .map(|v| v.options.first().map_or(0, |option| option.cores))
        .collect();
    let current = current.and_then(|cores| problem.allocation(cores));
    let alone = (0..min.len()).filter_map(|index| alone(problem, &min, index));
    alone
        .chain(current)
        .max_by(|a, b| a.objective.total_cmp(&b.objective))
}

fn alone(problem: &Problem, min: &[u32], index: usize) -> Option<Allocation> {
    let carried: f64 = problem.capacities(min).iter().sum();
    let missing = problem.demand_rps - (carried - problem.capacity(index, *min.get(index)?));
    let options = &problem.variants.get(index)?.options;
    let enough = options
        .iter()
        .find(|option| option.capacity_rps >= missing)?;
    let mut cores = min.to_vec();
    *cores.get_mut(index)? = enough.cores;
    problem.allocation(&cores)
}

#[cfg(test)]
mod tests {
    use super::super::tests::problem;
    use super::*;

    #[test]
    fn one_variant_carries_the_load_beyond_the_others_minimum() {
        let variants = [(0.7, 20.0, 1, 10), (0.8, 10.0, 1, 10)];
        // Demand, current cores → cores.
        for (demand, current, cores) in [
            (25.0, None, Some([1, 1])),
            (95.0, None, Some([1, 8])),
            (120.0, None, Some([6, 1])),
            (120.0, Some([5, 2]), Some([5, 2])),
            (120.0, Some([9, 9]), Some([6, 1])),
            (500.0, None, None),
        ] {
            let start = start(
                &problem(demand, 10, &variants),
                current.as_ref().map(|c| c.as_slice()),
            );
            assert_eq!(
                start.map(|start| start.cores),
                cores.map(Vec::from),
                "{demand} {current:?}"
            );
        }
    }
}
