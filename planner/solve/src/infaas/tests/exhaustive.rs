//! Small instances of every kind, compared with exhaustive search.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::TOLERANCE;

const CASES: u64 = 12_000;

fn small(seed: u64) -> Input {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let scale = |rng: &mut ChaCha8Rng| [1.0, 1.0, 1000.0, 0.001][rng.random_range(0..4)];
    let (of_cost, of_load, of_units) = (scale(&mut rng), scale(&mut rng), scale(&mut rng));
    let whole = rng.random_bool(0.6);
    let names = ["cpu", "gpu", "inferentia"];
    let types = rng.random_range(1..=3);
    let resources = names[..types].iter();
    let resources = resources
        .map(|name| resource(name, f64::from(rng.random_range(0..13)) * of_units))
        .collect();
    let mut left: usize = 5;
    let mut architectures = Vec::new();
    for i in 0..rng.random_range(1..=3) {
        let count = rng.random_range(1..=3_usize).min(left);
        left -= count;
        if count == 0 {
            break;
        }
        let mut variants = Vec::new();
        for j in 0..count {
            let mut cost = f64::from(rng.random_range(0..4));
            let mut sustains = f64::from(rng.random_range(2..6));
            if !whole {
                cost *= rng.random_range(0.5..2.0);
                sustains *= rng.random_range(0.8..1.3);
            }
            let own = rng.random_range(0..types);
            let takes = names[..types].iter().filter_map(|name| {
                let amount = f64::from(rng.random_range(0..3)) * of_units;
                (amount > 0.0).then(|| ((*name).to_owned(), amount))
            });
            let takes = takes.collect();
            let one = std::iter::once((names[own].to_owned(), of_units)).collect();
            let takes = if rng.random_bool(0.3) { takes } else { one };
            variants.push(Variant {
                takes: Some(takes),
                latency_ms: f64::from(rng.random_range(1..5)),
                ..variant(
                    &format!("v{j}"),
                    names[own],
                    (
                        cost * of_cost,
                        sustains * of_load,
                        f64::from(rng.random_range(0..3)),
                        rng.random_range(0..4),
                    ),
                )
            });
        }
        let mut one = architecture(
            &format!("a{i}"),
            f64::from(rng.random_range(0..11)) * of_load,
            variants,
        );
        one.slack_qps = f64::from(rng.random_range(0..3)) * of_load;
        one.slo_ms = rng.random_bool(0.5).then_some(3.5);
        architectures.push(one);
    }
    let mut input = Input {
        resources,
        architectures,
        loading_weight_per_s: [0.0, 0.1, 1.0][rng.random_range(0..3)],
        gap: 0.0,
    };
    for one in &mut input.architectures {
        if rng.random_bool(0.5) {
            require(one, &mut rng);
        }
    }
    input
}

/// Gives the variants one of four accuracies, and lets parts of the load require some.
fn require(architecture: &mut Architecture, rng: &mut ChaCha8Rng) {
    for variant in &mut architecture.variants {
        variant.accuracy_percent = Some(f64::from(rng.random_range(6..10)) * 10.0);
    }
    for percent in [55.0, 70.0, 85.0] {
        if rng.random_bool(0.6) {
            let share = f64::from(rng.random_range(0..4)) * 0.1;
            architecture
                .accuracies
                .push(AccuracyShare { percent, share });
        }
    }
}

/// Whether these replicas carry what requires each accuracy.
fn carries(architecture: &Architecture, counts: &[(&Variant, u32)]) -> bool {
    let required = architecture.accuracies.iter().map(|one| one.percent);
    required.chain([0.0]).all(|percent| {
        let shares = architecture.accuracies.iter();
        let above: f64 = shares
            .filter(|one| one.percent >= percent)
            .map(|one| one.share)
            .sum();
        let share = if percent > 0.0 { above } else { 1.0 };
        let able = counts
            .iter()
            .filter(|(v, _)| v.accuracy_percent.unwrap_or(0.0) >= percent);
        let carried: f64 = able.map(|(v, n)| v.sustains_qps * f64::from(*n)).sum();
        carried >= (architecture.load_qps + architecture.slack_qps) * share * (1.0 - 1e-10)
    })
}

