//! Robust least squares of relative errors, iteratively reweighted: a point whose error is large against the median one
//! gets less weight, so that a few wrong points do not bend the model. By Huber's weights from the plain fit on. If a fit
//! without some of the points has a plainly smaller median error over all, by Tukey's weights from that one on, which
//! take the wrong points out: one at the edge pulls the plain fit so far that its own error is not the largest.

use super::{Regression, median};
use crate::InputError;
use crate::input::rule;

/// Errors up to this many standard deviations have full weight (Huber): with it, the estimator is 95 % as efficient as
/// least squares where the errors are normal.
const HUBER: f64 = 1.345;
/// Errors from this many standard deviations on have no weight (Tukey), for the same efficiency.
const TUKEY: f64 = 4.685;
/// Standard deviation of normal errors over their median absolute value.
const DEVIATION: f64 = 1.4826;
/// Rousseeuw's correction of that for few points, over the points more than coefficients.
const FEW: f64 = 5.0;
/// Minimum standard deviation: no measurement is more precise than this part of its value.
const DEVIATION_MIN: f64 = 0.005;
/// Part of the plain fit's median error below which a fit without some points is the better start. Noise alone hardly
/// ever makes such a difference.
const PLAINLY: f64 = 0.25;
/// Maximum number of rounds.
const ROUNDS_MAX: usize = 50;
/// Change of the weights below which the rounds end.
const SAME: f64 = 1e-9;
/// Maximum number of groups of points that are left out in turn; each is a single point up to so many.
pub(super) const FOLDS_MAX: usize = 32;

/// Coefficients, and the weight of each point: 1 unless its error is large.
pub(super) struct Robust {
    pub(super) model: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

/// Fits coefficients to rows of factors that are divided by their measurements. `right` says which points are needed.
pub(super) fn robust(
    rows: Vec<Vec<f64>>,
    negative: bool,
    right: &str,
) -> Result<Robust, InputError> {
    let count = rows.len();
    rule(count > 0, "points", count, right)?;
    let regression = Regression {
        coefficients: rows.first().map_or(0, Vec::len),
        targets: vec![1.0; count],
        rows,
        negative,
    };
    let regression = regression.checked(right)?;
    let every: Vec<usize> = (0..count).collect();
    let plain = regression.least_squares(&every);
    let mut model = plain.ok_or_else(|| InputError {
        field: "points".to_owned(),
        value: format!("{count} points"),
        right: right.to_owned(),
    })?;
    let errors = |model: &[f64]| -> Vec<f64> {
        let errors = every.iter().map(|point| regression.error(model, *point));
        errors.map(f64::abs).collect()
    };
    let folds = count.min(FOLDS_MAX);
    let mut weight: fn(f64) -> f64 = huber;
    let mut smallest = PLAINLY * median(&errors(&model));
    for fold in 0..folds {
        let others: Vec<usize> = every
            .iter()
            .copied()
            .filter(|i| i % folds != fold)
            .collect();
        // As many points as coefficients are met exactly, and say nothing of the one that is left out.
        if others.len() <= regression.coefficients {
            break;
        }
        let start = regression.least_squares(&others);
        let start = start.map(|start| (median(&errors(&start)), start));
        if let Some((error, start)) = start.filter(|(error, _)| *error < smallest) {
            (smallest, model, weight) = (error, start, tukey);
        }
    }
    let beyond = count.saturating_sub(regression.coefficients).max(1) as f64;
    let few = DEVIATION * (1.0 + FEW / beyond);
    let mut weights = vec![1.0; count];
    for _ in 0..ROUNDS_MAX {
        let errors = errors(&model);
        let deviation = few * median(&errors).max(DEVIATION_MIN / DEVIATION);
        let next: Vec<f64> = errors
            .iter()
            .map(|error| weight(error / deviation))
            .collect();
        let changes = next.iter().zip(&weights).map(|(a, b)| (a - b).abs());
        let change = changes.fold(0.0, f64::max);
        // Points without weight may leave too few; then the model stays as it is.
        let Some(better) = regression.weighted(&next).least_squares(&every) else {
            break;
        };
        (model, weights) = (better, next);
        if change < SAME {
            break;
        }
    }
    Ok(Robust { model, weights })
}

/// Returns the centre of values above 0 and the weight of each, by Tukey's weights of their logarithms from the median on.
/// A value half as large is as far away as one twice as large. Errors relative to each value would not be: those of a
/// centre that is too small are at most 1, so it would be pulled to the smallest values.
///
/// # Errors
/// No values.
pub(super) fn robust_centre(values: &[f64], right: &str) -> Result<(f64, Vec<f64>), InputError> {
    let count = values.len();
    rule(count > 0, "points", count, right)?;
    // Relative to one of the values, so that equal ones give themselves.
    let unit = median(values);
    let logarithms: Vec<f64> = values.iter().map(|value| (value / unit).ln()).collect();
    let mut centre = median(&logarithms);
    let distances = |centre: f64| -> Vec<f64> {
        let distances = logarithms.iter().map(|one| (one - centre).abs());
        distances.collect()
    };
    // The deviation stays that of the median, so that each round has the same bounds.
    let few = DEVIATION * (1.0 + FEW / count.saturating_sub(1).max(1) as f64);
    let deviation = few * median(&distances(centre)).max(DEVIATION_MIN / DEVIATION);
    let mut weights = vec![1.0; count];
    for _ in 0..ROUNDS_MAX {
        let next: Vec<f64> = distances(centre)
            .iter()
            .map(|distance| tukey(distance / deviation))
            .collect();
        let weighted = next
            .iter()
            .zip(&logarithms)
            .map(|(weight, one)| weight * one);
        let sum: f64 = next.iter().sum();
        if sum <= 0.0 {
            break;
        }
        let before = std::mem::replace(&mut centre, weighted.sum::<f64>() / sum);
        weights = next;
        if (centre - before).abs() < SAME {
            break;
        }
    }
    Ok((unit * centre.exp(), weights))
}

/// Weight of an error of that many standard deviations.
fn huber(error: f64) -> f64 {
    (HUBER / error).min(1.0)
}

fn tukey(error: f64) -> f64 {
    let inside = (1.0 - error * error / (TUKEY * TUKEY)).max(0.0);
    inside * inside
}

impl Regression {
    /// Returns the same problem where the square of each point's error counts with its weight.
    fn weighted(&self, weights: &[f64]) -> Regression {
        let roots = || weights.iter().map(|weight| weight.sqrt());
        let scaled =
            |(row, root): (&Vec<f64>, f64)| row.iter().map(|factor| factor * root).collect();
        let targets = self.targets.iter().zip(roots());
        Regression {
            rows: self.rows.iter().zip(roots()).map(scaled).collect(),
            targets: targets.map(|(target, root)| target * root).collect(),
            coefficients: self.coefficients,
            negative: self.negative,
        }
    }
}
