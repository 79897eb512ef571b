//! Fits of latency and throughput models to measurements: Sponge's Eq. 2 and InfAdapter's lines, by least
//! squares. [`choose`] tolerates measurements that are plainly wrong.
//!
//! Least squares is exact. Sponge's coefficients may not be negative. Each of the 15 non-empty sets of
//! coefficients that may be above 0 is solved as an ordinary least-squares problem on scaled columns. The
//! best solution without a negative coefficient is the optimum, since the optimum's own set is among them.

mod choice;
mod determined;
mod robust;

use nalgebra::{DMatrix, DVector};

use super::{BATCH_MAX, CORES_MAX, Cell, LatencyModel, Line, MS_MAX, POINTS_MAX, Point, RPS_MAX};
use crate::InputError;
use crate::input::{positive, rule, within};
pub use choice::{Candidate, Form, LeftOut, choose};
pub use determined::determined;

/// Fitted model, with its errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit<L> {
    /// The model.
    pub model: L,
    /// Part of the measurements' variance that the model explains, at best 1; 1 if they are all equal and the model
    /// predicts them.
    pub r_squared: f64,
    /// Root of the mean squared error, in the unit of the measurements.
    pub rmse: f64,
}

/// Fits Sponge's latency model by least squares, without negative coefficients.
///
/// # Errors
/// Fewer points than coefficients, invalid numbers, or points too similar to determine the coefficients.
/// Two batches on each of two numbers of cores are enough, or four other points as different.
pub fn sponge(points: &[Cell]) -> Result<Fit<LatencyModel>, InputError> {
    latencies(points)?.fit().map(Fit::model)
}

/// Fits InfAdapter's line of throughput over cores by least squares.
///
/// # Errors
/// Fewer than two different numbers of cores, invalid numbers, or throughput that falls with the cores.
pub fn line(points: &[Point]) -> Result<Fit<Line>, InputError> {
    rising(rates(points)?.fit()?)
}

/// Least squares of these columns of the rows to 1, which are relative errors if each row is divided by its measurement; the
/// coefficients of the other columns are 0. `None` if the rows do not determine them, or if one is negative.
#[must_use]
pub fn relative(rows: &[Vec<f64>], columns: &[usize]) -> Option<Vec<f64>> {
    let regression = Regression {
        coefficients: rows.first()?.len(),
        targets: vec![1.0; rows.len()],
        rows: rows.to_vec(),
        negative: false,
    };
    let every: Vec<usize> = (0..rows.len()).collect();
    let model = regression.ordinary(&every, columns)?;
    model.iter().all(|value| *value >= 0.0).then_some(model)
}

impl Fit<Vec<f64>> {
    fn model(self) -> Fit<LatencyModel> {
        let coefficient = |index: usize| self.model.get(index).copied().unwrap_or_default();
        let model = LatencyModel {
            gamma_ms: coefficient(0),
            epsilon_ms: coefficient(1),
            delta_ms: coefficient(2),
            eta_ms: coefficient(3),
        };
        self.with(model)
    }

    fn with<L>(&self, model: L) -> Fit<L> {
        Fit {
            model,
            r_squared: self.r_squared,
            rmse: self.rmse,
        }
    }
}

fn rising(fit: Fit<Vec<f64>>) -> Result<Fit<Line>, InputError> {
    let coefficient = |index: usize| fit.model.get(index).copied().unwrap_or_default();
    let slope_rps = coefficient(0);
    let value = format!("a slope of {slope_rps} requests/s for each core");
    rule(slope_rps >= 0.0, "points", value, "0 or more")?;
    Ok(fit.with(Line {
        slope_rps,
        intercept_rps: coefficient(1),
    }))
}

fn latencies(points: &[Cell]) -> Result<Regression, InputError> {
    let regression = Regression {
        rows: rows(points)?,
        targets: points.iter().map(|point| point.latency_ms).collect(),
        coefficients: 4,
        negative: false,
    };
    regression.checked("points that tell γ, ε, δ and η apart: at least two batches on each of two numbers of cores")
}

/// Returns the factors of γ, ε, δ and η for each point.
fn rows(points: &[Cell]) -> Result<Vec<Vec<f64>>, InputError> {
    let row = |(index, point): (usize, &Cell)| {
        let field = |name: &str| format!("points[{index}].{name}");
        let batch = within(field("batch"), point.batch, 1, BATCH_MAX, "requests")?;
        let cores = positive(field("cores"), point.cores, CORES_MAX, "")?;
        positive(field("latency_ms"), point.latency_ms, MS_MAX, "ms")?;
        let batch = f64::from(batch);
        Ok(vec![batch / cores, 1.0 / cores, batch, 1.0])
    };
    points.iter().enumerate().map(row).collect()
}

fn rates(points: &[Point]) -> Result<Regression, InputError> {
    let mut rows = Vec::with_capacity(points.len());
    let mut targets = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        let field = |name: &str| format!("points[{index}].{name}");
        let cores = within(field("cores"), point.cores, 0.0, CORES_MAX, "")?;
        targets.push(within(field("rps"), point.rps, 0.0, RPS_MAX, "requests/s")?);
        rows.push(vec![cores, 1.0]);
    }
    let regression = Regression {
        rows,
        targets,
        coefficients: 2,
        negative: true,
    };
    regression.checked("points on at least two numbers of cores")
}

/// Linear regression problem: predict `targets` by Σ coefficient·row.
struct Regression {
    rows: Vec<Vec<f64>>,
    targets: Vec<f64>,
    coefficients: usize,
    /// Whether coefficients may be negative.
    negative: bool,
}

