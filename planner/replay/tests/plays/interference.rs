//! A variant whose servers are slowed down for a while, as by a neighbour on their machine: it is found, planned for,
//! and normal again after. In simulated time; no test depends on wall-clock time.

use weir_planner::service::VariantState;
use weir_planner::telemetry::status::ServiceTimeReport;
use weir_replay::report::Summary;
use weir_replay::request::{Play, Second};

use super::scenarios::{latency, played_text, variant};

/// Length, and start and end of the interference, in seconds.
const LENGTH_S: usize = 240;
const SLOW_FROM_S: usize = 60;
const SLOW_UNTIL_S: usize = 150;
/// Time within which interference is found or known to be over: half a window of 15 s, the dwell time of 10 s, and the
/// cycles on the way.
const FOUND_WITHIN_S: usize = 25;
/// Time after the interference within which the cores taken for it are given back.
const GIVEN_BACK_WITHIN_S: usize = 60;

/// Cores that may stay although fewer would do: what they gain in accuracy is within the objective's tolerance.
const KEPT_CORES: f64 = 2.0;
/// Time within which the cores of a variant that answers nothing are moved: 10 s, and the silences and cycles before.
const MOVED_WITHIN_S: usize = 20;
/// Time within which a variant is found whose executions are all cut off. The filter sends it few requests.
const CUT_OFF_FOUND_WITHIN_S: usize = 40;

/// Service objective, and time of b's executions while it is slowed down, in percent.
#[derive(Debug, Clone, Copy)]
struct Case {
    slo: &'static str,
    percent: u32,
}

const TWICE: Case = Case {
    slo: "1s",
    percent: 200,
};
/// 820 ms for each execution: all of them are cut off.
const BEYOND_DEADLINE: Case = Case {
    slo: "500ms",
    percent: 1000,
};

/// Variants a and b, of which b is slowed down.
fn played(case: Case, policy: &str, correct: bool, rps: u32, seed: u64) -> (Play, Summary) {
    let Case { slo, percent } = case;
    let (cores, policy, parallelism) = match policy {
        "infaas" => (
            "initial: 4, min: 0",
            "policy: infaas\n  infaas: { accuracyMin: 75 }",
            "per-core",
        ),
        "sponge" => ("initial: 4, min: 1", "policy: sponge", "1"),
        _ => ("initial: 4", "policy: infadapter", "per-core"),
    };
    let variant = |name: &str, accuracy: f64, slope: f64, gamma_ms: f64| {
        let latency = latency(gamma_ms, 2.0, parallelism);
        let capacity = format!("capacity: {{ slopeRps: {slope}, interceptRps: -2 }}");
        variant(
            name,
            accuracy,
            &format!("cores: {{ {cores} }}, {capacity}, {latency}"),
        )
    };
    let mut variants = variant("b", 76.0, 12.0, 80.0);
    let mut servers = String::new();
    if policy != "policy: sponge" {
        variants = format!("{}, {variants}", variant("a", 70.0, 24.0, 40.0));
        servers += "  a: { resize_delay_ms: 300, round_trip_ms: 1 }\n";
    }
    let lasts_s = SLOW_UNTIL_S - SLOW_FROM_S;
    let text = format!(
        "name: interference
seed: {seed}
length_s: {LENGTH_S}
service:
  service: demo
  slo: {slo}
  mode: active
  {policy}
  budget: {{ cores: 16 }}
  serviceTimes: {{ correct: {correct} }}
  variants: [{variants}]
servers:
{servers}  b: {{ resize_delay_ms: 300, round_trip_ms: 1 }}
load: {{ generator: poisson, rps: {rps} }}
faults:
  - {{ at_s: {SLOW_FROM_S}, what: server-slow, variant: b, percent: {percent}, lasts_s: {lasts_s} }}
contenders:
  - {{ plane: weir, control: planner }}
"
    );
    played_text(&text)
}

/// Service time of b, the last variant.
fn of_b(second: &Second) -> ServiceTimeReport {
    second.service_times.last().copied().unwrap_or_default()
}

/// Mean target of all variants' cores.
fn cores(seconds: &[Second]) -> f64 {
    let all = seconds.iter().flat_map(|second| &second.cores_target);
    all.sum::<f64>() / seconds.len() as f64
}

