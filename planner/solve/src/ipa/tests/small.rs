//! Random small pipelines: integers that tie, and arbitrary numbers; chains and graphs; some
//! scaled, some without a weight.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::latency_model::{Amdahl, Latency, Linear, Quadratic};

/// A pipeline, with its kinds.
pub(super) fn any_input(random: &mut ChaCha8Rng) -> (Input, Vec<&'static str>) {
    let mut kinds = Vec::new();
    let whole = random.random_bool(0.6);
    let scale = if random.random_bool(0.15) {
        1000.0
    } else {
        1.0
    };
    let of =
        |random: &mut ChaCha8Rng, options: &[f64]| options[random.random_range(0..options.len())];
    let arrival_rps = if whole {
        of(random, &[10.0, 20.0, 40.0])
    } else {
        random.random_range(1.0..60.0)
    } / scale;
    let count = random.random_range(1..=4usize);
    let mut stages: Vec<StageInput> = Vec::new();
    for index in 0..count {
        let variants =
            (0..random.random_range(1..=3)).map(|v| any_variant(random, v, whole, scale));
        stages.push(StageInput {
            name: format!("s{index}"),
            after: None,
            variants: variants.collect(),
        });
    }
    if count > 2 && random.random_bool(0.5) {
        kinds.push("graph");
        if edges(random, &mut stages) {
            kinds.push("shuffled");
        }
    }
    let per_stage = of(random, &[30.0, 60.0, 120.0, 240.0]) * scale;
    let sla_ms = if whole {
        per_stage * count as f64
    } else {
        per_stage * count as f64 * random.random_range(0.5..1.5)
    };
    let mut weight = |options: &[f64]| {
        if whole {
            of(random, options)
        } else {
            random.random_range(0.0..5.0)
        }
    };
    let (mut alpha, mut beta, mut delta) = (
        weight(&[0.5, 1.0, 2.0, 50.0]),
        weight(&[0.5, 1.0, 1000.0]),
        weight(&[1e-6, 0.5, 1.0]),
    );
    let zero = random.random_range(0..10);
    if zero == 0 {
        alpha = 0.0;
        kinds.push("without accuracy");
    } else if zero == 1 {
        (beta, delta) = (0.0, 0.0);
        kinds.push("without costs");
    } else if zero == 2 {
        beta = 0.0;
    }
    let ranks = random.random_bool(0.3);
    let is = [(ranks, "ranks"), (scale > 1.0, "scaled"), (whole, "whole")];
    kinds.extend(is.iter().filter(|(is, _)| *is).map(|(_, kind)| *kind));
    let input = Input {
        arrival_rps,
        sla_ms,
        weights: Weights { alpha, beta, delta },
        accuracy: if ranks {
            Accuracy::Ranks
        } else {
            Accuracy::Product
        },
        stages,
    };
    (input, kinds)
}

fn any_variant(random: &mut ChaCha8Rng, index: usize, whole: bool, scale: f64) -> VariantInput {
    let mut number = |min: u32, most: u32| {
        if whole {
            f64::from(random.random_range(min..=most))
        } else {
            random.random_range(f64::from(min)..f64::from(most))
        }
    };
    let (item_ms, fixed_ms) = (scale * number(2, 30), scale * number(1, 40));
    let accuracy_percent = if whole {
        10.0 * number(5, 10)
    } else {
        number(40, 100)
    };
    let replica_cores = if whole {
        0.5 * number(1, 6)
    } else {
        number(1, 4)
    };
    let latency = match random.random_range(0..4) {
        0 => Latency::Amdahl(Amdahl {
            serial_ms: item_ms,
            parallel_ms: fixed_ms,
        }),
        1 => Latency::Quadratic(Quadratic {
            square_ms: 0.5 * scale,
            item_ms,
            fixed_ms,
        }),
        _ => Latency::Linear(Linear { item_ms, fixed_ms }),
    };
    // Other than the latency: less of it for most batches.
    let occupancy = random.random_bool(0.3).then(|| {
        let (item_ms, fixed_ms) = (0.8 * item_ms, 0.5 * fixed_ms);
        Latency::Linear(Linear { item_ms, fixed_ms })
    });
    let batches = if random.random_bool(0.5) {
        Batches::UpTo(random.random_range(1..=3))
    } else {
        let mut list = vec![1, 2, 4, 8];
        let swap = random.next_u32() as usize;
        list.swap(swap % 4, (swap / 4) % 4);
        list.truncate(random.random_range(1..=3));
        Batches::List(list)
    };
    VariantInput {
        name: format!("v{index}"),
        accuracy_percent,
        replica_cores,
        latency,
        occupancy,
        batches,
        wait_ms: random
            .random_bool(0.3)
            .then(|| scale * f64::from(random.random_range(0..20_u32))),
        replicas_max: random.random_range(1..=6),
    }
}

/// Connects each stage but the first to some of those before it; sometimes written in another
/// order.
fn edges(random: &mut ChaCha8Rng, stages: &mut [StageInput]) -> bool {
    let names: Vec<String> = stages.iter().map(|stage| stage.name.clone()).collect();
    for (index, stage) in stages.iter_mut().enumerate() {
        let mut after: Vec<String> = names[..index].to_vec();
        after.retain(|_| random.random_bool(0.5));
        if after.is_empty() && index > 0 {
            after.push(names[random.random_range(0..index)].clone());
        }
        stage.after = Some(after);
    }
    let shuffled = random.random_bool(0.4);
    if shuffled {
        let last = stages.len() - 1;
        stages.swap(random.random_range(0..last), last);
    }
    shuffled
}
