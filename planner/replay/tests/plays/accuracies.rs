//! Requests that require different accuracies, under policy infaas.

use weir_replay::report::Summary;

use super::replicas::{played, scenario};

/// 60 requests/s, of which two fifths require 75 %. A replica of b takes four times as long as one of a.
fn text(accuracy_min: u32) -> String {
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
  variants:
    - name: a
      cluster: a
      accuracy: 70
      cores: {{ initial: 1, min: 1, max: 1 }}
      replicas: {{ initial: 0, min: 0, max: 20 }}
      latency: {{ gammaMs: 25, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: 1, tail: 1.26 }}
      readiness: 3s
    - name: b
      cluster: b
      accuracy: 80
      cores: {{ initial: 1, min: 1, max: 1 }}
      replicas: {{ initial: 10, min: 0, max: 20 }}
      latency: {{ gammaMs: 100, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: 1, tail: 1.26 }}
      readiness: 3s
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
    played(&scenario, &requests).1
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
