//! The lower bound on core-seconds: no contender beats it, and it is the same whoever plays beside one. In simulated
//! time; no test depends on wall-clock time.

use proptest::prelude::*;
use weir_replay::report::yardsticks;
use weir_replay::request::Request;
use weir_replay::scenario::Scenario;
use weir_replay::simulation::play;

use super::scenarios::scenario;

/// Core-seconds of the contender with that index, and their bound.
fn compare(scenario: &Scenario, requests: &[Request], index: usize) -> (String, f64, f64) {
    let contender = scenario.contenders[index];
    let play = play(scenario, requests, contender, scenario.seed).unwrap();
    let (name, used) = (play.contender.clone(), play.core_seconds);
    let bounds = yardsticks(scenario, requests, &[play]);
    (name, used, bounds[0].1.as_ref().unwrap().core_seconds)
}

/// A variant of a random scenario: core-ms and fixed ms of a request, executions at once (0: one a core), batch,
/// initial cores, and resize delay and round trip in ms.
pub(crate) type Sizes = (u32, u32, u32, u32, u32, u32, u32);

pub(crate) fn sizes() -> impl Strategy<Value = Sizes> {
    let times = (10u32..60, 0u32..40, 0u32..3, 1u32..5);
    let rest = (1u32..4, 0u32..3000, 0u32..30);
    (times, rest).prop_map(|((gamma, eta, at_once, batch), (cores, delay, far))| {
        (gamma, eta, at_once, batch, cores, delay, far)
    })
}

pub(crate) fn text(seed: u64, slo: u32, rps: u32, variants: &[Sizes]) -> String {
    let (mut known, mut servers) = (String::new(), String::new());
    for (index, (gamma, eta, at_once, batch, cores, delay, far)) in variants.iter().enumerate() {
        let accuracy = 70 + 10 * index;
        let at_once = match at_once {
            0 => "per-core".to_owned(),
            fixed => fixed.to_string(),
        };
        known += &format!(
            "    - {{ name: v{index}, cluster: v{index}, accuracy: {accuracy}, batch: {batch}, \
             cores: {{ initial: {cores} }}, capacity: {{ slopeRps: 20, interceptRps: 0 }}, \
             latency: {{ gammaMs: {gamma}, etaMs: {eta}, parallelism: {at_once} }} }}\n"
        );
        servers += &format!(
            "  v{index}: {{ noise_sigma: 0, resize_delay_ms: {delay}, round_trip_ms: {far} }}\n"
        );
    }
    format!(
        "name: core-seconds
seed: {seed}
length_s: 4
service:
  service: demo
  slo: {slo}ms
  mode: active
  budget: {{ cores: 9 }}
  variants:
{known}servers:
{servers}load: {{ generator: poisson, rps: {rps} }}
contenders:
  - {{ plane: weir, control: static }}
  - {{ plane: edf-without-feasibility, control: static }}
  - {{ plane: fifo-round-robin, control: static }}
  - {{ plane: fifo-timeout, control: static }}
  - {{ plane: weir, control: static, variant: v0, cores: 1 }}
  - {{ plane: weir, control: static, variant: v0, cores: 5 }}
  - {{ plane: weir, control: hpa }}
  - {{ plane: weir, control: vpa }}
"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_contender_has_fewer_core_seconds_than_the_bound(
        seed in 0u64..1000, slo in 200u32..2000, rps in 5u32..300, variants in prop::collection::vec(sizes(), 1..3),
    ) {
        let (scenario, requests) = scenario(&text(seed, slo, rps, &variants));
        for index in 0..scenario.contenders.len() {
            let (name, used, min) = compare(&scenario, &requests, index);
            prop_assert!(min <= used, "{}: at least {} of {}", name, min, used);
        }
    }
}

/// Twice the load that 4 cores carry: they are busy from the start to the end, and beyond.
#[test]
fn work_after_the_end_of_the_load_is_not_counted() {
    let (scenario, requests) = scenario(&text(1, 1000, 160, &[(50, 0, 1, 1, 4, 0, 0)]));
    let (_, used, min) = compare(&scenario, &requests, 0);
    assert_eq!(used, 16.0);
    assert!((11.0..=16.0).contains(&min), "{min}");
}

/// Replicas, pods of HPA and VPA and the planner's cores all come in whole steps.
#[test]
fn bound_of_a_contender_is_the_same_whoever_plays_beside_it() {
    let (mut scenario, requests) = scenario(&text(3, 400, 60, &[(0, 30, 0, 1, 3, 0, 0)]));
    let (name, _, beside_all) = compare(&scenario, &requests, 0);
    scenario.contenders.truncate(1);
    let (_, _, alone) = compare(&scenario, &requests, 0);
    assert_eq!(beside_all, alone, "{name}");
    assert!(
        alone > 4.0,
        "{alone}: each of about 220 takes a core for 30 ms"
    );
}

/// One core that is the only one counts, not the three that the scenario begins with.
#[test]
fn bound_counts_the_initial_cores_of_the_contender() {
    let (scenario, requests) = scenario(&text(4, 300, 10, &[(20, 0, 1, 1, 3, 3000, 0)]));
    let (name, used, min) = compare(&scenario, &requests, 4);
    assert_eq!((name.as_str(), used), ("weir+static-1", 4.0));
    assert!((3.0..4.0).contains(&min), "{min}");
}
