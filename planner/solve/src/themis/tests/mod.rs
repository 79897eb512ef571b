//! Both programmes compared with exhaustive search, and the outcome for each kind of input.

mod exhaustive;
#[cfg(feature = "highs")]
mod highs;
mod policy;
mod refusals;

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::latency_model::{Amdahl, Cell, LatencyModel, Linear, Quadratic, Table};

fn at_leisure(problem: &Problem) -> Outcome<Plan> {
    solve(problem, &TimeLimit::new(Duration::MAX, &|| Duration::ZERO))
}

fn stage(name: &str, latency: Latency, running: (u32, u32), most: (u32, u32, u32)) -> StageInput {
    StageInput {
        name: name.to_owned(),
        latency,
        running: Running {
            instances: running.0,
            cores: running.1,
        },
        cores_max: most.0,
        batch_max: most.1,
        wait_ms: None,
        instances_max: most.2,
    }
}

fn amdahl(serial_ms: f64, parallel_ms: f64) -> Latency {
    Latency::Amdahl(Amdahl {
        serial_ms,
        parallel_ms,
    })
}

/// Coefficients are mostly small integers, so that ties occur.
fn any_latency(chance: &mut ChaCha8Rng, scale: f64) -> Latency {
    let whole = chance.random_bool(0.7);
    let mut ms = |min: f64, most: f64| {
        let ms: f64 = chance.random_range(min..most);
        scale * if whole { ms.round() } else { ms }
    };
    let (a, b, c, d) = (ms(1.0, 9.0), ms(0.0, 5.0), ms(0.0, 3.0), ms(0.0, 4.0));
    match chance.random_range(0..6) {
        0 => amdahl(b, a),
        1 => Latency::Linear(Linear {
            item_ms: a,
            fixed_ms: b,
        }),
        2 => Latency::Quadratic(Quadratic {
            square_ms: c,
            item_ms: b,
            fixed_ms: a,
        }),
        3 => {
            let model = LatencyModel {
                gamma_ms: a,
                epsilon_ms: b,
                delta_ms: c,
                eta_ms: d,
            };
            let mut cells = Vec::new();
            for (batch, cores) in [(1, 1.0), (2, 1.0), (1, 2.0), (3, 3.0)] {
                cells.push(Cell {
                    batch,
                    cores,
                    latency_ms: model.service_ms(batch, cores),
                });
            }
            Latency::Table(Table::new(cells).unwrap())
        }
        _ => Latency::Sponge(LatencyModel {
            gamma_ms: a,
            epsilon_ms: b,
            delta_ms: c,
            eta_ms: d,
        }),
    }
}

/// `most`: stages, cores, batch, instances.
fn any_input(chance: &mut ChaCha8Rng, most: (u32, u32, u32, u32), scale: f64) -> Input {
    let horizontal_cores = if chance.random_bool(0.8) { 1 } else { 2 };
    let alike = chance.random_bool(0.3);
    let stages = (0..chance.random_range(1..=most.0)).map(|index| {
        let cores_max = chance.random_range(horizontal_cores..=most.1.max(horizontal_cores));
        let instances_max = chance.random_range(1..=most.3);
        let running = if chance.random_bool(0.07) {
            0
        } else {
            chance.random_range(1..=instances_max)
        };
        let stage = stage(
            &format!("s{index}"),
            any_latency(chance, scale),
            (running, chance.random_range(1..=cores_max)),
            (cores_max, chance.random_range(1..=most.2), instances_max),
        );
        let waits = chance.random_bool(0.3);
        StageInput {
            wait_ms: waits.then(|| scale * f64::from(chance.random_range(0..20_u32))),
            ..stage
        }
    });
    let mut stages: Vec<StageInput> = stages.collect();
    if let (true, Some(first)) = (alike, stages.first().cloned()) {
        for stage in &mut stages {
            let name = std::mem::take(&mut stage.name);
            *stage = first.clone();
            stage.name = name;
        }
    }
    let most_cores = if chance.random_bool(0.4) {
        5
    } else {
        most.1 * most.3
    };
    let count = stages.len() as f64;
    Input {
        load_rps: chance.random_range(10.0..400.0_f64).round() / scale,
        lasting: chance.random_bool(0.5),
        slo_ms: (chance.random_range(5.0..45.0_f64) * count).round() * scale,
        budget_cores: chance.random_range(1..=most_cores * stages.len() as u32),
        horizontal_cores,
        stages,
    }
}
