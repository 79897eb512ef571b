//! INFaaS' problem at the sizes that the documentation claims: 50 and 100 architectures of 8 variants
//! on 3 resource types, with resources that do not bind, and with little more than the sufficient
//! minimum.
//!
//! `cargo bench -p weir-solve --bench infaas`

#![allow(missing_docs, clippy::expect_used)]

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use weir_solve::infaas::{Architecture, Input, Plan, Problem, Resource, Variant, solve};
use weir_solve::{Outcome, TimeLimit};

const NAMES: [&str; 3] = ["cpu", "gpu", "inferentia"];

fn input(architectures: usize, even: bool) -> Input {
    let mut rng = ChaCha8Rng::seed_from_u64(architectures as u64);
    let resource = |name: &str| Resource {
        name: name.to_owned(),
        available: 1e9,
    };
    let mut variant = |j: usize| {
        let base = [1.0, 8.0, 3.0].into_iter().cycle().nth(j).unwrap_or(1.0);
        let cost = base * rng.random_range(0.6..1.6);
        let any: f64 = base * rng.random_range(8.0..30.0);
        // The choice is hardest if all cost about the same per query.
        let near = cost * rng.random_range(19.6..20.4);
        Variant {
            name: format!("v{j}"),
            resource: NAMES.into_iter().cycle().nth(j).unwrap_or("cpu").to_owned(),
            takes: None,
            cost,
            sustains_qps: if even { near } else { any },
            latency_ms: 10.0,
            accuracy_percent: None,
            loading_s: rng.random_range(1.0..20.0),
            replicas: rng.random_range(0..4),
        }
    };
    let variants: Vec<Vec<Variant>> = (0..architectures)
        .map(|_| (0..8).map(&mut variant).collect())
        .collect();
    let architecture = |(i, variants): (usize, Vec<Variant>)| {
        let load_qps = f64::from(rng.random_range(50..600));
        Architecture {
            name: format!("a{i}"),
            load_qps,
            slack_qps: load_qps / 10.0,
            slo_ms: None,
            accuracies: Vec::new(),
            variants,
        }
    };
    Input {
        resources: NAMES.into_iter().map(resource).collect(),
        architectures: variants.into_iter().enumerate().map(architecture).collect(),
        loading_weight_per_s: 0.01,
        gap: 0.0,
    }
}

/// Solves within `readings_max` readings of the clock; not of a real clock, so that the result is the same
/// everywhere.
fn solved(problem: &Problem, readings_max: u64) -> Outcome<Plan> {
    let readings = Cell::new(0);
    let clock = || Duration::from_micros(readings.replace(readings.get() + 1));
    solve(
        problem,
        &TimeLimit::new(Duration::from_micros(readings_max), &clock),
    )
}

fn checked(input: &Input) -> Problem {
    Problem::try_from(input.clone()).expect("a sound input")
}

/// Limits resources to `above` times the smallest amount found sufficient, in the proportions of the
/// unlimited optimum.
fn tight(mut input: Input, above: f64) -> Input {
    let loose = solved(&checked(&input), u64::MAX);
    let used: Vec<f64> = loose
        .plan()
        .map(|plan| plan.resources.iter().map(|r| r.used).collect())
        .unwrap_or_default();
    let mut with = |part: f64| {
        for (resource, used) in input.resources.iter_mut().zip(&used) {
            resource.available = (part * used).ceil();
        }
        input.clone()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 0.002 {
        let middle = f64::midpoint(low, high);
        if let Outcome::Optimal(_) = solved(&checked(&with(middle)), 5000) {
            high = middle;
        } else {
            low = middle;
        }
    }
    with(high * above)
}

fn summary(outcome: &Outcome<Plan>) -> String {
    match outcome {
        Outcome::Optimal(plan) => format!("optimal at {:.3}", plan.objective),
        Outcome::Good { best, gap } => {
            let part = gap / (best.running_cost + best.loading_cost);
            format!("{:.3}, proven within {part:.2e}", best.objective)
        }
        Outcome::Infeasible { why, .. } | Outcome::OutOfTime { why, .. } => why.clone(),
    }
}

fn sizes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("infaas");
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    let levels = [
        ("slack", 10.0),
        ("x1.10", 1.1),
        ("x1.03", 1.03),
        ("x1.00", 1.0),
    ];
    for architectures in [50, 100] {
        for (kind, even) in [("mixed", false), ("even", true)] {
            for (level, above) in levels {
                let mut input = tight(input(architectures, even), above);
                for (aim, gap) in [("optimum", 0.0), ("0.01%", 1e-4)] {
                    input.gap = gap;
                    let problem = checked(&input);
                    let outcome = solved(&problem, u64::MAX);
                    let name = format!("{architectures}x8/{kind}/{level}/{aim}");
                    println!("{name}: {}", summary(&outcome));
                    group.bench_function(name, |bencher| {
                        bencher.iter(|| solved(black_box(&problem), u64::MAX));
                    });
                }
            }
        }
    }
    group.finish();
}

criterion_group!(benches, sizes);
criterion_main!(benches);