/// Returns the least objective, the fewest replicas moved at it, and the number of plans with that
/// objective, by exhaustive search.
fn every_plan(input: &Input) -> Option<(f64, u64, u32)> {
    let variants: Vec<(&Architecture, &Variant)> = input
        .architectures
        .iter()
        .flat_map(|a| a.variants.iter().map(move |v| (a, v)))
        .collect();
    let in_time = |a: &Architecture, v: &Variant| a.slo_ms.is_none_or(|slo| v.latency_ms <= slo);
    // More replicas than carry all the load alone, or than run, are never useful.
    let most: Vec<u32> = variants
        .iter()
        .map(|(a, v)| {
            let alone = ((a.load_qps + a.slack_qps) / v.sustains_qps).ceil() as u32;
            v.replicas.max(if in_time(a, v) { alone } else { 0 })
        })
        .collect();
    let size: f64 = variants.iter().map(|(_, v)| v.cost * 20.0).sum();
    let mut counts = vec![0_u32; variants.len()];
    let mut best: Option<(f64, u64, u32)> = None;
    loop {
        let runs = |name: &str| {
            let both = variants
                .iter()
                .zip(&counts)
                .filter(|((a, v), _)| a.name == name && in_time(a, v));
            both.map(|((_, v), n)| (*v, *n)).collect::<Vec<_>>()
        };
        let used = |name: &str| {
            let both = variants.iter().zip(&counts);
            both.map(|((_, v), n)| {
                v.takes.as_ref().unwrap().get(name).unwrap_or(&0.0) * f64::from(*n)
            })
            .sum::<f64>()
        };
        let fits = input
            .resources
            .iter()
            .all(|r| used(&r.name) <= r.available * (1.0 + 1e-10))
            && input
                .architectures
                .iter()
                .all(|a| carries(a, &runs(&a.name)));
        if fits {
            let (mut cost, mut moved) = (0.0, 0);
            for ((_, v), n) in variants.iter().zip(&counts) {
                let change = f64::from(*n) - f64::from(v.replicas);
                cost +=
                    v.cost * (change + input.loading_weight_per_s * v.loading_s * change.max(0.0));
                moved += u64::from(n.abs_diff(v.replicas));
            }
            let near = TOLERANCE * 1e-2 * size;
            best = Some(match best {
                Some((min, fewest, equal)) if (cost - min).abs() <= near => {
                    (min, fewest.min(moved), equal + 1)
                }
                Some(best) if best.0 < cost => best,
                _ => (cost, moved, 1),
            });
        }
        let Some(next) = (0..counts.len()).find(|i| counts[*i] < most[*i]) else {
            return best;
        };
        counts[..next].fill(0);
        counts[next] += 1;
    }
}

#[test]
fn optimum_equals_exhaustive_search() {
    let (mut infeasible, mut ties, mut coupled, mut free, mut still) = (0, 0, 0, 0, 0);
    let mut dearer = 0;
    for seed in 0..CASES {
        let input = small(seed);
        let problem = Problem::try_from(input.clone()).unwrap();
        match (solved(&problem), every_plan(&input)) {
            (Outcome::Optimal(plan), Some((min, fewest, equal))) => {
                let spent = plan.running_cost + plan.loading_cost;
                let off = (plan.objective - min).abs();
                assert!(
                    off <= TOLERANCE * spent.max(1e-6),
                    "seed {seed}: {} is not {min}: {input:?}",
                    plan.objective
                );
                assert_eq!(plan.moved, fewest, "seed {seed}: moved: {input:?} {plan:?}");
                ties += u32::from(equal > 1);
                still += u32::from(fewest == 0);
                free += u32::from(
                    input
                        .architectures
                        .iter()
                        .flat_map(|a| &a.variants)
                        .all(|v| v.cost == 0.0),
                );
                let mut careless = input.clone();
                for one in &mut careless.architectures {
                    one.accuracies.clear();
                }
                let careless = solved(&Problem::try_from(careless).unwrap());
                let objective = careless.plan().unwrap().objective;
                dearer += u32::from(objective < plan.objective - 1e-6 * spent);
                let loose = Input {
                    resources: input
                        .resources
                        .iter()
                        .map(|r| resource(&r.name, 1e9))
                        .collect(),
                    ..input
                };
                let loose = solved(&Problem::try_from(loose).unwrap());
                coupled +=
                    u32::from(loose.plan().unwrap().objective < plan.objective - 1e-6 * spent);
            }
            (Outcome::Infeasible { why, best_effort }, None) => {
                assert!(!why.is_empty() && best_effort.is_some());
                infeasible += 1;
            }
            (outcome, best) => {
                panic!("seed {seed}: {outcome:?}, but trying every plan gives {best:?}: {input:?}")
            }
        }
    }
    let counts = [infeasible, ties, coupled, free, still, dearer];
    println!(
        "infeasible, ties, coupled, free of cost, unmoved, dearer by accuracies: {counts:?} of {CASES}"
    );
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}
