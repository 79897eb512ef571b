//! Fits: exact for exact data, close under noise, and the published lines from the published
//! measurements.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::fit::*;
use super::super::*;
use super::GRID;

fn model(gamma_ms: f64, epsilon_ms: f64, delta_ms: f64, eta_ms: f64) -> LatencyModel {
    LatencyModel {
        gamma_ms,
        epsilon_ms,
        delta_ms,
        eta_ms,
    }
}

fn cells(at: &[(u32, f64)], mut ms: impl FnMut(u32, f64) -> f64) -> Vec<Cell> {
    let cell = |(batch, cores): &(u32, f64)| Cell {
        batch: *batch,
        cores: *cores,
        latency_ms: ms(*batch, *cores),
    };
    at.iter().map(cell).collect()
}

fn points(measured: &[(f64, f64)]) -> Vec<Point> {
    let point = |(cores, rps): &(f64, f64)| Point {
        cores: *cores,
        rps: *rps,
    };
    measured.iter().map(point).collect()
}

/// Greatest relative error of a model over the grid.
fn off(found: &LatencyModel, truth: &LatencyModel) -> f64 {
    let off = |(b, c): &(u32, f64)| {
        let truth = truth.service_ms(*b, *c);
        (found.service_ms(*b, *c) - truth).abs() / truth
    };
    GRID.iter().map(off).fold(0.0, f64::max)
}

#[test]
fn exact_measurements_give_back_the_coefficients_at_any_scale() {
    for truth in [
        model(40.0, 8.0, 2.0, 5.0),
        model(40e3, 8e3, 2e3, 5e3),
        model(4e-5, 8e-6, 2e-6, 5e-6),
        model(40.0, 0.0, 0.003, 0.0),
        model(0.0, 0.0, 0.0, 7.0),
        model(36.0, 2.0, 0.0, 1.0),
    ] {
        let measured = cells(&GRID, |b, c| truth.service_ms(b, c));
        let fit = sponge(&measured).unwrap();
        assert!(off(&fit.model, &truth) < 1e-9, "{fit:?} {truth:?}");
        assert!(fit.r_squared > 1.0 - 1e-9, "{fit:?} {truth:?}");
        fit.model.check("model").unwrap();
    }
    let four = [(1, 1.0), (2, 1.0), (1, 2.0), (2, 2.0)];
    let truth = model(40.0, 8.0, 2.0, 5.0);
    let fit = sponge(&cells(&four, |b, c| truth.service_ms(b, c))).unwrap();
    assert!(off(&fit.model, &truth) < 1e-9, "{fit:?}");
}

/// The optimum of a convex problem satisfies the KKT conditions: the gradient is 0 for the
/// coefficients above 0, and not negative for those that are 0.
#[test]
fn nonnegative_least_squares_is_optimal() {
    let mut bound = 0;
    for seed in 0..2000 {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let truth = model(
            chance.random_range(0.0..50.0),
            chance.random_range(0.0..10.0),
            chance.random_range(0.0..5.0),
            chance.random_range(0.0..5.0),
        );
        let measured = cells(&GRID, |b, c| {
            truth.service_ms(b, c) * chance.random_range(0.5..1.5) + 0.01
        });
        let found = sponge(&measured).unwrap().model;
        let (mut gradient, mut scale) = ([0.0; 4], [0.0; 4]);
        for p in &measured {
            let b = f64::from(p.batch);
            let row = [b / p.cores, 1.0 / p.cores, b, 1.0];
            let error = found.service_ms(p.batch, p.cores) - p.latency_ms;
            for i in 0..4 {
                gradient[i] += row[i] * error;
                scale[i] += row[i] * p.latency_ms;
            }
        }
        let found = [
            found.gamma_ms,
            found.epsilon_ms,
            found.delta_ms,
            found.eta_ms,
        ];
        for i in 0..4 {
            let slope = gradient[i] / scale[i];
            assert!(
                found[i] >= 0.0 && slope > -1e-9,
                "seed {seed}: {found:?} {gradient:?}"
            );
            assert!(
                found[i] == 0.0 || slope < 1e-9,
                "seed {seed}: {found:?} {gradient:?}"
            );
            bound += u32::from(found[i] == 0.0);
        }
    }
    assert!(bound > 1000, "only {bound} coefficients at 0");
}

