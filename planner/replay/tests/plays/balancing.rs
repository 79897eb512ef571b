//! The choice among a variant's replicas, and what the planner learns from it: where each request goes to a free replica,
//! measured times are the profile's. In simulated time; no test depends on wall-clock time.

use weir_planner::telemetry::status::ServiceTimeReport;
use weir_replay::report::Summary;
use weir_replay::request::Play;
use weir_replay::scenario::LoadBalancing;

use super::scenarios::{self, latency, one_core, scenario, variant};

/// Seconds until the first replicas are warm and measured.
const MEASURED_FROM_S: usize = 60;

/// A variant whose replicas execute one request at a time, for 100 ms, and a policy that starts and ends them.
fn played(balancing: LoadBalancing, correct: bool, rps: u32) -> (Play, Summary) {
    let (replicas, latency) = (one_core(8, 40), latency(98.0, 2.0, "1"));
    let variant = variant("a", 70.0, &format!("{replicas}, {latency}, readiness: 5s"));
    let text = format!(
        "name: balancing
seed: 2
length_s: 180
service:
  service: demo
  policy: infaas
  slo: 1s
  mode: active
  budget: {{ cores: 40 }}
  serviceTimes: {{ correct: {correct} }}
  variants: [{variant}]
servers:
  a: {{ resize_delay_ms: 600, round_trip_ms: 2 }}
load: {{ generator: poisson, rps: {rps} }}
contenders: [{{ plane: weir, control: planner }}]
"
    );
    let (mut scenario, requests) = scenario(&text);
    scenario.proxies.load_balancing = balancing;
    scenarios::played(&scenario, &requests)
}

/// Service times of the variant once they are measured.
fn service_times(play: &Play) -> impl Iterator<Item = ServiceTimeReport> {
    let seconds = play.seconds.iter().skip(MEASURED_FROM_S);
    seconds.filter_map(|second| second.service_times.first().copied())
}

/// Mean of the measured times, as multiples of the profile's.
fn mean_ratio(play: &Play) -> f64 {
    let ratios: Vec<f64> = service_times(play)
        .filter_map(|times| times.measured_ratio)
        .collect();
    assert!(ratios.len() > 60, "{} seconds measured", ratios.len());
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

#[test]
fn replicas_are_measured_with_the_times_of_their_profile() {
    for rps in [30, 60, 120] {
        let (play, summary) = played(LoadBalancing::FullScan, true, rps);
        let ratio = mean_ratio(&play);
        let (uncorrected, without) = played(LoadBalancing::FullScan, false, rps);
        println!(
            "{rps}/s: {ratio:.3} × profile, {:.0} core-seconds, {:.2} % on time; uncorrected {:.0}, {:.2} %",
            play.core_seconds,
            summary.on_time_percent,
            uncorrected.core_seconds,
            without.on_time_percent
        );
        assert!((0.97..1.05).contains(&ratio), "{rps}/s: {ratio} × profile");
        for times in service_times(&play) {
            assert_eq!(times.correction, 1.0, "{rps}/s: {times:?}");
            assert!(!times.state.is_slow(), "{rps}/s: {times:?}");
        }
        assert_eq!(play.core_seconds, uncorrected.core_seconds, "{rps}/s");
    }
}

/// With Envoy's default, two replicas at random, requests wait at busy ones while others idle, and the replicas really
/// carry less.
#[test]
fn two_random_choices_take_longer_and_cost_cores() {
    let (full, _) = played(LoadBalancing::FullScan, true, 120);
    let (two, _) = played(LoadBalancing::LeastRequest, true, 120);
    let (all, random) = (mean_ratio(&full), mean_ratio(&two));
    println!(
        "{all:.3} and {random:.3} × profile, {:.0} and {:.0} core-seconds",
        full.core_seconds, two.core_seconds
    );
    assert!(random > 1.1, "{random}");
    assert!(two.core_seconds > 1.05 * full.core_seconds);
}