#[test]
fn interfered_variant_is_found_planned_for_and_normal_again() {
    for (policy, rps) in [("infadapter", 90), ("infaas", 60), ("sponge", 30)] {
        for seed in 1..=2 {
            let (corrected, summary) = played(TWICE, policy, true, rps, seed);
            let (plain, without) = played(TWICE, policy, false, rps, seed);
            let states: Vec<VariantState> = corrected
                .seconds
                .iter()
                .map(|second| of_b(second).state)
                .collect();
            let (before, rest) = states.split_at(SLOW_FROM_S);
            assert!(before.iter().all(|state| *state == VariantState::Normal));
            let found = rest.iter().position(|state| state.is_slow());
            let found = found.unwrap_or(LENGTH_S);
            let slow = &corrected.seconds[SLOW_FROM_S + found];
            let normal = states[SLOW_UNTIL_S..]
                .iter()
                .position(|state| !state.is_slow());
            let normal = normal.unwrap_or(LENGTH_S);
            println!(
                "{policy}, seed {seed}: found after {found} s, normal after {normal} s, {} % on time, {} % without; \
                 {:.0} and {:.0} core-seconds",
                summary.on_time_percent,
                without.on_time_percent,
                corrected.core_seconds,
                plain.core_seconds,
            );
            assert!(
                found <= FOUND_WITHIN_S && normal <= FOUND_WITHIN_S,
                "{found} {normal}"
            );
            let correction = of_b(slow).correction;
            assert!((1.8..=2.2).contains(&correction), "{correction}");
            assert_eq!(of_b(corrected.seconds.last().unwrap()).correction, 1.0);
            // What was learnt at the cores of the interference costs no cores after it.
            let before = cores(&corrected.seconds[SLOW_FROM_S / 2..SLOW_FROM_S]);
            let after = cores(&corrected.seconds[SLOW_UNTIL_S + GIVEN_BACK_WITHIN_S..]);
            println!("{before:.1} cores before, {after:.1} after");
            assert!(
                after <= before + KEPT_CORES,
                "{after} cores, {before} before"
            );
            assert!(
                plain
                    .seconds
                    .iter()
                    .all(|second| of_b(second).correction == 1.0)
            );
            assert!(summary.on_time_percent >= without.on_time_percent);
        }
    }
}

/// Executions that were cut off say that b takes at least as long, which is planned with: with more cores some end in time.
#[test]
fn only_variant_whose_executions_are_all_cut_off_is_planned_with_the_time_seen() {
    for seed in 1..=2 {
        let (corrected, summary) = played(BEYOND_DEADLINE, "sponge", true, 30, seed);
        let (_, without) = played(BEYOND_DEADLINE, "sponge", false, 30, seed);
        let seconds = &corrected.seconds;
        let slow = &seconds[SLOW_FROM_S..SLOW_UNTIL_S];
        let found = slow.iter().position(|second| of_b(second).correction > 1.0);
        let largest = slow.iter().map(|second| of_b(second).correction);
        let largest = largest.fold(1.0, f64::max);
        let cut_off = slow.iter().map(|second| of_b(second).cut_off).max();
        println!(
            "seed {seed}: found after {found:?} s, planned with {largest}, {cut_off:?} cut off, {} % on time, {} % without",
            summary.on_time_percent, without.on_time_percent,
        );
        assert!(
            found.is_some_and(|found| found <= CUT_OFF_FOUND_WITHIN_S),
            "{found:?}"
        );
        assert!(largest >= 2.0, "{largest}");
        assert!(cut_off > Some(0));
        assert!(summary.on_time_percent >= without.on_time_percent + 10.0);
    }
}

