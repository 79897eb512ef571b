//! Requests that require different accuracies, under policy infaas.

use weir_replay::report::Summary;

use super::scenarios::{latency, one_core, played_twice, scenario, variant};

/// 60 requests/s, of which two fifths require 75 %. A replica of b takes four times as long as one of a.
fn text(accuracy_min: u32) -> String {
    let variant = |name: &str, accuracy: f64, initial: u32, ms: f64| {
        let (replicas, latency) = (one_core(initial, 20), latency(ms, 0.0, "1"));
        variant(
            name,
            accuracy,
            &format!("{replicas}, {latency}, readiness: 3s"),
        )
    };
    let (a, b) = (variant("a", 70.0, 0, 25.0), variant("b", 80.0, 10, 100.0));
    format!(
        "name: accuracies
seed: 5
length_s: 120
service:
  service: demo
  policy: infaas
  infaas: {{ accuracyMin: {accuracy_min} }}
  slo: 600ms
  mode: active
  budget: {{ cores: 20 }}
  demand: {{ window: 10s }}
  resize: {{ scaleDownStabilization: 5s }}
  variants: [{a}, {b}]
servers:
  a: {{ resize_delay_ms: 400, round_trip_ms: 2 }}
  b: {{ resize_delay_ms: 400, round_trip_ms: 2 }}
load: {{ generator: poisson, rps: 60 }}
classes:
  - {{ name: any, share: 3 }}
  - {{ name: good, share: 2, min_accuracy: 75 }}
contenders: [{{ plane: weir, control: planner }}]
"
    )
}

fn summary(accuracy_min: u32) -> Summary {
    let (scenario, requests) = scenario(&text(accuracy_min));
    played_twice(&scenario, &requests).1
}

#[test]
fn cheap_replicas_serve_requests_that_require_less() {
    let (mixed, uniform) = (summary(0), summary(75));
    for of in [&mixed, &uniform] {
        let classes: Vec<_> = of
            .classes
            .iter()
            .map(|class| class.on_time_percent)
            .collect();
        println!(
            "{:.1} core seconds, {:?} % accurate, {classes:?} % on time",
            of.core_seconds, of.mean_accuracy
        );
        assert!(classes.iter().all(|percent| *percent > 97.0), "{classes:?}");
    }
    assert!(mixed.core_seconds < 0.8 * uniform.core_seconds);
    assert!(mixed.mean_accuracy.unwrap() < 79.0);
    assert_eq!(uniform.mean_accuracy, Some(80.0));
}
