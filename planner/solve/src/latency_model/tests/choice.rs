//! Choice among latency models: the kind that measurements come from, despite noise and wrong points.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::fit::*;
use super::super::*;
use super::GRID;

const SPONGE: LatencyModel = LatencyModel {
    gamma_ms: 40.0,
    epsilon_ms: 30.0,
    delta_ms: 3.0,
    eta_ms: 12.0,
};

/// Cells of a model, each off by up to `noise` of its latency.
fn cells(latency: &Latency, noise: f64, seed: u64) -> Vec<Cell> {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let cell = |(batch, cores): &(u32, f64)| Cell {
        batch: *batch,
        cores: *cores,
        latency_ms: latency.ms(*batch, *cores) * (1.0 + chance.random_range(-1.0..=1.0) * noise),
    };
    GRID.iter().map(cell).collect()
}

fn candidates(points: &[Cell]) -> Vec<Candidate> {
    let forms = Form::ALL.into_iter();
    forms
        .filter_map(|form| form.candidate(points).ok())
        .collect()
}

/// Largest relative difference of two models over the grid.
fn off(found: &Latency, truth: &Latency) -> f64 {
    let off = |(b, c): &(u32, f64)| (found.ms(*b, *c) / truth.ms(*b, *c) - 1.0).abs();
    GRID.iter().map(off).fold(0.0, f64::max)
}

#[test]
fn kind_of_the_measurements_is_chosen_despite_noise() {
    let amdahl = Amdahl {
        serial_ms: 4.0,
        parallel_ms: 60.0,
    };
    let linear = Linear {
        item_ms: 9.0,
        fixed_ms: 25.0,
    };
    let quadratic = Quadratic {
        square_ms: 1.5,
        item_ms: 4.0,
        fixed_ms: 30.0,
    };
    for (form, latency) in [
        (Form::Constant, LatencyModel::constant(40.0).into()),
        (Form::Linear, Latency::Linear(linear)),
        (Form::Amdahl, Latency::Amdahl(amdahl)),
        (Form::Sponge, SPONGE.into()),
        (Form::Quadratic, Latency::Quadratic(quadratic)),
    ] {
        for seed in 0..20 {
            let all = candidates(&cells(&latency, 0.03, seed));
            let best = choose(all.iter()).unwrap();
            assert_eq!(best.form, form, "seed {seed}");
            assert!(off(&best.latency, &latency) < 0.05, "seed {seed}: {best:?}");
            let left_out = best.left_out.as_ref().unwrap();
            assert!(
                left_out.mean_percent < 6.0 && left_out.points() == 12,
                "{left_out:?}"
            );
        }
    }
}

#[test]
fn wrong_point_does_not_bend_the_model_and_gets_little_weight() {
    let truth = SPONGE.into();
    for wrong in 0..GRID.len() {
        for factor in [0.3, 3.0] {
            let mut points = cells(&truth, 0.01, 1);
            points[wrong].latency_ms *= factor;
            let robust = Form::Sponge.candidate(&points).unwrap();
            let plain: Latency = determined(&points).unwrap().model.into();
            let (robust_off, plain_off) = (off(&robust.latency, &truth), off(&plain, &truth));
            assert!(
                robust_off < plain_off / 2.0,
                "{wrong} × {factor}: {robust_off} {plain_off}"
            );
            let lightest =
                (0..GRID.len()).min_by(|a, b| robust.weights[*a].total_cmp(&robust.weights[*b]));
            assert_eq!(lightest, Some(wrong), "{:?}", robust.weights);
        }
    }
}

/// Constant of these times, and the weight of each.
fn constant(times_ms: &[f64]) -> (f64, Vec<f64>) {
    let cell = |((batch, cores), latency_ms): (&(u32, f64), &f64)| Cell {
        batch: *batch,
        cores: *cores,
        latency_ms: *latency_ms,
    };
    let points: Vec<Cell> = GRID.iter().zip(times_ms).map(cell).collect();
    let found = Form::Constant.candidate(&points).unwrap();
    (found.latency.ms(1, 1.0), found.weights)
}

#[test]
fn constant_is_the_centre_of_scattered_points_not_the_smallest() {
    let scattered = [42.0, 10.0, 80.0, 30.0, 90.0, 500.0];
    let (ms, _) = constant(&scattered);
    assert!((42.0..=80.0).contains(&ms), "{ms}");
    // Twice as fast is as far away as twice as slow.
    let (rate, _) = constant(&scattered.map(|ms| 1e3 / ms));
    assert!((rate * ms / 1e3 - 1.0).abs() < 1e-9, "{rate} {ms}");
    assert_eq!(constant(&[56.0; 5]).0, 56.0);
}

#[test]
fn wrong_point_does_not_pull_the_constant() {
    let all = cells(&LatencyModel::constant(40.0).into(), 0.02, 2);
    for wrong in 0..GRID.len() {
        for factor in [0.05, 0.5, 2.0, 20.0] {
            let mut times_ms: Vec<f64> = all.iter().map(|cell| cell.latency_ms).collect();
            times_ms[wrong] *= factor;
            let (ms, weights) = constant(&times_ms);
            assert!((ms / 40.0 - 1.0).abs() < 0.01, "{wrong} × {factor}: {ms}");
            assert!(weights[wrong] < 0.01, "{weights:?}");
        }
    }
}

#[test]
fn few_points_of_a_server_that_scales_are_not_taken_for_a_constant() {
    for seed in 0..50 {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let cell = |cores: f64| Cell {
            batch: 1,
            cores,
            latency_ms: 40.0 / cores * (1.0 + chance.random_range(-1.0..=1.0) * 0.05),
        };
        let all = candidates(&[1.0, 2.0, 4.0].map(cell));
        let best = choose(all.iter()).unwrap();
        assert_ne!(best.form, Form::Constant, "seed {seed}: {best:?}");
    }
}

#[test]
fn points_that_cannot_be_left_out_are_not_cross_validated() {
    let latency: Latency = SPONGE.into();
    let at = |cells: &[(u32, f64)]| -> Vec<Cell> {
        let cell = |(batch, cores): &(u32, f64)| Cell {
            batch: *batch,
            cores: *cores,
            latency_ms: latency.ms(*batch, *cores),
        };
        cells.iter().map(cell).collect()
    };
    let one = at(&[(4, 2.0)]);
    let all = candidates(&one);
    let best = choose(all.iter()).unwrap();
    assert_eq!(
        (best.form, &best.left_out, best.r_squared),
        (Form::Constant, &None, 1.0)
    );
    // Four points determine four coefficients; what is cross-validated errs by far more.
    let four = at(&[(1, 1.0), (1, 4.0), (8, 1.0), (8, 4.0)]);
    let all = candidates(&four);
    let best = choose(all.iter()).unwrap();
    assert_eq!((best.form, &best.left_out), (Form::Sponge, &None));
    assert!(off(&best.latency, &latency) < 1e-6, "{best:?}");
    assert!(candidates(&[]).is_empty());
}

#[test]
fn models_without_cores_in_a_square_are_sponges_too() {
    let all = candidates(&cells(&SPONGE.into(), 0.02, 3));
    assert!(all.len() >= 5, "{all:?}");
    for one in all {
        let sponge = one.latency.as_sponge().map(Latency::from);
        match one.form {
            Form::Quadratic | Form::Table => assert_eq!(sponge, None),
            _ => assert!(
                off(&sponge.unwrap(), &one.latency) < 1e-12,
                "{:?}",
                one.form
            ),
        }
    }
}
