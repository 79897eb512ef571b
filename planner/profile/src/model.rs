//! Latency model of a variant from its measured points. Pure.
//!
//! A point is throughput at the concurrency that keeps the server busy. With n batches executed at once, one of them
//! takes n · 1000 / (batches per second) ms (Little's law); the network's part is in it.

use std::fmt::Display;
use std::num::NonZeroU32;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use weir_solve::latency_model::fit::Form;
use weir_solve::latency_model::{Cell, LatencyModel, Parallelism};

use crate::ProfileError;
use crate::fitted::{self, CapacityFit, LatencyFit, TAIL_MAX};

/// Measured point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Point {
    /// Cores of the server.
    #[serde(deserialize_with = "above_zero")]
    pub cores: f64,
    /// Requests in one batch.
    #[serde(deserialize_with = "above_zero")]
    pub batch: u32,
    /// Batches in flight.
    #[serde(deserialize_with = "above_zero")]
    pub concurrency: u32,
    /// Throughput in batches per second.
    #[serde(deserialize_with = "above_zero")]
    pub batches_per_s: f64,
    /// Half width of its 95 % interval, in percent.
    #[serde(deserialize_with = "zero_or_more")]
    pub half_width_percent: f64,
    /// Mean latency of a batch in ms.
    #[serde(deserialize_with = "above_zero")]
    pub mean_ms: f64,
    /// Median latency in ms.
    #[serde(deserialize_with = "above_zero")]
    pub p50_ms: f64,
    /// 95th percentile of the latency, in ms; missing in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    /// 99th percentile of the latency, in ms.
    #[serde(deserialize_with = "above_zero")]
    pub p99_ms: f64,
    /// Number of batches answered.
    pub answered: usize,
    /// Number of batches that failed meanwhile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: usize,
    /// Whether the interval is as narrow as was asked for.
    pub settled: bool,
}

/// Refuses numbers that no measurement gives, such as `.nan`.
fn above_zero<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Copy + Display + Into<f64>,
{
    let value = T::deserialize(from)?;
    let number: f64 = value.into();
    let right = number.is_finite() && number > 0.0;
    let wrong = || D::Error::custom(format!("{value}; it must be a number above 0"));
    right.then_some(value).ok_or_else(wrong)
}

fn zero_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    let right = value.is_finite() && value >= 0.0;
    let wrong = || D::Error::custom(format!("{value}; it must be a number, 0 or more"));
    right.then_some(value).ok_or_else(wrong)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Point {
    /// Returns the failed part, in percent.
    #[must_use]
    pub fn failed_percent(&self) -> f64 {
        failed_percent(&[*self])
    }
}

/// Returns the failed part of all batches, in percent.
#[must_use]
pub fn failed_percent(points: &[Point]) -> f64 {
    let sum = |of: fn(&Point) -> usize| points.iter().map(of).sum::<usize>() as f64;
    let failed = sum(|point| point.failed);
    100.0 * failed / (failed + sum(|point| point.answered)).max(1.0)
}

/// Latency model with its quality.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Coefficients.
    pub latency: LatencyModel,
    /// Batches executed at once.
    pub parallelism: Parallelism,
    /// 99th percentile over the mean: the median ratio of the points of the smallest batch.
    pub tail: f64,
    /// Every kind of model, and the chosen one with its errors.
    pub fit: LatencyFit,
    /// Throughput by cores, of the smallest batch: through the origin with one number of cores.
    pub capacity: CapacityFit,
}

/// Fits the model to points of busy concurrency, one for each number of cores and batch; `best` are those of the greatest
/// throughput within the objective, `all` are all points.
///
/// # Errors
/// No points, or points that do not determine the model.
pub fn model(points: &[Point], best: &[Point], all: &[Point]) -> Result<Model, ProfileError> {
    let (fit, parallelism) = latency(points, all)?;
    let fit = fit.consistent()?;
    Ok(Model {
        latency: fit.model,
        fit,
        parallelism,
        tail: tail(points),
        capacity: capacity(best)?,
    })
}

