//! IPA's pipelines: `cargo bench -p weir-solve --bench ipa`.

#![allow(missing_docs, reason = "criterion's macros")]
#![allow(clippy::expect_used, reason = "a bench")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_solve::ipa::{Input, Problem, solve};
use weir_solve::{Outcome, TimeLimit};

#[path = "ipa/pipelines.rs"]
mod pipelines;

/// Fails unless the optimum is proven, so that only proven solves are measured.
fn optimum(problem: &Problem) {
    let forever = || Duration::ZERO;
    let time_limit = TimeLimit::new(Duration::from_secs(1), &forever);
    let outcome = solve(black_box(problem), &time_limit);
    assert!(matches!(black_box(outcome), Outcome::Optimal(_)));
}

fn ipa(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ipa");
    group.sample_size(10);
    for (stages, variants) in [(10, 10), (20, 20)] {
        for (name, tightness, same) in [
            ("very tight", 0.03, false),
            ("tight", 0.15, false),
            ("moderate", 0.3, false),
            ("loose", 0.8, false),
            ("alike", 0.03, true),
        ] {
            for seed in 1..=3 {
                let input = pipelines::pipeline(seed, stages, variants, tightness, same);
                let input: Input = serde_json::from_value(input).expect("a pipeline");
                let problem = Problem::try_from(input).expect("a problem");
                let id = format!("{stages}x{variants} {name} {seed}");
                group.bench_function(id, |bencher| bencher.iter(|| optimum(&problem)));
            }
        }
    }
    group.finish();
}

criterion_group!(benches, ipa);
criterion_main!(benches);