/// Beside another variant, one whose executions are all cut off is silent: it is avoided at once, and its cores serve
/// elsewhere until it answers again.
#[test]
fn variant_whose_executions_are_all_cut_off_gives_its_cores_to_the_other() {
    for seed in 1..=2 {
        let (play, summary) = played(BEYOND_DEADLINE, "infadapter", true, 90, seed);
        let of_b = |second: &Second| second.cores_target.last().copied().unwrap_or_default();
        let before = of_b(&play.seconds[SLOW_FROM_S - 1]);
        let slow = &play.seconds[SLOW_FROM_S..SLOW_UNTIL_S];
        let moved = slow.iter().position(|second| of_b(second) == 1.0);
        let (_, after) = play.seconds.split_at(SLOW_UNTIL_S);
        let back = after.iter().position(|second| of_b(second) > 1.0);
        println!(
            "seed {seed}: {before} cores moved after {moved:?} s, back after {back:?} s, {} % on time",
            summary.on_time_percent
        );
        assert!(before > 1.0, "{before}");
        assert!(
            moved.is_some_and(|moved| moved <= MOVED_WITHIN_S),
            "{moved:?}"
        );
        assert!(
            back.is_some_and(|back| back <= GIVEN_BACK_WITHIN_S),
            "{back:?}"
        );
        assert!(
            summary.on_time_percent >= 96.0,
            "{}",
            summary.on_time_percent
        );
    }
}

/// A variant with one slot, whose executions take 4 ms and for a while 5.2 ms. In whole ms, of which two are none, its
/// times do not show that: the rate while its slot is taken does.
#[test]
fn small_variant_that_slows_down_is_corrected_by_its_rate_with_all_slots_taken() {
    for seed in 1..=2 {
        let text = format!(
            "name: small
seed: {seed}
length_s: {LENGTH_S}
service:
  service: demo
  slo: 100ms
  mode: active
  budget: {{ cores: 2 }}
  variants:
    - name: b
      cluster: b
      accuracy: 76
      cores: {{ initial: 1 }}
      latency: {{ gammaMs: 3, etaMs: 1, parallelism: 1 }}
servers:
  b: {{ resize_delay_ms: 300 }}
load: {{ generator: poisson, rps: 400 }}
faults:
  - {{ at_s: {SLOW_FROM_S}, what: server-slow, variant: b, percent: 130, lasts_s: {} }}
contenders:
  - {{ plane: weir, control: planner }}
",
            SLOW_UNTIL_S - SLOW_FROM_S
        );
        let (play, _) = played_text(&text);
        let corrections = |from, until| {
            let seconds = play.seconds.get(from..until).unwrap_or_default();
            let each = seconds.iter().map(|second| of_b(second).correction);
            each.collect::<Vec<f64>>()
        };
        assert!(corrections(0, SLOW_FROM_S).iter().all(|one| *one == 1.0));
        let slow = corrections(SLOW_FROM_S + FOUND_WITHIN_S, SLOW_UNTIL_S);
        assert!(slow.iter().all(|one| (1.2..=1.4).contains(one)), "{slow:?}");
        assert_eq!(corrections(LENGTH_S - 1, LENGTH_S), [1.0]);
    }
}

/// A variant that executes batches, exactly as its profile says, on a network that takes part of the objective.
const BATCHES: &str = "name: batches
length_s: 300
service:
  service: demo
  slo: 1s
  mode: active
  policy: sponge
  budget: { cores: 16 }
  variants:
    - name: detector
      cluster: detector
      accuracy: 100
      cores: { initial: 8 }
      batch: 16
      latency: { gammaMs: 35.9, epsilonMs: 5.5, deltaMs: 0.9, etaMs: 15.1, parallelism: 1 }
servers:
  detector: { resize_delay_ms: 100 }
load: { generator: poisson, rps: 20 }
network: 4g
payload_bytes: 200000
proxies: { workers: 2 }
contenders:
  - { plane: weir, control: planner }
";

/// Two workers send parts of a batch that the server executes as one: these look like small batches that take long. A
/// request may also wait at the server for another batch, so that single measurements are longer than the profile's.
#[test]
fn batches_that_take_the_time_of_the_profile_are_normal() {
    for seed in 1..=3 {
        let (play, _) = played_text(&format!("seed: {seed}\n{BATCHES}"));
        let mut corrections = 0.0;
        for (second, report) in play.seconds.iter().map(of_b).enumerate() {
            assert!(!report.state.is_slow(), "second {second}: {report:?}");
            corrections += report.correction;
        }
        let mean = corrections / play.seconds.len() as f64;
        assert!(mean < 1.1, "seed {seed}: {mean}");
    }
}