/// Fits the latency alone: with a few of the points, chance decides whether the capacity grows with the cores.
///
/// # Errors
/// As [`model`].
pub fn latency(points: &[Point], all: &[Point]) -> Result<(LatencyFit, Parallelism), ProfileError> {
    let cells = |parallelism: Parallelism| -> Vec<Cell> {
        let cell = |point: &Point| Cell {
            batch: point.batch,
            cores: parallelism.cores_each(point.cores),
            latency_ms: parallelism.batch_ms(point.cores, point.batches_per_s),
        };
        points.iter().map(cell).collect()
    };
    let parallelism = parallelism(points, all)?;
    let cells = cells(parallelism);
    // Batches that a server formed by itself, and that nobody sent, are there because more requests take more time.
    let is_sent = |point: &Point| all.iter().any(|other| other.batch == point.batch);
    let is_formed = points.iter().any(|point| !is_sent(point));
    let is_one_size = points
        .windows(2)
        .all(|two| matches!(two, [a, b] if a.cores == b.cores));
    let forms: &[Form] = match is_formed && is_one_size {
        true => &[Form::Linear],
        false => &Form::ALL,
    };
    Ok((fitted::latency_of(&cells, forms)?, parallelism))
}

/// Points of the smallest batch: larger ones may have waited for each other.
fn smallest(points: &[Point]) -> impl Iterator<Item = &Point> {
    let batch = points.iter().map(|point| point.batch).min();
    points
        .iter()
        .filter(move |point| Some(point.batch) == batch)
}

fn capacity(points: &[Point]) -> Result<CapacityFit, ProfileError> {
    let rate = |point: &Point| weir_solve::latency_model::Point {
        cores: point.cores,
        rps: point.batches_per_s * f64::from(point.batch),
    };
    let rates: Vec<_> = smallest(points).map(rate).collect();
    fitted::line(&rates)
}

/// Number of batches executed at once. More cores shorten the latency of a single request and raise throughput alike if
/// the batches share them; one batch per core raises throughput alone.
fn parallelism(points: &[Point], all: &[Point]) -> Result<Parallelism, ProfileError> {
    let by_cores = |a: &&Point, b: &&Point| a.cores.total_cmp(&b.cores);
    let fewest = smallest(points).min_by(by_cores);
    let most = smallest(points).max_by(by_cores);
    let (Some(fewest), Some(most)) = (fewest, most) else {
        return Err(ProfileError("no point was measured".to_owned()));
    };
    let alone_ms = |of: &Point| {
        let is_it = |point: &&Point| {
            (point.cores, point.batch, point.concurrency) == (of.cores, of.batch, 1)
        };
        all.iter().find(is_it).map(|point| point.mean_ms)
    };
    if let (Some(slow_ms), Some(fast_ms)) = (alone_ms(fewest), alone_ms(most)) {
        let cores = |point: &Point| f64::from(Parallelism::PerCore.at_once(point.cores));
        let more_cores = cores(most) / cores(fewest);
        let growth = most.batches_per_s / fewest.batches_per_s;
        // 1 if the batches share the cores, the ratio of cores if each has its own.
        let beyond = growth * fast_ms / slow_ms;
        if more_cores > 1.0 && beyond > more_cores.sqrt() {
            return Ok(Parallelism::PerCore);
        }
    }
    let mut busy: Vec<u32> = smallest(points).map(|point| point.concurrency).collect();
    busy.sort_unstable();
    let middle = busy.get((busy.len() - 1) / 2).copied().unwrap_or(1);
    Ok(NonZeroU32::new(middle).map_or(Parallelism::PerCore, Parallelism::Fixed))
}

