//! Pipelines with realistic trade-offs, from a seed: more accurate variants are slower and need more
//! cores, and larger batches take longer in total but less for each request.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// λ of all pipelines.
const ARRIVAL_RPS: f64 = 60.0;

/// Creates a pipeline. `tightness` places the SLA between the fastest choice (0) and the most accurate
/// variants in the largest batches (1).
pub(super) fn pipeline(
    seed: u64,
    stages: usize,
    variants: usize,
    tightness: f64,
    same: bool,
) -> Value {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut quickest, mut slowest) = (0.0, 0.0);
    let mut all = Vec::new();
    let mut first = None;
    for index in 0..stages {
        let made = match &first {
            Some(made) if same => Clone::clone(made),
            // With more stages each is more accurate, so that the product of many is still a plausible
            // accuracy.
            _ => stage(&mut random, variants, 5.0 / stages as f64),
        };
        quickest += made.1;
        slowest += made.2;
        all.push(json!({"name": format!("s{index}"), "variants": made.0}));
        first = first.or(Some(made));
    }
    json!({
        "arrival_rps": ARRIVAL_RPS,
        "sla_ms": quickest + tightness * (slowest - quickest),
        "weights": {"alpha": 10.0, "beta": 0.5, "delta": 1e-6},
        "stages": all,
    })
}

/// Returns the variants, the minimum time, and the time of the most accurate variant in batches of 8.
fn stage(random: &mut ChaCha8Rng, count: usize, share: f64) -> (Value, f64, f64) {
    let mut ms: f64 = random.random_range(8.0..40.0);
    let mut lost: f64 = share * random.random_range(25.0..45.0);
    let (mut quickest, mut slowest) = (f64::INFINITY, 0.0);
    let mut variants = Vec::new();
    let growth = 6f64.powf(1.0 / count as f64);
    for index in 0..count {
        let steps = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0];
        let cores = steps.get(index * 7 / count).copied().unwrap_or(1.0);
        let fixed = ms * random.random_range(0.3..0.6);
        let item = ms - fixed;
        let time = |batch: f64| item * batch + fixed + (batch - 1.0) * 1000.0 / ARRIVAL_RPS;
        quickest = time(1.0).min(quickest);
        slowest = time(8.0);
        variants.push(json!({
            "name": format!("v{index}"),
            "accuracy_percent": 100.0 - lost,
            "replica_cores": cores,
            "latency": {"model": "linear", "item_ms": item, "fixed_ms": fixed},
            "batches": 8,
            "replicas_max": 100,
        }));
        ms *= growth * random.random_range(0.9..1.2);
        lost *= random.random_range(0.8f64..1.0).powf(10.0 / count as f64);
    }
    (Value::Array(variants), quickest, slowest)
}