/// InfAdapter's published capacities on 1, 2, 4, 8 and 16 cores within 750 ms (EuroMLSys '23), and the
/// lines that planner/service.example.yaml quotes.
#[test]
fn infadapter_measurements_give_its_published_lines() {
    for (name, capacities, slope, intercept) in [
        ("resnet18", [19.0, 43.0, 90.0, 190.0, 385.0], 24.45, -6.17),
        ("resnet50", [8.0, 17.0, 36.0, 78.0, 162.0], 10.32, -3.79),
        ("resnet152", [1.0, 5.0, 15.0, 27.0, 59.0], 3.81, -2.25),
    ] {
        let cores = [1.0, 2.0, 4.0, 8.0, 16.0];
        let measured: Vec<_> = cores.into_iter().zip(capacities).collect();
        let fit = line(&points(&measured)).unwrap();
        let near = |found: f64, quoted: f64| (found - quoted).abs() <= 0.005 + 1e-9;
        assert!(
            near(fit.model.slope_rps, slope) && near(fit.model.intercept_rps, intercept),
            "{name}: {fit:?}"
        );
        assert!(fit.r_squared > 0.99, "{name}: {fit:?}");
    }
}

/// Sponge's published profile (EuroMLSys '24), ms by batch (1, 2, 4, 8, 16) and cores (1 to 32).
const SPONGES: [[f64; 6]; 5] = [
    [45.993, 28.877, 18.015, 12.402, 12.998, 12.614],
    [78.691, 44.688, 27.158, 18.366, 15.046, 14.883],
    [145.413, 82.432, 50.079, 31.439, 26.703, 26.107],
    [287.641, 166.14, 87.943, 57.045, 46.492, 42.403],
    [383.536, 222.231, 169.03, 114.533, 88.064, 86.104],
];

fn sponges() -> Vec<Cell> {
    let mut measured = Vec::new();
    for (row, batch) in SPONGES.iter().zip([1, 2, 4, 8, 16]) {
        for (latency_ms, cores) in row.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]) {
            measured.push(Cell {
                batch,
                cores,
                latency_ms: *latency_ms,
            });
        }
    }
    measured
}

#[test]
fn sponge_profile_fit_matches_the_publication() {
    let measured = sponges();
    let fit = sponge(&measured).unwrap();
    assert!((fit.r_squared - 0.969).abs() < 5e-4, "{fit:?}");
    assert!((fit.rmse - 15.19).abs() < 5e-3, "{fit:?}");
    let found = fit.model;
    for (found, near) in [
        (found.gamma_ms, 18.29),
        (found.epsilon_ms, 45.73),
        (found.delta_ms, 4.47),
        (found.eta_ms, 1.52),
    ] {
        assert!((found - near).abs() < 6e-3, "{fit:?}");
    }
    // A table returns the measurements themselves, apart from the noise.
    let table = Table::new(measured).unwrap();
    assert_eq!((table.ms(8, 4.0), table.ms(1, 8.0)), (87.943, 12.998));
}

/// The robust fit weighs relative errors, and so leads to other coefficients: those with the smallest squares predict the
/// short times of many cores badly.
#[test]
fn robust_fit_predicts_sponges_profile_better_than_its_smallest_squares() {
    let measured = sponges();
    let mean_percent = |latency: &Latency| {
        let off = |cell: &Cell| (latency.ms(cell.batch, cell.cores) / cell.latency_ms - 1.0).abs();
        100.0 * measured.iter().map(off).sum::<f64>() / measured.len() as f64
    };
    let robust = Form::Sponge.candidate(&measured).unwrap();
    let squares = mean_percent(&sponge(&measured).unwrap().model.into());
    let found = mean_percent(&robust.latency);
    println!("{found:.2} %, smallest squares {squares:.2} %: {robust:?}");
    assert!(found < 8.0 && squares > 12.0, "{found} {squares}");
    let coefficients = robust.latency.as_sponge().unwrap();
    for (found, near) in [
        (coefficients.gamma_ms, 23.4),
        (coefficients.epsilon_ms, 14.8),
        (coefficients.delta_ms, 3.8),
        (coefficients.eta_ms, 5.3),
    ] {
        assert!((found / near - 1.0).abs() < 0.05, "{coefficients:?}");
    }
}

