//! Fractions of a core (`budget.step`): scenarios with them are valid, and every control plane gives them.

use super::*;
use crate::request::{Fate, Play};
use crate::simulation::play;

/// Service of two variants, each on 0.1 to 0.8 cores, of 1.2, in steps of 0.05.
const FRACTIONS: &str = "\
name: small
seed: 7
length_s: 40
service:
  service: demo
  slo: 800ms
  mode: active
  budget: {cores: 1.2, step: 0.05}
  variants:
  - name: fast
    cluster: fast
    accuracy: 70
    cores: {initial: 200m, min: 0.1, max: 0.8}
    capacity: {slopeRps: 125, interceptRps: 0}
    latency: {gammaMs: 8, parallelism: 1}
  - name: good
    cluster: good
    accuracy: 80
    cores: {initial: 0.2, min: 100m, max: 800m}
    capacity: {slopeRps: 50, interceptRps: 0}
    latency: {gammaMs: 20, parallelism: 1}
load: {generator: poisson, rps: 45}
servers: {fast: {noise_sigma: 0}, good: {noise_sigma: 0}}
";

/// The variant `good` alone, with that policy.
fn alone(policy: &str) -> String {
    let (head, variants) = FRACTIONS.split_once("  - name: fast\n").unwrap();
    let (_, good) = variants.split_once("  - name: good\n").unwrap();
    let good = good
        .replace("fast: {noise_sigma: 0}, ", "")
        .replace("rps: 45", "rps: 20");
    let head = head.replace("  variants:\n", &format!("  {policy}\n  variants:\n"));
    format!("{head}  - name: good\n{good}")
}

/// Plays it, and checks that cores are always steps within the bounds and the budget.
fn played(text: &str, control: Control) -> Play {
    let (scenario, sending) = Fixture::new().good(text);
    let contender = Contender {
        plane: Plane::Weir,
        control,
        breaker: None,
    };
    let requests = requests(scenario.seed, &sending);
    let play = play(&scenario, &requests, contender, scenario.seed).unwrap();
    for second in &play.seconds {
        let steps = second.cores_actual.iter().map(|cores| cores / 0.05);
        let steps: Vec<f64> = steps.collect();
        for steps in &steps {
            assert!((steps - steps.round()).abs() < 1e-6, "{second:?}");
            assert!((2.0..=16.0).contains(&steps.round()), "{second:?}");
        }
        assert!(steps.iter().sum::<f64>().round() <= 24.0, "{second:?}");
    }
    play
}

fn answered(play: &Play) -> f64 {
    let outcomes = play.outcomes.iter();
    let count = outcomes.filter(|one| matches!(one.fate, Fate::Answered(_)));
    count.count() as f64 / play.outcomes.len() as f64
}

fn last(play: &Play) -> &[f64] {
    &play.seconds.last().unwrap().cores_actual
}

#[test]
fn planner_gives_variants_parts_of_cores() {
    let few = played(FRACTIONS, Control::Static);
    assert_eq!(last(&few), [0.2, 0.2]);
    assert_eq!(few.core_seconds, 0.4 * 40.0);
    let planned = played(FRACTIONS, Control::Planner);
    let (before, after) = (answered(&few), answered(&planned));
    assert!(before < 0.9 && after > 0.95, "{before} {after}");
    let cores: f64 = last(&planned).iter().sum();
    assert!(cores > 0.5, "{cores}");
}

#[test]
fn autoscaler_gives_steps() {
    let play = played(FRACTIONS, Control::Hpa);
    assert_ne!(last(&play), [0.2, 0.2]);
}

/// VPA's bounds allow nearly everything in its first minutes.
#[test]
fn vertical_autoscaler_gives_steps_late() {
    let text = FRACTIONS.replace("length_s: 40", "length_s: 1800");
    assert_eq!(last(&played(FRACTIONS, Control::Vpa)), [0.2, 0.2]);
    assert_ne!(last(&played(&text, Control::Vpa)), [0.2, 0.2]);
}

#[test]
fn other_policies_are_played_in_steps() {
    for policy in [
        "policy: sponge",
        "policy: themis\n  themis: {horizontalCores: 0.1, tolerance: 0}",
    ] {
        let text = alone(policy);
        let (few, planned) = (
            played(&text, Control::Static),
            played(&text, Control::Planner),
        );
        let (before, after) = (answered(&few), answered(&planned));
        assert!(before < 0.9 && after > 0.9, "{policy}: {before} {after}");
        assert!(last(&planned)[0] > 0.3, "{policy}: {:?}", last(&planned));
    }
}

/// A server's measurements need not go below the fewest cores, which are a fraction.
#[test]
fn measurements_reach_down_to_the_fewest_cores() {
    let with = |cores: &str| {
        let measured = format!(
            "good: {{throughput: [{{batch: 1, rps: 5, cores: {cores}}}, {{batch: 1, rps: 40, cores: 0.8}}], \
             noise_sigma: 0}}"
        );
        FRACTIONS.replace("good: {noise_sigma: 0}", &measured)
    };
    Fixture::new().good(&with("0.1"));
    let refused = Fixture::new().read(&with("0.15")).unwrap_err().to_string();
    for part in [
        "measured on 0.15 cores",
        "measured on 0.1 too",
        "cores.min: 0.1",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}