fn tail(points: &[Point]) -> f64 {
    let mut ratios: Vec<f64> = smallest(points).map(|p| p.p99_ms / p.mean_ms).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
    middle.clamp(1.0, TAIL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: LatencyModel = LatencyModel {
        gamma_ms: 40.0,
        epsilon_ms: 8.0,
        delta_ms: 3.0,
        eta_ms: 5.0,
    };

    /// Point of a busy server that follows [`MODEL`] but for the factor `noise`.
    fn point(parallelism: Parallelism, cores: f64, batch: u32, noise: f64) -> Point {
        let ms = MODEL.service_ms(batch, parallelism.cores_each(cores)) * noise;
        let concurrency = parallelism.at_once(cores);
        Point {
            cores,
            batch,
            concurrency,
            batches_per_s: f64::from(concurrency) * 1e3 / ms,
            half_width_percent: 1.0,
            mean_ms: ms,
            p50_ms: ms,
            p95_ms: Some(ms * 1.2),
            p99_ms: ms * 1.3,
            answered: 100,
            failed: 0,
            settled: true,
        }
    }

    fn fixed(at_once: u32) -> Parallelism {
        Parallelism::Fixed(NonZeroU32::new(at_once).unwrap())
    }

    #[test]
    fn latency_model_is_found_within_the_noise_at_unmeasured_points() {
        let noises = [
            1.03, 0.97, 1.05, 0.96, 1.02, 0.99, 0.95, 1.04, 1.01, 0.98, 1.0, 1.02,
        ];
        let mut noises = noises.into_iter();
        let mut points = Vec::new();
        for cores in [1.0, 2.0, 4.0] {
            for batch in [1, 2, 4, 8] {
                points.push(point(fixed(1), cores, batch, noises.next().unwrap()));
            }
        }
        let found = model(&points, &points, &points).unwrap();
        assert_eq!(found.parallelism, fixed(1));
        assert!((found.tail - 1.3).abs() < 1e-9);
        assert!(found.fit.chosen.r_squared > 0.99, "{found:?}");
        for (batch, cores) in [(3, 1.0), (6, 2.0), (1, 3.0), (8, 3.0), (5, 1.5)] {
            let ratio = found.latency.service_ms(batch, cores) / MODEL.service_ms(batch, cores);
            assert!((ratio - 1.0).abs() < 0.05, "{batch} on {cores}: {ratio}");
        }
    }

    #[test]
    fn server_of_one_size_gets_one_number() {
        let only = [point(fixed(3), 3.0, 1, 1.0)];
        let found = model(&only, &only, &[]).unwrap();
        assert_eq!(found.parallelism, fixed(3));
        assert_eq!(found.latency, LatencyModel::constant(56.0));
        let rps = f64::from(3) * 1e3 / 56.0;
        assert!((found.capacity.line.slope_rps * 3.0 - rps).abs() < 1e-9);
        // One point is met by any model.
        assert_eq!(found.capacity.r_squared, None);
        assert_eq!(found.fit.chosen.overdetermined_r_squared(), None);
        assert_eq!(found.fit.chosen.residuals_percent, [0.0]);
    }

    #[test]
    fn batches_alone_determine_what_depends_on_them() {
        let points = [1, 4, 8].map(|batch| point(fixed(1), 2.0, batch, 1.0));
        let found = model(&points, &points, &points).unwrap().latency;
        assert_eq!((found.gamma_ms, found.epsilon_ms), (0.0, 0.0));
        assert!(
            (found.delta_ms - 23.0).abs() < 1e-6 && (found.eta_ms - 9.0).abs() < 1e-6,
            "{found:?}"
        );
    }

    #[test]
    fn throughput_that_grows_without_a_shorter_latency_is_one_batch_per_core() {
        for (real, expected) in [
            (Parallelism::PerCore, Parallelism::PerCore),
            (fixed(1), fixed(1)),
        ] {
            let mut busy = [1.0, 2.0, 4.0].map(|cores| point(real, cores, 1, 1.0));
            let single = |point: &Point| Point {
                concurrency: 1,
                ..*point
            };
            let all: Vec<Point> = busy.iter().map(single).collect();
            // On the most cores one more in flight fills the gap between two requests.
            busy[2].concurrency += 1;
            let found = model(&busy, &busy, &all).unwrap();
            assert_eq!(found.parallelism, expected);
            let ms = found.latency.service_ms(1, expected.cores_each(4.0));
            let real_ms = MODEL.service_ms(1, real.cores_each(4.0));
            assert!((ms / real_ms - 1.0).abs() < 0.02, "{found:?}");
        }
    }

    #[test]
    fn throughput_that_falls_within_noise_is_constant() {
        let at = |cores: f64, batches_per_s: f64| Point {
            cores,
            batches_per_s,
            ..point(fixed(1), 1.0, 1, 1.0)
        };
        let flat = [at(1.0, 22.1), at(2.0, 22.0)];
        let found = model(&flat, &flat, &flat).unwrap().capacity.line;
        assert!((found.intercept_rps - 22.05).abs() < 1e-9, "{found:?}");
        assert!(found.slope_rps.abs() < 1e-9, "{found:?}");
        let falling = [at(1.0, 22.1), at(2.0, 12.0)];
        let error = model(&falling, &falling, &falling).unwrap_err().to_string();
        let expected = "the capacity: it falls with the cores, 22.1 requests/s on 1 cores and 12.0 on 2; it must be within 10 %";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn no_point_is_refused() {
        assert_eq!(
            model(&[], &[], &[]).unwrap_err().to_string(),
            "no point was measured"
        );
    }
}
