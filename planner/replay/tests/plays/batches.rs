//! Servers that batch on their own: losses if the plan knows their batches, and if it does not. In simulated time;
//! no test depends on wall-clock time.

use std::fs;

use weir_replay::input::requests;
use weir_replay::report::Summary;
use weir_replay::scenario::{Overrides, read};
use weir_replay::simulation::play;

/// Car detection as in Themis' demo at its peak: 15 servers, 151 requests/s; with batches of two they sustain 174.
fn lost_percent(profile: &str, server: &str, seed: u64) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.yaml");
    let text = format!(
        "name: batches
seed: {seed}
length_s: 60
service:
  service: demo
  slo: 500ms
  latencyBudget: 0.7
  policy: ipa
  budget: {{ cores: 15 }}
  variants:
    - name: yolov5n
      cluster: yolov5n
      accuracy: 45.7
      cores: {{ initial: 15, min: 0 }}
      {profile}
      latency: {{ gammaMs: 57.3, epsilonMs: 0, deltaMs: 0, etaMs: 22.7, parallelism: per-core, tail: 1.26 }}
servers:
  yolov5n: {{ {server} }}
load: {{ generator: poisson, rps: 151 }}
contenders:
  - {{ plane: weir, control: planner }}
"
    );
    fs::write(&path, text).unwrap();
    let (scenario, sending) = read(&path, Overrides::default()).unwrap();
    let requests = requests(seed, &sending);
    let play = play(&scenario, &requests, scenario.contenders[0], seed).unwrap();
    let sum = Summary::of(&scenario, &requests, &play, None).unwrap();
    100.0 - 100.0 * sum.on_time as f64 / sum.sent as f64
}

#[test]
fn batches_larger_than_planned_lose_no_requests() {
    const SERVER: &str = "batch_max: 4, batch_delay_ms: 5";
    let mut all_unknown = 0.0;
    for seed in 1..=3 {
        let known = lost_percent("batch: 4\n      batchDelay: 5ms", SERVER, seed);
        let unknown = lost_percent("batch: 4", SERVER, seed);
        println!("seed {seed}: {known:.2} % lost, {unknown:.2} % where it is not known");
        assert!(known < 0.1, "seed {seed}: {known}");
        all_unknown += unknown;
    }
    assert!(all_unknown > 10.0, "nothing to lose: {all_unknown}");
}

/// Median latency, ms, of a server that waits up to 50 ms for four requests, at 5 requests/s.
fn median_ms(tell: bool) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.yaml");
    let text = format!(
        "name: batches
seed: 1
length_s: 60
service:
  service: demo
  slo: 500ms
  policy: ipa
  mode: active
  budget: {{ cores: 2 }}
  variants:
    - name: a
      cluster: a
      accuracy: 45.7
      cores: {{ initial: 2, min: 0 }}
      batch: 4
      batchDelay: 50ms
      tellBatch: {tell}
      latency: {{ gammaMs: 20, epsilonMs: 0, deltaMs: 0, etaMs: 20, parallelism: per-core, tail: 1.26 }}
load: {{ generator: poisson, rps: 5 }}
contenders:
  - {{ plane: weir, control: planner }}
"
    );
    fs::write(&path, text).unwrap();
    let (scenario, sending) = read(&path, Overrides::default()).unwrap();
    let requests = requests(1, &sending);
    let play = play(&scenario, &requests, scenario.contenders[0], 1).unwrap();
    let sum = Summary::of(&scenario, &requests, &play, None).unwrap();
    sum.p50_ms.unwrap()
}

#[test]
fn servers_make_the_batches_that_the_planner_sends_them() {
    let (own, sent) = (median_ms(false), median_ms(true));
    println!("{own} ms, {sent} ms where the batch is sent");
    assert!((85.0..110.0).contains(&own), "{own}");
    assert!(sent < own - 40.0, "{sent}: a batch of one does not wait");
}
