//! Tests of the fits: emulated servers of a known latency model, and measurements that allow less than a model.

use std::num::NonZeroU32;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const ASSUMED: Assumed = Assumed {
    parallelism: Parallelism::Fixed(NonZeroU32::MIN),
    percentile: Percentile::P99,
    tail: None,
};
pub(crate) const MODEL: LatencyModel = LatencyModel {
    gamma_ms: 60.0,
    epsilon_ms: 30.0,
    delta_ms: 5.0,
    eta_ms: 15.0,
};

fn at(cores: f64, batch: u32, mean_ms: f64) -> Measurement {
    Measurement {
        cores,
        batch,
        mean_ms: Some(mean_ms),
        ..Measurement::default()
    }
}

/// Models of emulated servers.
pub(crate) fn emulated() -> [LatencyModel; 5] {
    [
        MODEL,
        LatencyModel::constant(40.0),
        LatencyModel {
            gamma_ms: 80.0,
            delta_ms: 2.0,
            ..LatencyModel::default()
        },
        LatencyModel {
            delta_ms: 12.0,
            eta_ms: 20.0,
            ..LatencyModel::default()
        },
        LatencyModel {
            epsilon_ms: 50.0,
            eta_ms: 4.0,
            ..LatencyModel::default()
        },
    ]
}

/// Mean of 30 executions with 5 % noise each, the fewest that a point may have.
pub(crate) fn mean_ms(
    model: &LatencyModel,
    cores: f64,
    batch: u32,
    chance: &mut ChaCha8Rng,
) -> f64 {
    // Sum of twelve uniform values: normal enough, and the same on every machine.
    let mut normal = || (0..12).map(|_| chance.random_range(0.0..1.0)).sum::<f64>() - 6.0;
    let noise = (0..30).map(|_| 0.05 * normal()).sum::<f64>() / 30.0;
    model.service_ms(batch, cores) * (1.0 + noise)
}

fn measured(chance: &mut ChaCha8Rng, model: &LatencyModel, cores: f64, batch: u32) -> Measurement {
    at(cores, batch, mean_ms(model, cores, batch, chance))
}

#[test]
fn emulated_server_is_known_within_5_percent_at_unmeasured_points() {
    let grid = [
        (1.0, 1),
        (1.0, 4),
        (1.0, 8),
        (2.0, 1),
        (2.0, 4),
        (2.0, 8),
        (4.0, 1),
        (4.0, 4),
        (4.0, 8),
    ];
    let unmeasured = [
        (1.0, 2),
        (1.0, 6),
        (1.5, 3),
        (2.0, 6),
        (3.0, 1),
        (3.0, 8),
        (4.0, 2),
    ];
    for model in emulated() {
        for seed in 0..50 {
            let mut chance = ChaCha8Rng::seed_from_u64(seed);
            let points = grid.map(|(cores, batch)| measured(&mut chance, &model, cores, batch));
            let found = Fitted::new(&points, ASSUMED).unwrap().latency.unwrap();
            for (cores, batch) in unmeasured {
                let off =
                    found.model.service_ms(batch, cores) / model.service_ms(batch, cores) - 1.0;
                assert!(
                    off.abs() < 0.05,
                    "seed {seed}, {model:?}, {batch} on {cores}: {off} {found:?}"
                );
            }
        }
    }
}

#[test]
fn one_wrong_point_is_reported_and_does_not_bend_the_model() {
    let mut chance = ChaCha8Rng::seed_from_u64(7);
    let mut points: Vec<Measurement> = [1.0, 2.0, 4.0]
        .into_iter()
        .flat_map(|cores| [1, 2, 4, 8].map(|batch| (cores, batch)))
        .map(|(cores, batch)| measured(&mut chance, &MODEL, cores, batch))
        .collect();
    let right_ms = points[5].mean_ms.unwrap();
    points[5].mean_ms = Some(right_ms * 1.8);
    let found = Fitted::new(&points, ASSUMED).unwrap();
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("batch 2 on 2 cores") && notes.contains("fits the other points badly"),
        "{notes}"
    );
    let off = found.latency.unwrap().model.service_ms(2, 2.0) / MODEL.service_ms(2, 2.0) - 1.0;
    assert!(off.abs() < 0.05, "{off}");
}