/// Singular values (of columns of length 1) below this count as 0: the columns are linearly dependent.
const DEPENDENT: f64 = 1e-9;
/// A coefficient this far below 0, in scaled columns relative to the measurements, is a rounding error.
const ROUNDING: f64 = 1e-12;
/// Squared errors below this part of the squared measurements are rounding errors.
const EXACT: f64 = 1e-24;

impl Regression {
    fn checked(self, right: &str) -> Result<Regression, InputError> {
        let (min, count) = (self.coefficients, self.rows.len());
        let enough = format!("{min} to {POINTS_MAX}");
        rule((min..=POINTS_MAX).contains(&count), "points", count, enough)?;
        let all: Vec<usize> = (0..count).collect();
        let columns: Vec<usize> = (0..min).collect();
        let apart = self.ordinary(&all, &columns).is_some();
        rule(apart, "points", format!("{count} points"), right)?;
        Ok(self)
    }

    fn fit(&self) -> Result<Fit<Vec<f64>>, InputError> {
        let every: Vec<usize> = (0..self.rows.len()).collect();
        let model = self.least_squares(&every).ok_or_else(|| InputError {
            field: "points".to_owned(),
            value: format!("{} points", every.len()),
            right: "more: they do not tell the coefficients apart".to_owned(),
        })?;
        Ok(self.quality(model))
    }

    /// Returns the best coefficients for the points `among`; `None` if these do not determine them.
    fn least_squares(&self, among: &[usize]) -> Option<Vec<f64>> {
        let every: Vec<usize> = (0..self.coefficients).collect();
        let whole = self.ordinary(among, &every)?;
        if self.negative || whole.iter().all(|coefficient| *coefficient >= 0.0) {
            return Some(whole);
        }
        let mut best: Option<(Vec<f64>, f64)> = None;
        for set in 1..1_u32 << self.coefficients {
            let columns: Vec<usize> = every
                .iter()
                .copied()
                .filter(|i| set >> i & 1 == 1)
                .collect();
            let Some(model) = self.ordinary(among, &columns) else {
                continue;
            };
            let squares = self.squares(&model, among);
            let better = best.as_ref().is_none_or(|(_, min)| squares < *min);
            if better && model.iter().all(|coefficient| *coefficient >= 0.0) {
                best = Some((model, squares));
            }
        }
        best.map(|(model, _)| model)
    }

    /// Ordinary least squares on some columns, with the coefficients of the others 0; `None` if the points
    /// do not determine them.
    fn ordinary(&self, among: &[usize], columns: &[usize]) -> Option<Vec<f64>> {
        let at = |row: usize, column: usize| {
            let (row, column) = (among.get(row)?, columns.get(column)?);
            self.rows.get(*row)?.get(*column).copied()
        };
        if among.len() < columns.len() {
            return None;
        }
        let cell = |row, column| at(row, column).unwrap_or_default();
        let mut matrix = DMatrix::from_fn(among.len(), columns.len(), cell);
        let mut lengths = Vec::with_capacity(columns.len());
        for mut column in matrix.column_iter_mut() {
            let length = column.norm();
            if !(length > 0.0 && length.is_finite()) {
                return None;
            }
            column.unscale_mut(length);
            lengths.push(length);
        }
        let targets = |row: usize| among.get(row).and_then(|i| self.targets.get(*i)).copied();
        let targets = DVector::from_fn(among.len(), |row, _| targets(row).unwrap_or_default());
        let parts = matrix.svd(true, true);
        if parts.rank(DEPENDENT) < columns.len() {
            return None;
        }
        let solved = parts.solve(&targets, 0.0).ok()?;
        let mut model = vec![0.0; self.coefficients];
        let min = ROUNDING * targets.norm();
        for ((column, length), scaled) in columns.iter().zip(lengths).zip(solved.iter()) {
            let rounding = !self.negative && scaled.abs() <= min;
            *model.get_mut(*column)? = if rounding { 0.0 } else { scaled / length };
        }
        model.iter().all(|value| value.is_finite()).then_some(model)
    }

    fn error(&self, model: &[f64], point: usize) -> f64 {
        let row = self.rows.get(point).map(Vec::as_slice).unwrap_or_default();
        let predicted: f64 = row.iter().zip(model).map(|(a, b)| a * b).sum();
        predicted - self.targets.get(point).copied().unwrap_or_default()
    }

    fn squares(&self, model: &[f64], among: &[usize]) -> f64 {
        let square = |point: &usize| self.error(model, *point).powi(2);
        among.iter().map(square).sum()
    }

    fn quality(&self, model: Vec<f64>) -> Fit<Vec<f64>> {
        let every: Vec<usize> = (0..self.targets.len()).collect();
        let count = self.targets.len() as f64;
        let mean = self.targets.iter().sum::<f64>() / count;
        let off = self.targets.iter().map(|value| (value - mean).powi(2));
        let variance: f64 = off.sum();
        let squares = self.squares(&model, &every);
        let exact = squares <= EXACT * self.targets.iter().map(|value| value * value).sum::<f64>();
        let r_squared = if exact { 1.0 } else { 1.0 - squares / variance };
        Fit {
            model,
            r_squared,
            rmse: (squares / count).sqrt(),
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied().unwrap_or_default();
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|i| values.get(i)).copied();
    (lower.unwrap_or(upper) + upper) / 2.0
}
