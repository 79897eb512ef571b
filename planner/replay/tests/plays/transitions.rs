//! Variants that take seconds to load, and kubelets slower than a cycle: losses while one variant replaces another. In
//! simulated time; no test depends on wall-clock time.

use super::scenarios::{played_text, variant};

/// ResNets on 20 cores, with the readiness times that InfAdapter (EuroMLSys '23) measured and the given resize delay.
fn on_time_percent(load: &str, beta: f64, readiness: bool, resize_delay_ms: u32, seed: u64) -> f64 {
    // Name, accuracy, slope and intercept of the capacity, γ, readiness in s, initial cores.
    let variants = [
        ("resnet18", 69.76, 24.45, -6.17, 36, 5, 0),
        ("resnet34", 73.30, 13.04, -1.88, 64, 6, 0),
        ("resnet50", 76.13, 10.32, -3.79, 86, 8, 20),
        ("resnet101", 77.37, 5.09, 0.04, 168, 11, 0),
        ("resnet152", 78.31, 3.81, -2.25, 230, 15, 0),
    ];
    let server = format!("{{ resize_delay_ms: {resize_delay_ms}, round_trip_ms: 3.4 }}");
    let servers = variants.map(|(name, ..)| format!("{name}: {server}"));
    let servers = servers.join(", ");
    let variants = variants.map(
        |(name, accuracy, slope, intercept, gamma_ms, readiness_s, cores)| {
            let readiness_s = if readiness { readiness_s } else { 0 };
            let keys = format!(
                "cores: {{ initial: {cores}, min: 0 }}, capacity: {{ slopeRps: {slope}, interceptRps: {intercept} }}, \
                 latency: {{ gammaMs: {gamma_ms}, epsilonMs: 4, deltaMs: 5, etaMs: 2, parallelism: per-core, tail: 1.26 }}, \
                 readiness: {readiness_s}s"
            );
            variant(name, accuracy, &keys)
        },
    );
    let variants = variants.join(", ");
    let text = format!(
        "name: transitions
seed: {seed}
length_s: 180
service:
  service: demo
  slo: 750ms
  mode: active
  objective: {{ beta: {beta} }}
  budget: {{ cores: 20 }}
  variants: [{variants}]
servers: {{ {servers} }}
load: {{ {load} }}
contenders: [{{ plane: weir, control: planner }}]
"
    );
    played_text(&text).1.on_time_percent
}

/// Maximum difference to the on-time percentage of variants that are ready at once, in percentage points.
const LOST_MORE_MAX: f64 = 0.3;

#[test]
fn loading_variants_lose_no_more_than_instantly_ready_ones() {
    for load in ["generator: poisson, rps: 43", "generator: poisson, rps: 70"] {
        for beta in [0.0125, 0.05, 0.2] {
            for resize_delay_ms in [100, 600, 1200] {
                let of = |readiness| on_time_percent(load, beta, readiness, resize_delay_ms, 1);
                let (loads, ready) = (of(true), of(false));
                println!("{load}, {beta}, {resize_delay_ms} ms: {loads} % on time, {ready} %");
                assert!(loads >= ready - LOST_MORE_MAX, "{loads}, {ready}");
                assert!(loads >= 99.5, "{loads}");
            }
        }
    }
}
