//! Time that a cycle takes to plan the steps of a staged rollout: the cores reserved and distributed, and the search
//! for a detour where no direct step fits, which takes longest. `cargo bench -p weir-planner --bench steps`
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::fmt::Write;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use weir_api::{Cores, Rps};
use weir_planner::capacity::{Actual, Allocation, ResourceLimits, Target};
use weir_planner::plan::capacities;
use weir_planner::rollout::{Shapes, Transition};
use weir_planner::service::{Inputs, Service};

/// Service with `variants` variants of 10 requests/s per core.
fn service(variants: usize, cores: u32) -> Service {
    let mut text = format!(
        "service: bench\nlisten: 127.0.0.1:0\nkeyEnv: KEY\nslo: 1s\nmode: advisory\n\
         budget: {{cores: {cores}}}\nproxies: {{stats: [\"http://127.0.0.1:1/stats\"]}}\nvariants:\n"
    );
    for index in 0..variants {
        write!(
            text,
            "- name: v{index}\n  cluster: v{index}\n  accuracy: {}\n\
             \x20 cores: {{initial: 1, min: 1}}\n\
             \x20 capacity: {{slopeRps: 10, interceptRps: 0}}\n\
             \x20 latency: {{gammaMs: 0, epsilonMs: 0, deltaMs: 0, etaMs: 50, parallelism: per-core}}\n",
            70 + index
        )
        .unwrap();
    }
    Service::from_yaml(&text).unwrap()
}

/// Allocations in which the variant at `place` has all cores that the others leave.
fn most(variants: usize, cores: u32, place: usize) -> Vec<Allocation> {
    let others = u32::try_from(variants - 1).unwrap();
    let of = |index| match index == place {
        true => cores - others,
        false => 1,
    };
    (0..variants)
        .map(|index| Allocation::one(Cores::whole(of(index))))
        .collect()
}

fn steps(criterion: &mut Criterion) {
    for (variants, cores) in [(3, 12), (5, 20), (8, 64), (16, 400)] {
        let service = service(variants, cores);
        let demand = Rps(f64::from(cores) * 4.0);
        let inputs = Inputs::steady(demand);
        let carried = |allocations: &[Allocation]| {
            let each = capacities(&service, allocations, Some(inputs), &[]);
            each.iter().sum::<f64>() / demand.0
        };
        let (from, to) = (
            most(variants, cores, 0),
            most(variants, cores, variants - 1),
        );
        let actual: Vec<Actual> = from.iter().copied().map(Actual::certain).collect();
        let targets: Vec<Target> = to.iter().copied().map(Target::of).collect();
        // The target exceeds the budget, so that the search visits every state it may visit.
        let too_much = Allocation::one(Cores::whole(cores - 1));
        let beyond: Vec<Target> = vec![Target::of(too_much); variants];
        let shapes = vec![
            Shapes {
                replicas: (1, 1),
                each: (1, cores),
                step: Cores::whole(1),
            };
            variants
        ];
        let budget = Cores::whole(cores);
        let transition = |targets: &[Target]| {
            Transition::new(&actual, targets, budget, &ResourceLimits::default())
        };
        let size = format!("{variants} variants, {cores} cores");
        let mut group = criterion.benchmark_group("steps");
        group.sample_size(10);
        group.bench_function(BenchmarkId::new("next", &size), |bencher| {
            bencher.iter(|| {
                let mut transition = transition(&targets);
                transition.hold(&carried);
                black_box(transition.next())
            });
        });
        group.bench_function(BenchmarkId::new("detour", &size), |bencher| {
            let transition = transition(&beyond);
            bencher.iter(|| black_box(transition.detour(&shapes, &carried)));
        });
        group.finish();
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
