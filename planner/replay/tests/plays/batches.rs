//! Servers that batch on their own: losses if the plan knows their batches, and if it does not. In simulated time;
//! no test depends on wall-clock time.

use weir_replay::report::Summary;

use super::scenarios::{latency, played_text, variant};

/// Summary of a service whose only variant has those keys, in a scenario with the rest.
fn summary(seed: u64, service: &str, variant: &str, rest: &str) -> Summary {
    let text = format!(
        "name: batches
seed: {seed}
length_s: 60
service: {{ service: demo, slo: 500ms, policy: ipa, {service}, variants: [{variant}] }}
contenders: [{{ plane: weir, control: planner }}]
{rest}
"
    );
    played_text(&text).1
}

/// Car detection as in Themis' demo at its peak: 15 servers, 151 requests/s; with batches of two they sustain 174.
fn lost_percent(profile: &str, server: &str, seed: u64) -> f64 {
    let latency = latency(57.3, 22.7, "per-core");
    let keys = format!("cores: {{ initial: 15, min: 0 }}, {profile}, {latency}");
    let sum = summary(
        seed,
        "latencyBudget: 0.7, budget: { cores: 15 }",
        &variant("yolov5n", 45.7, &keys),
        &format!(
            "servers: {{ yolov5n: {{ {server} }} }}\nload: {{ generator: poisson, rps: 151 }}"
        ),
    );
    100.0 - 100.0 * sum.on_time as f64 / sum.sent as f64
}

#[test]
fn batches_larger_than_planned_lose_no_requests() {
    const SERVER: &str = "batch_max: 4, batch_delay_ms: 5";
    let mut all_unknown = 0.0;
    for seed in 1..=3 {
        let known = lost_percent("batch: 4, batchDelay: 5ms", SERVER, seed);
        let unknown = lost_percent("batch: 4", SERVER, seed);
        println!("seed {seed}: {known:.2} % lost, {unknown:.2} % where it is not known");
        assert!(known < 0.1, "seed {seed}: {known}");
        all_unknown += unknown;
    }
    // More, if full servers did not show what they sustain.
    assert!(all_unknown > 0.3, "nothing to lose: {all_unknown}");
}

/// Median latency, ms, of a server that waits up to 50 ms for four requests, at 5 requests/s.
fn median_ms(tell: bool) -> f64 {
    let latency = latency(20.0, 20.0, "per-core");
    let keys = format!(
        "cores: {{ initial: 2, min: 0 }}, batch: 4, batchDelay: 50ms, tellBatch: {tell}, {latency}"
    );
    let sum = summary(
        1,
        "mode: active, budget: { cores: 2 }",
        &variant("a", 45.7, &keys),
        "load: { generator: poisson, rps: 5 }",
    );
    sum.p50_ms.unwrap()
}

#[test]
fn servers_make_the_batches_that_the_planner_sends_them() {
    let (own, sent) = (median_ms(false), median_ms(true));
    println!("{own} ms, {sent} ms where the batch is sent");
    assert!((85.0..110.0).contains(&own), "{own}");
    assert!(sent < own - 40.0, "{sent}: a batch of one does not wait");
}
