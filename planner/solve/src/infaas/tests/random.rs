//! Larger instances, compared with HiGHS.

use std::cell::Cell;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Kind of an instance, by its costs and loads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Arbitrary numbers.
    Mixed,
    /// Integer costs, so that there are many ties.
    Whole,
    /// Cost in proportion to the sustained rate: nothing is clearly better.
    Even,
    /// Replicas take several resource types.
    Vectors,
}

const KINDS: [Kind; 4] = [Kind::Mixed, Kind::Whole, Kind::Even, Kind::Vectors];

fn large(seed: u64, architectures: usize, variants: usize, kind: Kind) -> Input {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let names = ["cpu", "gpu", "inferentia"];
    let mut input = Input {
        resources: names.iter().map(|name| resource(name, 1e9)).collect(),
        architectures: Vec::new(),
        loading_weight_per_s: 0.01,
        gap: 0.0,
    };
    for i in 0..architectures {
        let mut list = Vec::new();
        for j in 0..variants {
            let base = [1.0, 8.0, 3.0][j % 3];
            let mut cost: f64 = base * rng.random_range(0.6..1.6);
            let mut sustains: f64 = base * rng.random_range(8.0..30.0_f64);
            match kind {
                Kind::Whole => (cost, sustains) = (cost.ceil(), sustains.round()),
                Kind::Even => sustains = cost * 20.0 * rng.random_range(0.98..1.02),
                Kind::Mixed | Kind::Vectors => {}
            }
            let takes = names
                .iter()
                .map(|name| ((*name).to_owned(), f64::from(rng.random_range(0..4))));
            let takes = takes.collect();
            let loading = rng.random_range(1.0..20.0_f64).round();
            list.push(Variant {
                takes: (kind == Kind::Vectors).then_some(takes),
                ..variant(
                    &format!("v{j}"),
                    names[j % 3],
                    (cost, sustains, loading, rng.random_range(0..4)),
                )
            });
        }
        let load = rng.random_range(50.0..600.0_f64).round();
        let mut one = architecture(&format!("a{i}"), load, list);
        one.slack_qps = (load / 10.0).round();
        input.architectures.push(one);
    }
    input
}

/// The same input with `above` times the minimum sufficient resources, in the proportions used
/// without limits.
fn tight(mut input: Input, above: f64) -> Input {
    let loose = solved(&Problem::try_from(input.clone()).unwrap());
    let used: Vec<f64> = loose
        .plan()
        .unwrap()
        .resources
        .iter()
        .map(|r| r.used)
        .collect();
    let mut with = |part: f64| {
        for (resource, used) in input.resources.iter_mut().zip(&used) {
            resource.available = (part * used).ceil();
        }
        input.clone()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 0.003 {
        let middle = (low + high) / 2.0;
        let problem = Problem::try_from(with(middle)).unwrap();
        // Near the minimum a proof of infeasibility may take long, so the clock readings are limited.
        let readings = Cell::new(0);
        let clock = || Duration::from_micros(readings.replace(readings.get() + 1));
        match solve(&problem, &TimeLimit::new(Duration::from_millis(3), &clock)) {
            Outcome::Optimal(_) | Outcome::Good { .. } => high = middle,
            _ => low = middle,
        }
    }
    with(high * above)
}

#[test]
fn allowed_gap_is_reported_and_covers_the_optimum() {
    let (mut good, mut optimal) = (0, 0);
    for seed in 0..24 {
        let kind = KINDS[seed as usize % 4];
        let mut input = tight(large(seed, 8, 5, kind), 1.1);
        let best = solved(&Problem::try_from(input.clone()).unwrap());
        let Outcome::Optimal(best) = best else {
            panic!("seed {seed}: not optimal")
        };
        input.gap = 0.4;
        match solved(&Problem::try_from(input).unwrap()) {
            Outcome::Good { best: plan, gap } => {
                good += 1;
                assert!(gap > 0.0 && gap <= 0.4 * (plan.running_cost + plan.loading_cost));
                assert!(plan.objective >= best.objective - 1e-6);
                assert!(
                    plan.objective - gap <= best.objective + 1e-6,
                    "{gap} is no bound"
                );
            }
            Outcome::Optimal(plan) => {
                optimal += 1;
                assert!((plan.objective - best.objective).abs() < 1e-6);
            }
            outcome => panic!("seed {seed}: {outcome:?}"),
        }
    }
    assert!(good > 3, "{good} good, {optimal} optimal");
}

#[cfg(feature = "highs")]
#[test]
fn large_instances_equal_highs() {
    let mut coupled = 0;
    for (index, kind) in KINDS.into_iter().cycle().take(32).enumerate() {
        let seed = index as u64;
        let above = [1.0, 1.02, 1.05, 1.2, 10.0][index % 5];
        let input = tight(large(seed, 3 + index % 4, 6, kind), above);
        let problem = Problem::try_from(input).unwrap();
        let clock = || Duration::ZERO;
        let time_limit = TimeLimit::new(Duration::from_secs(20), &clock);
        let Outcome::Optimal(plan) = solve(&problem, &time_limit) else {
            panic!("seed {seed}: not optimal")
        };
        let Outcome::Optimal(highs) = ilp::solve_with(&problem, crate::Solver::Highs, &time_limit)
        else {
            panic!("seed {seed}: HiGHS: not optimal")
        };
        let off = (plan.objective - highs.objective).abs();
        assert!(
            off < 1e-6 * plan.running_cost,
            "seed {seed} {kind:?}: {} is not HiGHS' {}",
            plan.objective,
            highs.objective
        );
        coupled += u32::from(above < 2.0);
    }
    assert!(coupled > 20);
}
