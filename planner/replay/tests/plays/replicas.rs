//! Variants with several replicas: load balancing, starts, drains and crashes. In simulated time; no test depends on
//! wall-clock time.

use std::fs;
use std::time::Duration;

use weir_replay::input::requests;
use weir_replay::report::Summary;
use weir_replay::request::{Fate, Play, Request};
use weir_replay::scenario::{LoadBalancing, Overrides, Scenario, read};
use weir_replay::simulation::play;

const WEIR: &str = "{ plane: weir, control: static }";
const PLANNED: &str = "{ plane: weir, control: planner }";

/// Reads a scenario.
pub(crate) fn scenario(text: &str) -> (Scenario, Vec<Request>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.yaml");
    fs::write(&path, text).unwrap();
    let (scenario, sending) = read(&path, Overrides::default()).unwrap();
    let requests = requests(scenario.seed, &sending);
    (scenario, requests)
}

/// A service of one variant with those cores of each replica, replicas, executions at once, load and faults. An
/// execution takes 50 ms on one core.
fn text(shape: &str, parallelism: u32, load: &str, rest: &str) -> String {
    format!(
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
  variants:
    - name: a
      cluster: a
      accuracy: 70
      {shape}
      latency: {{ gammaMs: 50, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: {parallelism}, tail: 1.26 }}
      readiness: 3s
servers:
  a: {{ resize_delay_ms: 400, round_trip_ms: 2 }}
load: {{ {load} }}
{rest}
"
    )
}

pub(super) fn replicas(
    initial: u32,
    load: &str,
    contender: &str,
    faults: &str,
) -> (Scenario, Vec<Request>) {
    let shape = format!(
        "cores: {{ initial: 1, min: 1, max: 1 }}\n      replicas: {{ initial: {initial}, min: 0, max: 12 }}"
    );
    let rest = format!("contenders: [{contender}]\nfaults: [{faults}]");
    scenario(&text(&shape, 1, load, &rest))
}

/// Plays the first contender twice: both plays are equal, and each request ends once.
pub(super) fn played(scenario: &Scenario, requests: &[Request]) -> (Play, Summary) {
    let contender = scenario.contenders[0];
    let played = play(scenario, requests, contender, scenario.seed).unwrap();
    let again = play(scenario, requests, contender, scenario.seed).unwrap();
    assert_eq!(played, again, "the same seed, the same play");
    let summary = Summary::of(scenario, requests, &played, None).unwrap();
    let ended = summary.on_time
        + summary.late
        + summary.too_inaccurate
        + summary.refused_total()
        + summary.disconnected
        + summary.lost;
    assert_eq!(ended, summary.sent, "each request ends once");
    (played, summary)
}

#[test]
fn one_replica_of_several_possible_ones_plays_like_one_server() {
    for load in ["generator: poisson, rps: 15", "generator: poisson, rps: 30"] {
        let (mut scenario, requests) = replicas(1, load, WEIR, "");
        assert_eq!(scenario.variants[0].replicas, Some(1));
        let (several, _) = played(&scenario, &requests);
        scenario.variants[0].replicas = None;
        let (single, _) = played(&scenario, &requests);
        assert_eq!(several, single, "{load}");
    }
}

#[test]
fn replicas_serve_nearly_as_many_as_one_server_with_all_their_lanes() {
    // 4 × 20/s, as four replicas and as one server with four executions at once on four cores.
    for load in [50, 72, 100] {
        let load = format!("generator: poisson, rps: {load}");
        let (mut scenario, requests) = replicas(4, &load, WEIR, "");
        let (_, full) = played(&scenario, &requests);
        scenario.proxies.load_balancing = LoadBalancing::LeastRequest;
        let (_, least) = played(&scenario, &requests);
        scenario.proxies.load_balancing = LoadBalancing::RoundRobin;
        let (_, round) = played(&scenario, &requests);
        scenario.variants[0].replicas = None;
        scenario.variants[0].cores = 4.0;
        scenario.variants[0].parallelism = weir_sim::server::Parallelism::PerCore;
        let (_, one) = played(&scenario, &requests);
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
        let (scenario, requests) = replicas(if high { 2 } else { 8 }, load, PLANNED, "");
        let (play, summary) = played(&scenario, &requests);
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
    let (scenario, requests) = replicas(4, load, WEIR, crash);
    let (play, summary) = played(&scenario, &requests);
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
    let (scenario, requests) = replicas(4, "generator: poisson, rps: 70", WEIR, crash);
    let (play, _) = played(&scenario, &requests);
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
    let (scenario, requests) = replicas(4, load, WEIR, all);
    let (_, none) = played(&scenario, &requests);
    assert!(none.on_time_percent < 90.0, "{none:?}");
}

#[test]
fn planner_starts_a_replica_for_one_that_stays_down() {
    let load = "generator: poisson, rps: 60";
    let crash = "{ at_s: 20, what: server-crash, variant: a, replica: random, lasts_s: 60 }";
    let (scenario, requests) = replicas(4, load, PLANNED, crash);
    let (play, planned) = played(&scenario, &requests);
    let most = play.resizes.iter().map(|resize| resize.cores);
    let most = most.fold(0.0, f64::max);
    let (scenario, _) = replicas(4, load, WEIR, crash);
    let (_, fixed) = played(&scenario, &requests);
    println!(
        "up to {most} cores, {} %; fixed {} %",
        planned.on_time_percent, fixed.on_time_percent
    );
    assert!(most > 4.0, "{most} cores");
    assert!(planned.on_time > fixed.on_time);
}
