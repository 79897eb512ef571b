//! Worked examples: `checkModvar` of the program by hand, and the paper's moves by hand.

use std::path::Path;
use std::time::Duration;

use super::super::unit::Unit;
use super::*;
use crate::scenario::{Overrides, read_text};

/// Variants of 76 %: on CPUs 10/s for 0.1, on GPUs 250/s for 3; two GPUs. A cheap one of 60 % is below the minimum.
const SERVICE: &str = "\
name: infaas
length_s: 1
service:
  service: demo
  policy: infaas
  infaas: {accuracyMin: 75}
  slo: 500ms
  budget: {cores: 16, resources: {nvidia.com/gpu: 2}}
  variants:
  - name: small
    cluster: small
    accuracy: 60
    price: 0.01
    cores: {initial: 2, min: 2, max: 2}
    replicas: {initial: 0, min: 0, max: 8}
    latency: {meanMs: 20, parallelism: 1}
  - name: cpu
    cluster: cpu
    accuracy: 76
    price: 0.05
    cores: {initial: 2, min: 2, max: 2}
    replicas: {initial: 1, min: 0, max: 8}
    readiness: 5s
    latency: {meanMs: 100, parallelism: 1}
  - name: gpu
    cluster: gpu
    accuracy: 76
    price: 1.5
    cores: {initial: 2, min: 2, max: 2}
    replicas: {initial: 0, min: 0, max: 2}
    resources: {nvidia.com/gpu: 1}
    readiness: 10s
    latency: {meanMs: 4, parallelism: 1}
load: {generator: poisson, rps: 5}
";

fn service() -> Service {
    let read = read_text(SERVICE, Path::new(""), Overrides::default());
    read.unwrap().0.service
}

/// Runs `act` on the state in which these replicas of each variant are ready and wanted.
fn with_state<R>(
    service: &Service,
    (ready, target): ([u32; 3], [u32; 3]),
    act: impl FnOnce(&State<'_>) -> R,
) -> R {
    let units: Vec<Unit> = service.variants.iter().map(Unit::of).collect();
    let cores = |replicas: [u32; 3]| replicas.map(|n| Cores::whole(2).times(n));
    let (confirmed, target) = (cores(ready), cores(target));
    act(&State {
        now: Duration::ZERO,
        service,
        units: &units,
        confirmed: &confirmed,
        target: &target,
        changing: false,
    })
}

fn group(hardware: Hardware, replicas: u32, load_rps: f64) -> Group {
    Group {
        hardware,
        replicas,
        load_rps,
        sustains_rps: 10.0,
        loading_ms: 1000.0,
    }
}

/// `checkModvar` with inf_lat 100 ms and batch 1, so single_throughput is 10: w_reqs − w_curr·(1 − cpuHueristic) on CPUs,
/// w_reqs − w_curr + loadHeuristic·w_curr·load_lat on others, divided by 10 and rounded up.
#[test]
fn group_grows_by_what_the_program_computes() {
    for (hardware, replicas, load_rps, expected) in [
        (Hardware::Cpu, 2, 19.0, 2),
        // 19.1 − 19 = 0.1: one more.
        (Hardware::Cpu, 2, 19.1, 3),
        // 45 − 19 = 26: three more.
        (Hardware::Cpu, 2, 45.0, 5),
        // 16 − 20 + 0.0002·20·1000 = 0.
        (Hardware::Gpu, 2, 16.0, 2),
        (Hardware::Gpu, 2, 17.0, 3),
        (Hardware::Accelerator, 2, 17.0, 3),
    ] {
        let group = group(hardware, replicas, load_rps);
        assert_eq!(group.desired(&mut 0), expected, "{group:?}");
    }
}

/// The daemons: no removal while `curr_backups <= scale_down_delay`; `fetch_add` at each request, `store(0)` only at a
/// change.
#[test]
fn group_shrinks_by_one_after_more_requests_than_the_delay() {
    for (hardware, delay) in [
        (Hardware::Cpu, 10),
        (Hardware::Gpu, 20),
        (Hardware::Accelerator, 15),
    ] {
        let mut requests = 0;
        let (low, busy) = (group(hardware, 2, 10.0), group(hardware, 2, 12.0));
        for _ in 0..delay {
            assert_eq!(low.desired(&mut requests), 2);
        }
        assert_eq!(busy.desired(&mut requests), 2, "it is forgotten by none");
        assert_eq!(low.desired(&mut requests), 1, "{hardware:?}");
        assert_eq!(requests, 0);
    }
    let mut requests = 0;
    let last = group(Hardware::Cpu, 1, 0.0);
    assert!((0..100).all(|_| last.desired(&mut requests) == 1));
}

#[test]
fn load_divides_by_capacity_and_groups_that_load_are_left() {
    let service = service();
    let desired = |ready, target, load_rps| {
        with_state(&service, (ready, target), |state| {
            sm_plus(state, &mut Removals::new(), load_rps)
        })
    };
    // 20/s on the CPUs of 270/s in all; 250/s on the GPU, whose reserve of 0.0002 · 10 000 ms is all of it and more.
    assert_eq!(
        desired([0, 2, 1], [0, 2, 1], 270.0),
        [None, Some(3), Some(3)]
    );
    assert_eq!(desired([0, 2, 0], [0, 3, 0], 270.0), [None, None, None]);
}

/// Worked example, with costs of 0.1 and 3 and λ = 0.01: 15/0.95 = 15.8 takes one more CPU (0.105); 250/0.95 = 263 is 27 CPUs
/// of 2 cores, which do not fit, or two GPUs.
#[test]
fn heuristic_replicates_upgrades_and_downgrades() {
    let service = service();
    let decide = |heuristic: &mut Heuristic, ready: [u32; 3], load_rps| {
        with_state(&service, (ready, ready), |state| {
            heuristic.decide(state, load_rps)
        })
    };
    let replicas = |each: [u32; 3]| Some(each.map(Some).to_vec());
    let mut heuristic = Heuristic::default();
    let replicated = decide(&mut heuristic, [0, 1, 0], 15.0);
    assert_eq!(replicated, replicas([0, 2, 0]));
    let mut heuristic = Heuristic::default();
    let begun = decide(&mut heuristic, [0, 1, 0], 250.0);
    assert_eq!(
        begun,
        replicas([0, 1, 2]),
        "the CPU serves until they are ready"
    );
    let loading = with_state(&service, ([0, 1, 0], [0, 1, 2]), |state| {
        heuristic.decide(state, 250.0)
    });
    assert_eq!(loading, None);
    let ended = decide(&mut heuristic, [0, 1, 2], 250.0);
    assert_eq!(ended, replicas([0, 0, 2]));
    // Two CPUs carry 15/s; a GPU's delay is 20 s of low load in a row.
    let mut heuristic = Heuristic::default();
    for second in 1..20 {
        let kept = decide(&mut heuristic, [0, 0, 1], 15.0);
        assert_eq!(kept, replicas([0, 0, 1]), "{second}");
    }
    let begun = decide(&mut heuristic, [0, 0, 1], 15.0);
    assert_eq!(begun, replicas([0, 2, 1]));
    let ended = decide(&mut heuristic, [0, 2, 1], 15.0);
    assert_eq!(ended, replicas([0, 2, 0]));
}
