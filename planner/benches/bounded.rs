//! Duration of a decision under resource limits: the policy alone, and within half and a quarter of the memory that
//! its plan would take. `cargo bench -p weir-planner --bench bounded`
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::fmt::Write;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use weir_api::{Cores, Rps};
use weir_planner::capacity::{Actual, Allocation};
use weir_planner::policy::decide;
use weir_planner::service::{Inputs, Service, SolveStatus};

/// Service with `variants` variants, from fast and light to accurate and heavy, of up to `replicas` replicas each.
fn service(variants: u32, replicas: u32, memory_gi: Option<u32>) -> Service {
    let resources = memory_gi.map_or(String::new(), |gi| {
        format!(", resources: {{memory: {gi}Gi}}")
    });
    let mut text = format!(
        "service: bench\nlisten: 127.0.0.1:0\nkeyEnv: KEY\nslo: 1s\nmode: advisory\n\
         budget: {{cores: 400{resources}}}\nproxies: {{stats: [\"http://127.0.0.1:1/stats\"]}}\nvariants:\n"
    );
    for index in 0..variants {
        let (ms, accuracy, gi) = (30 + 25 * index, 65 + 4 * index, 2 + 3 * index);
        let slope = 900.0 / f64::from(ms);
        let own = memory_gi.map_or(String::new(), |_| {
            format!("  resources: {{memory: {gi}Gi}}\n")
        });
        write!(
            text,
            "- name: v{index}\n  cluster: v{index}\n  accuracy: {accuracy}\n  readiness: 5s\n\
             \x20 cores: {{initial: 4, max: 4}}\n\
             \x20 replicas: {{initial: 0, min: 0, max: {replicas}}}\n\
             \x20 capacity: {{slopeRps: {slope}, interceptRps: -1}}\n\
             \x20 latency: {{gammaMs: 0, epsilonMs: 0, deltaMs: 0, etaMs: {ms}, parallelism: 1}}\n{own}"
        )
        .unwrap();
    }
    Service::from_yaml(&text).unwrap()
}

fn bounded(criterion: &mut Criterion) {
    for (variants, replicas) in [(3, 8), (5, 20), (8, 20)] {
        let nothing = vec![Actual::certain(Allocation::new(0, Cores::ZERO)); variants as usize];
        let inputs = Inputs::steady(Rps(f64::from(replicas) * 20.0));
        let free = decide(&service(variants, replicas, None), &nothing, Some(inputs));
        assert_eq!(free.status, SolveStatus::Optimal, "{}", free.why);
        let each = (2..).step_by(3);
        let takes = free.targets.iter().zip(each);
        let takes: u32 = takes.map(|(target, gi)| target.replicas * gi).sum();
        let mut group =
            criterion.benchmark_group(format!("{variants} variants/{replicas} replicas"));
        group.sample_size(10);
        for (name, memory_gi) in [
            ("free", None),
            ("half", Some(takes / 2)),
            ("quarter", Some(takes / 4)),
        ] {
            let service = service(variants, replicas, memory_gi);
            let decision = decide(&service, &nothing, Some(inputs));
            println!("{name}: {:?} {}", decision.status, decision.why);
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter(|| black_box(decide(&service, &nothing, Some(inputs))));
            });
        }
    }
}

criterion_group!(benches, bounded);
criterion_main!(benches);
