//! The bounds on cost, accuracy and objective: no contender beats them. In simulated time; no test depends on wall-clock
//! time.

use proptest::prelude::*;
use weir_replay::bound::{Weights, max_objective, min_cost};
use weir_replay::report::{Summary, mean_cost};
use weir_replay::request::{Play, Request};
use weir_replay::scenario::Scenario;
use weir_replay::simulation::play;

use super::core_seconds::{sizes, text};
use super::scenarios::scenario;

/// Play and summary of each contender.
fn all(scenario: &Scenario, requests: &[Request]) -> Vec<(Play, Summary)> {
    let each = scenario.contenders.iter().map(|contender| {
        let play = play(scenario, requests, *contender, scenario.seed).unwrap();
        let summary = Summary::of(scenario, requests, &play, None).unwrap();
        (play, summary)
    });
    each.collect()
}

/// Checks a contender's objective and accuracy against the bounds for as many on time.
fn check_objective(scenario: &Scenario, requests: &[Request], (play, summary): &(Play, Summary)) {
    let Some(accuracy) = summary.mean_accuracy else {
        return;
    };
    let cores = summary.core_seconds / scenario.length.as_secs_f64();
    let weights = Weights::of(&scenario.service).unwrap();
    for weights in [weights, Weights::ACCURACY] {
        let value = weights.value(accuracy, cores);
        let best = max_objective(scenario, requests, play, summary.on_time, weights).unwrap();
        // Accuracy and cores are rounded to a thousandth.
        let rounding = 0.001 * (weights.accuracy + weights.core);
        assert!(
            value <= best + rounding,
            "{}: {value} above {best}",
            summary.contender
        );
    }
}

fn check_cost(scenario: &Scenario, requests: &[Request], (play, summary): &(Play, Summary)) {
    let paid = mean_cost(scenario, play) * scenario.length.as_secs_f64();
    let min = min_cost(scenario, requests, play, summary.on_time).unwrap();
    assert!(
        min <= paid,
        "{}: {min} above the {paid} paid",
        summary.contender
    );
}

/// Hardware of a random scenario: price of a core in thousandths, cores of a replica, ms of a request and of each
/// further one in a batch, batch, initial replicas.
type Hardware = (u32, u32, u32, u32, u32, u32);

fn hardware() -> impl Strategy<Value = Hardware> {
    (1u32..500, 1u32..5, 5u32..60, 0u32..30, 1u32..5, 0u32..4)
}

fn priced(seed: u64, slo: u32, rps: u32, delay: u32, variants: &[Hardware]) -> String {
    let (mut known, mut servers) = (String::new(), String::new());
    for (index, (price, cores, first, more, batch, replicas)) in variants.iter().enumerate() {
        let (accuracy, price) = (70 + 10 * index, f64::from(*price) / 1e3);
        let initial = replicas + u32::from(index == 0);
        known += &format!(
            "    - {{ name: v{index}, cluster: v{index}, accuracy: {accuracy}, batch: {batch}, price: {price}, \
             cores: {{ initial: {cores}, min: {cores}, max: {cores} }}, \
             replicas: {{ initial: {initial}, min: 0, max: 8 }}, \
             latency: {{ deltaMs: {more}, etaMs: {first}, parallelism: 1 }} }}\n"
        );
        servers += &format!("  v{index}: {{ noise_sigma: 0, resize_delay_ms: {delay} }}\n");
    }
    format!(
        "name: priced
seed: {seed}
length_s: 6
service:
  service: demo
  slo: {slo}ms
  mode: active
  policy: infaas
  budget: {{ cores: 40 }}
  variants:
{known}servers:
{servers}load: {{ generator: poisson, rps: {rps} }}
classes: [{{ name: usual, share: 7 }}, {{ name: strict, share: 3, min_accuracy: 75 }}]
contenders:
  - {{ plane: weir, control: static }}
  - {{ plane: fifo-timeout, control: static }}
  - {{ plane: weir, control: planner }}
  - {{ plane: weir, control: clairvoyant }}
  - {{ plane: weir, control: hpa }}
  - {{ plane: fifo-timeout, control: sm-plus }}
  - {{ plane: fifo-timeout, control: infaas-paper }}
"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_contender_has_a_better_objective_than_the_bound(
        seed in 0u64..1000, slo in 200u32..2000, rps in 5u32..200, variants in prop::collection::vec(sizes(), 1..3),
        beta in 0u32..100,
    ) {
        let text = text(seed, slo, rps, &variants);
        let text = text.replace("  mode:", &format!("  objective: {{ beta: {} }}\n  mode:", f64::from(beta) / 100.0));
        let text = text + "  - { plane: weir, control: planner }\n  - { plane: weir, control: clairvoyant }\n";
        let (scenario, requests) = scenario(&text);
        for played in all(&scenario, &requests) {
            check_objective(&scenario, &requests, &played);
        }
    }

    #[test]
    fn no_contender_pays_less_than_the_bound(
        seed in 0u64..1000, slo in 200u32..2000, rps in 5u32..200, delay in 0u32..3000,
        variants in prop::collection::vec(hardware(), 1..4),
    ) {
        let (scenario, requests) = scenario(&priced(seed, slo, rps, delay, &variants));
        for played in all(&scenario, &requests) {
            check_cost(&scenario, &requests, &played);
        }
    }
}
