//! Solve times of Themis' two integer programmes: `cargo bench -p weir-solve --bench themis`.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_solve::latency_model::{Latency, LatencyModel};
use weir_solve::themis::{Input, Problem, Running, StageInput, solve};
use weir_solve::{Outcome, TimeLimit};

/// Stages that differ from each other, so that few settings tie and the Pareto fronts are as large
/// as they get.
fn problem(stages: u32, most: u32, load_rps: f64, slo_ms: f64) -> Problem {
    let stage = |index: u32| {
        let part = f64::from(index % 10);
        let latency = Latency::Sponge(LatencyModel {
            gamma_ms: 9.1 + 3.7 * part,
            epsilon_ms: 6.3,
            delta_ms: 0.71 + 0.13 * part,
            eta_ms: 1.9,
        });
        StageInput {
            name: format!("stage {index}"),
            latency,
            running: Running {
                instances: 2 + index % 3,
                cores: 1,
            },
            cores_max: most,
            batch_max: most,
            wait_ms: None,
            instances_max: 64,
        }
    };
    let input = Input {
        load_rps,
        lasting: true,
        slo_ms,
        budget_cores: 40 * stages,
        horizontal_cores: 1,
        stages: (0..stages).map(stage).collect(),
    };
    Problem::try_from(input).unwrap()
}

fn bench(criterion: &mut Criterion) {
    let time_limit = TimeLimit::new(Duration::MAX, &|| Duration::ZERO);
    for (name, stages, most, load_rps, slo_ms) in [
        (
            "10 stages, 16 cores, batch 16, slack",
            10,
            16,
            120.0,
            1200.0,
        ),
        ("10 stages, 16 cores, batch 16", 10, 16, 120.0, 600.0),
        ("10 stages, 16 cores, batch 16, tight", 10, 16, 120.0, 360.0),
        ("32 stages, 64 cores, batch 64", 32, 64, 120.0, 2000.0),
    ] {
        let problem = problem(stages, most, load_rps, slo_ms);
        let outcome = solve(&problem, &time_limit);
        let Outcome::Optimal(plan) = &outcome else {
            panic!("{outcome:?}")
        };
        let cores =
            |scaling: &Option<weir_solve::themis::Scaling>| scaling.as_ref().map(|s| s.cores);
        println!(
            "{name}: {:?} {:?} cores",
            cores(&plan.vertical),
            cores(&plan.horizontal)
        );
        criterion.bench_function(name, |b| b.iter(|| solve(black_box(&problem), &time_limit)));
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