#[test]
fn one_point_gives_one_number_and_its_notes() {
    let found = Fitted::new(&[at(2.0, 4, 50.0)], ASSUMED).unwrap();
    let latency = found.latency.unwrap();
    assert_eq!(
        (latency.model, latency.chosen.left_out),
        (LatencyModel::constant(50.0), None)
    );
    assert_eq!((found.tail, found.capacity), (1.0, None));
    assert_eq!(found.range, RawRange::of(2.0, 4));
    let notes = found.notes.join("\n");
    for expected in [
        "too few points to leave one out (1)",
        "tail is 1",
        "measured on 2 cores alone",
    ] {
        assert!(notes.contains(expected), "{notes}");
    }
}

#[test]
fn equal_points_are_joined_unless_they_contradict() {
    let points = [at(1.0, 1, 40.0), at(1.0, 1, 44.0), at(1.0, 1, 41.0)];
    let found = Fitted::new(&points, ASSUMED).unwrap();
    assert_eq!(found.measurements, [at(1.0, 1, 41.0)]);
    let points = [at(1.0, 1, 40.0), at(1.0, 1, 90.0)];
    let error = Fitted::new(&points, ASSUMED).unwrap_err().to_string();
    let expected =
        "batch 1 on 1 cores, mean_ms: 40 and 90 ms contradict each other; they must be within 25 %";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn faster_larger_batch_is_reported() {
    let points = [at(1.0, 1, 40.0), at(1.0, 8, 20.0), at(1.0, 4, 35.0)];
    let notes = Fitted::new(&points, ASSUMED).unwrap().notes.join("\n");
    assert!(
        notes.contains("the points contradict each other: "),
        "{notes}"
    );
}

#[test]
fn rates_alone_give_the_capacity() {
    let rate = |cores: f64, rps: f64| Measurement {
        cores,
        batch: 1,
        rps: Some(rps),
        ..Measurement::default()
    };
    let found = Fitted::new(
        &[rate(1.0, 18.0), rate(2.0, 38.0), rate(4.0, 78.0)],
        ASSUMED,
    )
    .unwrap();
    let line = found.capacity.unwrap();
    assert!(
        (line.line.slope_rps - 20.0).abs() < 1e-9 && line.r_squared > Some(0.999_999),
        "{line:?}"
    );
    assert_eq!(found.latency, None);
    assert!(found.notes.join("\n").contains("no latency was measured"));
    let error = Fitted::new(&[rate(1.0, 18.0), rate(2.0, 9.0)], ASSUMED)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("the capacity: "), "{error}");
    assert_eq!(
        Fitted::new(&[], ASSUMED).unwrap_err().to_string(),
        "no measurement"
    );
}

#[test]
fn tail_is_the_median_ratio_or_the_given_one() {
    let with = |cores: f64, p99_ms: f64| Measurement {
        p99_ms: Some(p99_ms),
        ..at(cores, 1, 40.0)
    };
    let points = [with(1.0, 48.0), with(2.0, 60.0), with(4.0, 52.0)];
    assert_eq!(Fitted::new(&points, ASSUMED).unwrap().tail, 1.3);
    let given = Assumed {
        tail: Some(2.0),
        ..ASSUMED
    };
    assert_eq!(Fitted::new(&points, given).unwrap().tail, 2.0);
}

#[test]
fn points_that_no_model_is_near_to_are_refused() {
    let points = |ms: [f64; 6]| {
        let places = [(1.0, 1), (1.0, 2), (2.0, 1), (2.0, 2), (4.0, 1), (4.0, 2)];
        let points = places.iter().zip(ms);
        let points = points.map(|((cores, batch), ms)| at(*cores, *batch, ms));
        points.collect::<Vec<_>>()
    };
    let wrong = points([42.0, 10.0, 80.0, 30.0, 90.0, 500.0]);
    let error = Fitted::new(&wrong, ASSUMED).unwrap_err().to_string();
    assert!(
        error.starts_with("the points contradict each other: the best latency model misses half of the 6 points by"),
        "{error}"
    );
    // One wrong point is left to the fit.
    let one = points([42.0, 43.0, 41.0, 40.0, 500.0, 42.0]);
    assert!(Fitted::new(&one, ASSUMED).is_ok());
}
