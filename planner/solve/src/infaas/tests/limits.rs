//! Input at the allowed limits gives an outcome within a bounded number of clock readings, whatever
//! the numbers.

use std::cell::Cell;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Costs, loads and units over six orders of magnitude.
fn wild(seed: u64, architectures: usize, variants: usize) -> Input {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let names: Vec<String> = (0..RESOURCES_MAX).map(|t| format!("r{t}")).collect();
    let mut any =
        |low: i32, high: i32| 10_f64.powf(rng.random_range(f64::from(low)..f64::from(high)));
    let resources = names.iter().map(|name| resource(name, any(2, 5))).collect();
    let mut list = Vec::new();
    for i in 0..architectures {
        let variants = (0..variants).map(|j| {
            let own = names[(i + j) % names.len()].as_str();
            let running = any(-1, 2) as u32;
            variant(
                &format!("v{j}"),
                own,
                (any(-3, 3), any(-2, 4), any(-1, 2), running),
            )
        });
        let variants = variants.collect();
        list.push(architecture(&format!("a{i}"), any(0, 5), variants));
    }
    Input {
        resources,
        architectures: list,
        loading_weight_per_s: any(-3, 0),
        gap: 0.0,
    }
}

#[test]
fn extreme_input_gives_an_outcome_in_time() {
    let mut seen = [0; 4];
    for seed in 0..40 {
        let (architectures, variants) =
            [(3, 4), (20, 8), (60, 6), (10, VARIANTS_MAX)][seed as usize % 4];
        let problem = Problem::try_from(wild(seed, architectures, variants)).unwrap();
        let readings = Cell::new(0_u64);
        let clock = || Duration::from_micros(readings.replace(readings.get() + 1));
        let limit = 2000;
        let outcome = solve(
            &problem,
            &TimeLimit::new(Duration::from_micros(limit), &clock),
        );
        let late = readings.get().saturating_sub(limit);
        assert!(
            late <= 4 * RESOURCES_MAX as u64 * architectures as u64,
            "seed {seed}: {late} looks late"
        );
        let kind = match outcome {
            Outcome::Optimal(_) => 0,
            Outcome::Good { gap, .. } => {
                assert!(gap.is_finite() && gap >= 0.0);
                1
            }
            Outcome::Infeasible { .. } => 2,
            Outcome::OutOfTime { .. } => 3,
        };
        seen[kind] += 1;
    }
    println!("optimal, good, infeasible, out of time: {seen:?}");
    assert!(seen[0] > 0 && seen[2] > 0, "{seen:?}");
}
