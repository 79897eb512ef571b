//! Variants with several replicas: load balancing, starts, drains and crashes. In simulated time; no test depends on
//! wall-clock time.

use std::time::Duration;

use weir_replay::request::{Fate, Request};
use weir_replay::scenario::{LoadBalancing, Scenario};

use super::scenarios::{PLANNER, STATIC, latency, one_core, played_twice, scenario, variant};

/// A service of one variant with that many replicas at first, load and faults. An execution takes 50 ms.
pub(super) fn replicas(
    initial: u32,
    load: &str,
    contender: &str,
    faults: &str,
) -> (Scenario, Vec<Request>) {
    let (replicas, latency) = (one_core(initial, 12), latency(50.0, 0.0, "1"));
    let variant = variant("a", 70.0, &format!("{replicas}, {latency}, readiness: 3s"));
    scenario(&format!(
        "name: replicas
seed: 3
length_s: 60
service:
  service: demo
  policy: infaas
  slo: 400ms
  mode: active
  budget: {{ cores: 12 }}
  demand: {{ window: 10s }}
  resize: {{ scaleDownStabilization: 5s }}
  variants: [{variant}]
servers:
  a: {{ resize_delay_ms: 400, round_trip_ms: 2 }}
load: {{ {load} }}
contenders: [{contender}]
faults: [{faults}]
"
    ))
}

#[test]
fn one_replica_of_several_possible_ones_plays_like_one_server() {
    for load in ["generator: poisson, rps: 15", "generator: poisson, rps: 30"] {
        let (mut scenario, requests) = replicas(1, load, STATIC, "");
        assert_eq!(scenario.variants[0].replicas, Some(1));
        let (several, _) = played_twice(&scenario, &requests);
        scenario.variants[0].replicas = None;
        let (single, _) = played_twice(&scenario, &requests);
        assert_eq!(several, single, "{load}");
    }
}

#[test]
fn replicas_serve_nearly_as_many_as_one_server_with_all_their_lanes() {
    // 4 × 20/s, as four replicas and as one server with four executions at once on four cores.
    for load in [50, 72, 100] {
        let load = format!("generator: poisson, rps: {load}");
        let (mut scenario, requests) = replicas(4, &load, STATIC, "");
        let (_, full) = played_twice(&scenario, &requests);
        scenario.proxies.load_balancing = LoadBalancing::LeastRequest;
        let (_, least) = played_twice(&scenario, &requests);
        scenario.proxies.load_balancing = LoadBalancing::RoundRobin;
        let (_, round) = played_twice(&scenario, &requests);
        scenario.variants[0].replicas = None;
        scenario.variants[0].cores = 4.0;
        scenario.variants[0].parallelism = weir_sim::server::Parallelism::PerCore;
        let (_, one) = played_twice(&scenario, &requests);
        println!(
            "{load}: {} full scan, {} least request, {} round robin, {} one server",
            full.on_time_percent, least.on_time_percent, round.on_time_percent, one.on_time_percent
        );
        assert!(full.on_time_percent >= one.on_time_percent - 3.0, "{load}");
        assert!(full.on_time_percent >= least.on_time_percent, "{load}");
        assert!(one.on_time_percent >= least.on_time_percent, "{load}");
        // The better one of two is often busy while another idles, and nothing is sent ahead.
        assert!(
            least.on_time_percent >= one.on_time_percent - 20.0,
            "{load}"
        );
        assert!(
            round.on_time_percent >= one.on_time_percent - 15.0,
            "{load}"
        );
    }
}

