//! Time to the optimum of single-stage problems: InfAdapter's set of variants, Sponge's cores and batch.
//! `cargo bench -p weir-solve --bench single`
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use weir_solve::{Outcome, TimeLimit, infadapter, sponge};

fn still() -> Duration {
    Duration::ZERO
}

fn time_limit() -> TimeLimit<'static> {
    TimeLimit::new(Duration::from_secs(60), &still)
}

/// Variants from fast and inaccurate to slow and accurate, a third of them not loaded. The demand is
/// `load` times the capacity of the fastest alone. `curved` bends the capacities, like measured ones.
fn variants(count: u32, cores: u32, load: f64, curved: bool) -> infadapter::Problem {
    let variants: Vec<Value> = (0..count)
        .map(|index| {
            let part = f64::from(index) / f64::from(count);
            let slope = 25.0 * (1.0 - 0.9 * part);
            let rate = |n: u32| slope * f64::from(n).powf(0.93) * (1.0 - 0.04 * f64::from((n * 7 + index * 3) % 3));
            let mut most = 0.0f64;
            let points: Vec<Value> = (1..=cores)
                .map(|n| {
                    most = most.max(rate(n));
                    json!({"cores": n, "rps": most})
                })
                .collect();
            let line = json!({"model": "line", "slope_rps": slope, "intercept_rps": -0.3 * slope});
            json!({
                "name": format!("v{index}"), "accuracy_percent": 60.0 + 30.0 * part.sqrt(), "readiness_s": 3 + 2 * index,
                "cores": if index % 3 == 1 { 0 } else { 1 },
                "throughput": if curved { json!({"model": "table", "points": points}) } else { line },
            })
        })
        .collect();
    let input = json!({
        "demand_rps": load * 25.0 * f64::from(cores), "budget_cores": cores, "variants": variants,
        "weights": {"alpha": 1.0, "beta": 0.05, "gamma": 0.001},
    });
    let input: infadapter::Input = serde_json::from_value(input).unwrap();
    input.try_into().unwrap()
}

fn waiting(cores: u32, batches: u32, requests: u32) -> sponge::Problem {
    let waiting: Vec<Value> = (0..requests)
        .map(|i| json!({"slo_ms": 2000, "network_ms": 50 + (i * 37) % 200, "waited_ms": (i * 13) % 90}))
        .collect();
    let input = json!({
        "latency": {"model": "sponge", "gamma_ms": 40.0, "epsilon_ms": 8.0, "delta_ms": 2.0, "eta_ms": 5.0},
        "cores": cores, "batches": batches, "rate_rps": 150, "waiting": waiting,
    });
    let input: sponge::Input = serde_json::from_value(input).unwrap();
    input.try_into().unwrap()
}

fn optimum(c: &mut Criterion) {
    let mut group = c.benchmark_group("infadapter");
    for (count, cores) in [(3, 20), (5, 20), (10, 200)] {
        for (load, curved) in [(0.3, false), (0.3, true), (0.7, true)] {
            let problem = variants(count, cores, load, curved);
            let model = if curved { "tables" } else { "lines" };
            group.bench_function(format!("{count} × {cores}, load {load}, {model}"), |b| {
                b.iter(
                    || match infadapter::solve(black_box(&problem), &time_limit()) {
                        Outcome::Optimal(best) => best,
                        outcome => panic!("{outcome:?}"),
                    },
                );
            });
        }
    }
    group.finish();
    let problem = waiting(16, 16, 200);
    c.bench_function("sponge/16 × 16, 200 waiting", |b| {
        b.iter(|| match sponge::solve(black_box(&problem), &time_limit()) {
            Outcome::Optimal(best) => best,
            outcome => panic!("{outcome:?}"),
        });
    });
}

criterion_group!(benches, optimum);
criterion_main!(benches);