#[test]
fn invalid_fit_input_is_refused_by_name() {
    let truth = model(40.0, 8.0, 2.0, 5.0);
    let at = |at: &[(u32, f64)]| cells(at, |b, c| truth.service_ms(b, c));
    let alike = "must be points that tell γ, ε, δ and η apart";
    let mut wrong = at(&GRID);
    wrong[5].latency_ms = f64::NAN;
    let mut zero = at(&GRID);
    zero[2].cores = 0.0;
    for (measured, message) in [
        (vec![], "points: 0 must be 4 to 4096".to_owned()),
        (at(&GRID[..3]), "points: 3 must be 4 to 4096".to_owned()),
        (at(&[(2, 2.0); 9]), format!("points: 9 points {alike}")),
        (
            at(&[(1, 2.0), (2, 2.0), (4, 2.0), (8, 2.0)]),
            format!("points: 4 points {alike}"),
        ),
        (
            at(&[(2, 1.0), (2, 2.0), (2, 4.0), (2, 8.0)]),
            format!("points: 4 points {alike}"),
        ),
        (
            wrong,
            "points[5].latency_ms: NaN must be above 0".to_owned(),
        ),
        (zero, "points[2].cores: 0 must be above 0".to_owned()),
    ] {
        let error = sponge(&measured).unwrap_err().to_string();
        assert!(error.starts_with(&message), "{error}\n{message}");
    }
    for (measured, message) in [
        (&[(2.0, 5.0)][..], "points: 1 must be 2 to 4096"),
        (
            &[(2.0, 5.0), (2.0, 6.0)],
            "points: 2 points must be points on at least two numbers",
        ),
        (&[(2.0, 5.0), (3.0, 4.0)], "points: a slope of -1"),
        (&[(2.0, 5.0), (3.0, -4.0)], "points[1].rps: -4 must be"),
    ] {
        let error = line(&points(measured)).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
}

#[test]
fn only_determined_coefficients_are_fitted() {
    let truth = model(40.0, 8.0, 2.0, 5.0);
    for (at, expected) in [
        (&[(1, 2.0)][..], model(0.0, 0.0, 0.0, 31.0)),
        (&[(1, 2.0), (8, 2.0)], model(0.0, 0.0, 22.0, 9.0)),
        (&[(1, 2.0), (1, 4.0)], model(48.0, 0.0, 0.0, 7.0)),
        (&GRID, truth),
    ] {
        let measured = cells(at, |b, c| truth.service_ms(b, c));
        let fit = determined(&measured).unwrap();
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-6;
        let (found, all) = (fit.model, fit);
        assert!(
            near(found.gamma_ms, expected.gamma_ms)
                && near(found.epsilon_ms, expected.epsilon_ms)
                && near(found.delta_ms, expected.delta_ms)
                && near(found.eta_ms, expected.eta_ms),
            "{found:?} {expected:?}"
        );
        assert!(all.rmse < 1e-9 && all.r_squared > 1.0 - 1e-9, "{all:?}");
    }
    // Batches on one number of cores only do not tell the rest apart.
    let corner = cells(&[(1, 1.0), (2, 1.0), (4, 1.0), (1, 2.0)], |b, c| {
        truth.service_ms(b, c)
    });
    assert!(determined(&corner).is_err());
    assert!(determined(&[]).is_err());
}

#[test]
fn small_and_large_latencies_count_alike() {
    // 5 % too slow at 10 ms moves the fit as much as 5 % at 1000 ms.
    let measured = |ms: &[f64]| -> Vec<Cell> {
        let cell = |(batch, latency_ms): (u32, &f64)| Cell {
            batch,
            cores: 1.0,
            latency_ms: *latency_ms,
        };
        (1..).zip(ms).map(cell).collect()
    };
    let flat = determined(&measured(&[10.0, 10.0, 10.5, 10.5])).unwrap();
    let steep = determined(&measured(&[1000.0, 1000.0, 1050.0, 1050.0])).unwrap();
    assert!((flat.rmse / steep.rmse - 1.0).abs() < 1e-6);
}

#[test]
fn chosen_columns_are_fitted_to_relative_errors() {
    // 20 + 3·b ms, divided by the measurements.
    let row = |batch: f64| {
        let ms = 20.0 + 3.0 * batch;
        vec![batch / ms, 1.0 / ms, 0.0]
    };
    let rows = [1.0, 2.0, 4.0, 8.0].map(row);
    let found = relative(&rows, &[0, 1]).unwrap();
    for (found, expected) in found.iter().zip([3.0, 20.0, 0.0]) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert_eq!(relative(&rows, &[0, 1, 2]), None, "a column of zeros");
    assert_eq!(relative(&rows[..1], &[0, 1]), None, "one point");
    let falls = |batch: f64| vec![batch / (20.0 - batch), 1.0 / (20.0 - batch), 0.0];
    let rows = [1.0, 2.0, 4.0].map(falls);
    assert_eq!(relative(&rows, &[0, 1]), None, "a negative coefficient");
    assert_eq!(relative(&[], &[0]), None);
}