#[test]
fn planner_starts_and_drains_replicas_within_the_budget_and_loses_no_request() {
    for (load, high) in [
        ("generator: step, low_rps: 10, high_rps: 90, at_s: 20", true),
        ("generator: step, low_rps: 90, high_rps: 5, at_s: 20", false),
    ] {
        let (scenario, requests) = replicas(if high { 2 } else { 8 }, load, PLANNER, "");
        let (play, summary) = played_twice(&scenario, &requests);
        let cores: Vec<f64> = play.resizes.iter().map(|resize| resize.cores).collect();
        let most = cores.iter().copied().fold(0.0, f64::max);
        let fewest = cores.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{load}: {most} to {fewest} cores, {} % on time",
            summary.on_time_percent
        );
        assert!(most <= 12.0, "{most} cores");
        match high {
            true => assert!(most >= 6.0, "{most} cores"),
            false => assert!(fewest <= 4.0, "{fewest} cores"),
        }
        // No execution is cut off, and no request is sent to a replica that has ended.
        assert_eq!(summary.refused.get("no-backend"), None, "{load}");
        assert_eq!((summary.lost, summary.late), (0, 0), "{load}");
        if high {
            let rise = Duration::from_secs(20);
            let mut grown = play.resizes.windows(2).filter(|pair| pair[1].at > rise);
            let first = grown.find(|pair| pair[1].cores > pair[0].cores).unwrap();
            assert_eq!(
                first[1].slots, first[0].slots,
                "those that load do not execute"
            );
        }
    }
}

#[test]
fn crashed_replica_takes_only_its_own_requests_and_comes_back() {
    let load = "generator: poisson, rps: 40";
    let crash = "{ at_s: 20, what: server-crash, variant: a, replica: 1, lasts_s: 5 }";
    let (scenario, requests) = replicas(4, load, STATIC, crash);
    let (play, summary) = played_twice(&scenario, &requests);
    assert!(play.resizes.is_empty(), "its cores stay");
    let broken: Vec<Duration> = play
        .outcomes
        .iter()
        .filter(|outcome| outcome.fate == Fate::Refused("no-backend"))
        .map(|outcome| outcome.ended)
        .collect();
    // For a second proxies do not know of it: a quarter of 40 requests, or fewer, as failing is quick.
    assert!(!broken.is_empty() && broken.len() < 60, "{}", broken.len());
    let (from, to) = (Duration::from_secs(20), Duration::from_millis(21_100));
    assert!(
        broken.iter().all(|at| (from..to).contains(at)),
        "{broken:?}"
    );
    assert!(summary.on_time_percent > 95.0, "{summary:?}");
    // Without it the others do not suffice for 70/s. It serves again after 5 s and another 3 of loading.
    let (scenario, requests) = replicas(4, "generator: poisson, rps: 70", STATIC, crash);
    let (play, _) = played_twice(&scenario, &requests);
    let refused = |from_s: u64, to_s: u64| {
        let within = Duration::from_secs(from_s)..Duration::from_secs(to_s);
        let refused = play.outcomes.iter().filter(|outcome| {
            outcome.fate == Fate::Refused("infeasible") && within.contains(&outcome.ended)
        });
        refused.count()
    };
    let counts = [refused(12, 19), refused(21, 28), refused(29, 36)];
    println!("{counts:?} infeasible before, without and after");
    assert!(counts[1] > 3 * counts[0].max(counts[2]), "{counts:?}");
    let all = "{ at_s: 20, what: server-crash, variant: a, lasts_s: 5 }";
    let (scenario, requests) = replicas(4, load, STATIC, all);
    let (_, none) = played_twice(&scenario, &requests);
    assert!(none.on_time_percent < 90.0, "{none:?}");
}

#[test]
fn planner_starts_a_replica_for_one_that_stays_down() {
    let load = "generator: poisson, rps: 60";
    let crash = "{ at_s: 20, what: server-crash, variant: a, replica: random, lasts_s: 60 }";
    let (scenario, requests) = replicas(4, load, PLANNER, crash);
    let (play, planned) = played_twice(&scenario, &requests);
    let most = play.resizes.iter().map(|resize| resize.cores);
    let most = most.fold(0.0, f64::max);
    let (scenario, _) = replicas(4, load, STATIC, crash);
    let (_, fixed) = played_twice(&scenario, &requests);
    println!(
        "up to {most} cores, {} %; fixed {} %",
        planned.on_time_percent, fixed.on_time_percent
    );
    assert!(most > 4.0, "{most} cores");
    assert!(planned.on_time > fixed.on_time);
}
