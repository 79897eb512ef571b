//! Optimal shares for given cores. Exact, without a solver: with fixed cores, InfAdapter's objective is a
//! fractional knapsack, and filling the most accurate variants first is optimal.

use crate::TOLERANCE;

/// Fills the most accurate variants first, each up to its capacity. `None` if the capacities together do
/// not carry the demand.
pub fn by_accuracy(capacities: &[f64], accuracies: &[f64], demand_rps: f64) -> Option<Vec<f64>> {
    let total: f64 = capacities.iter().sum();
    if demand_rps <= 0.0 || total < demand_rps * (1.0 - TOLERANCE) {
        return None;
    }
    let mut order: Vec<(usize, f64, f64)> = capacities
        .iter()
        .zip(accuracies)
        .enumerate()
        .map(|(i, (capacity, accuracy))| (i, *capacity, *accuracy))
        .collect();
    // Equally accurate: the greater capacity first, so that ties do not depend on the file's order alone.
    order.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.1.total_cmp(&a.1)));
    let mut shares = vec![0.0; capacities.len()];
    let mut left = 1.0;
    for (index, capacity, _) in order {
        let share = (capacity / demand_rps).min(left);
        left -= share;
        if let Some(slot) = shares.get_mut(index) {
            *slot = share;
        }
    }
    // The largest share takes the rounding error of the sum.
    if let Some(most) = shares.iter_mut().max_by(|a, b| a.total_cmp(b)) {
        *most += left;
    }
    Some(shares)
}

/// Shares in proportion to the capacities: fair if they do not suffice or the demand is unknown. `None`
/// if there is no capacity.
pub fn by_capacity(capacities: &[f64]) -> Option<Vec<f64>> {
    let total: f64 = capacities.iter().sum();
    (total > 0.0).then(|| capacities.iter().map(|capacity| capacity / total).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_accurate_variant_is_filled_first() {
        let accuracies = [0.6, 0.8, 0.7];
        for (capacities, demand, expected) in [
            ([100.0, 50.0, 40.0], 40.0, Some([0.0, 1.0, 0.0])),
            ([100.0, 50.0, 30.0], 100.0, Some([0.2, 0.5, 0.3])),
            ([20.0, 50.0, 30.0], 100.0, Some([0.2, 0.5, 0.3])),
            ([20.0, 50.0, 29.0], 100.0, None),
            ([0.0, 0.0, 0.0], 1.0, None),
            ([1.0, 1.0, 1.0], 0.0, None),
        ] {
            let got = by_accuracy(&capacities, &accuracies, demand);
            match (got, expected) {
                (None, None) => {}
                (Some(got), Some(expected)) => {
                    let off = got
                        .iter()
                        .zip(expected)
                        .map(|(a, b)| (a - b).abs())
                        .fold(0.0, f64::max);
                    assert!(off < 1e-12, "{got:?} {expected:?}");
                }
                (got, expected) => panic!("{capacities:?}: {got:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn by_capacity_gives_proportional_shares() {
        assert_eq!(by_capacity(&[30.0, 0.0, 10.0]), Some(vec![0.75, 0.0, 0.25]));
        assert_eq!(by_capacity(&[0.0, 0.0]), None);
    }
}
