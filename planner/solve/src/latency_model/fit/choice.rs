//! Choice of a latency model by cross-validation: each kind is fitted robustly to all points but one and predicts that
//! one. Of many points, one in [`FOLDS_MAX`] is left out at a time. The kind with the smallest error of these predictions is taken, or one with fewer coefficients whose error is
//! hardly larger.

use super::robust::{FOLDS_MAX, robust, robust_centre};
use super::{EXACT, rows};
use crate::InputError;
use crate::input::rule;
use crate::latency_model::{
    Amdahl, Cell, Latency, LatencyModel, Linear, Quadratic, Table, batch::takes_time,
};

/// A kind with fewer coefficients is taken up to this multiple of the smallest error.
const SIMPLER: f64 = 1.1;
/// It is also taken if its errors are larger by no more than this many standard errors of their differences.
const CERTAIN: f64 = 2.0;
/// Multiple of the smallest error up to which that holds, unless its own is good: few points have a large standard error.
const CERTAIN_MAX: f64 = 2.0;
/// Mean error of the predictions in percent, up to which a kind that is cross-validated is taken before one that the
/// points determine, but not without each of them.
const GOOD_PERCENT: f64 = 10.0;
/// Smallest part of the points that cross-validation must predict.
const PREDICTED_MIN: f64 = 0.5;

/// Kind of latency model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The same time for every batch on any number of cores.
    Constant,
    /// Linear in the batch, independent of the cores.
    Linear,
    /// Amdahl's.
    Amdahl,
    /// Sponge's Eq. 2, with the coefficients that the points determine.
    Sponge,
    /// Quadratic in the batch, independent of the cores.
    Quadratic,
    /// Interpolated measurements.
    Table,
}

/// Model of one kind that was fitted to all points, with its errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Kind.
    pub form: Form,
    /// The model.
    pub latency: Latency,
    /// Number of coefficients.
    pub coefficients: usize,
    /// Part of the variance that the model explains, at best 1.
    pub r_squared: f64,
    /// Predicted over measured latency of each point, in percent above or below.
    pub residuals_percent: Vec<f64>,
    /// Weight of each point in the fit: below 1 where its error is large against the others'.
    pub weights: Vec<f64>,
    /// Errors of cross-validation; `None` if too few points can be left out.
    pub left_out: Option<LeftOut>,
}

/// Errors of predictions of points that the model was not fitted to, in percent of the measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Mean absolute error.
    pub mean_percent: f64,
    /// Largest absolute error.
    pub max_percent: f64,
    /// Absolute error of each point; `None` where the others do not determine it.
    pub errors_percent: Vec<Option<f64>>,
}

impl Form {
    /// Every kind, those with the fewest coefficients first.
    pub const ALL: [Form; 6] = [
        Form::Constant,
        Form::Linear,
        Form::Amdahl,
        Form::Sponge,
        Form::Quadratic,
        Form::Table,
    ];

    /// Name as in a document.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Form::Constant => "constant",
            Form::Linear => "linear",
            Form::Amdahl => "amdahl",
            Form::Sponge => "sponge",
            Form::Quadratic => "quadratic",
            Form::Table => "table",
        }
    }

    /// Fits a model of this kind to all points, and to all but each of them.
    ///
    /// # Errors
    /// Invalid numbers, or points that do not determine the coefficients.
    pub fn candidate(self, points: &[Cell]) -> Result<Candidate, InputError> {
        let columns = columns(points);
        let (latency, weights) = self.fitted(points, columns)?;
        let coefficients = match self {
            Form::Constant => 1,
            Form::Linear | Form::Amdahl => 2,
            Form::Sponge => columns.len(),
            Form::Quadratic => 3,
            Form::Table => points.len(),
        };
        let residual = |cell: &Cell| {
            let predicted = latency.ms(cell.batch, cell.cores);
            100.0 * (predicted / cell.latency_ms - 1.0)
        };
        Ok(Candidate {
            form: self,
            coefficients,
            r_squared: r_squared(points, &latency),
            residuals_percent: points.iter().map(residual).collect(),
            weights,
            left_out: self.left_out(points, columns),
            latency,
        })
    }

    fn left_out(self, points: &[Cell], columns: &[usize]) -> Option<LeftOut> {
        let folds = points.len().min(FOLDS_MAX);
        let without = |fold: usize| {
            let others = points
                .iter()
                .enumerate()
                .filter(|(at, _)| at % folds != fold);
            let others: Vec<Cell> = others.map(|(_, cell)| *cell).collect();
            self.fitted(&others, columns)
                .ok()
                .map(|(latency, _)| latency)
        };
        let models: Vec<Option<Latency>> = (0..folds).map(without).collect();
        let error = |(index, point): (usize, &Cell)| {
            let latency = models.get(index % folds)?.as_ref()?;
            let predicted = latency.ms(point.batch, point.cores);
            // A table knows nothing beyond its points.
            let is_known = predicted.is_finite();
            is_known.then(|| 100.0 * (predicted / point.latency_ms - 1.0).abs())
        };
        let errors_percent: Vec<Option<f64>> = points.iter().enumerate().map(error).collect();
        let known = || errors_percent.iter().flatten().copied();
        let count = known().count() as f64;
        let enough = count > 0.0 && count >= PREDICTED_MIN * points.len() as f64;
        enough.then(|| LeftOut {
            mean_percent: known().sum::<f64>() / count,
            max_percent: known().fold(0.0, f64::max),
            errors_percent: errors_percent.clone(),
        })
    }

    /// Returns the model, and each point's weight. `columns` are Sponge's coefficients that may be above 0.
    fn fitted(self, points: &[Cell], columns: &[usize]) -> Result<(Latency, Vec<f64>), InputError> {
        let right = match self {
            Form::Constant => "1 point or more",
            Form::Linear | Form::Quadratic => "points of two batches or more, three if quadratic",
            Form::Amdahl => "points on two numbers of cores or more",
            _ => "points with different batches on each of the numbers of cores",
        };
        let fit = |columns: &[usize]| {
            let all = rows(points)?;
            let of = |row: &Vec<f64>, point: &Cell| -> Vec<f64> {
                let factor = |column: &usize| row.get(*column).copied().unwrap_or_default();
                let factors = columns.iter().map(factor);
                factors.map(|factor| factor / point.latency_ms).collect()
            };
            let relative = all.iter().zip(points).map(|(row, point)| of(row, point));
            let found = robust(relative.collect(), false, right)?;
            let mut model = [0.0; 4];
            for (column, value) in columns.iter().zip(&found.model) {
                if let Some(coefficient) = model.get_mut(*column) {
                    *coefficient = *value;
                }
            }
            Ok::<_, InputError>((model, found.weights))
        };
        let (latency, weights) = match self {
            Form::Constant => {
                rows(points)?;
                let all: Vec<f64> = points.iter().map(|point| point.latency_ms).collect();
                let (ms, weights) = robust_centre(&all, right)?;
                (Latency::Sponge(LatencyModel::constant(ms)), weights)
            }
            Form::Linear => {
                let ([_, _, item_ms, fixed_ms], weights) = fit(&[2, 3])?;
                (Latency::Linear(Linear { item_ms, fixed_ms }), weights)
            }
            Form::Amdahl => {
                let ([parallel_ms, _, serial_ms, _], weights) = fit(&[0, 2])?;
                let amdahl = Amdahl {
                    serial_ms,
                    parallel_ms,
                };
                (Latency::Amdahl(amdahl), weights)
            }
            Form::Sponge => {
                let ([gamma_ms, epsilon_ms, delta_ms, eta_ms], weights) = fit(columns)?;
                let model = LatencyModel {
                    gamma_ms,
                    epsilon_ms,
                    delta_ms,
                    eta_ms,
                };
                (Latency::Sponge(model), weights)
            }
            Form::Quadratic => quadratic(points, right)?,
            Form::Table => {
                let table = Table::new(points.to_vec())?;
                (Latency::Table(table), vec![1.0; points.len()])
            }
        };
        Ok((latency, weights))
    }
}

impl Candidate {
    /// Returns R²; `None` with no more points than coefficients, which most models of the kind meet exactly.
    #[must_use]
    pub fn overdetermined_r_squared(&self) -> Option<f64> {
        let points = self.residuals_percent.len();
        (points > self.coefficients).then_some(self.r_squared)
    }
}

impl LeftOut {
    /// Number of points that could be predicted.
    #[must_use]
    pub fn points(&self) -> usize {
        self.errors_percent.iter().flatten().count()
    }

    /// Whether these errors are hardly larger than the smallest ones, point by point: a wrong point is badly predicted
    /// by every kind.
    fn is_near(&self, best: &LeftOut) -> bool {
        if self.mean_percent <= SIMPLER * best.mean_percent {
            return true;
        }
        if self.mean_percent > GOOD_PERCENT.max(CERTAIN_MAX * best.mean_percent) {
            return false;
        }
        let pairs = self.errors_percent.iter().zip(&best.errors_percent);
        let more: Vec<f64> = pairs.filter_map(|(a, b)| Some((*a)? - (*b)?)).collect();
        let count = more.len() as f64;
        let mean = more.iter().sum::<f64>() / count;
        let squares: f64 = more.iter().map(|one| (one - mean) * (one - mean)).sum();
        count > 1.0 && mean <= CERTAIN * (squares / (count - 1.0) / count).sqrt()
    }
}

impl Latency {
    /// Returns the same latencies as Sponge's model, if they can be expressed by it.
    #[must_use]
    pub fn as_sponge(&self) -> Option<LatencyModel> {
        match self {
            Latency::Sponge(model) => Some(*model),
            Latency::Amdahl(model) => Some(LatencyModel {
                gamma_ms: model.parallel_ms,
                delta_ms: model.serial_ms,
                ..LatencyModel::default()
            }),
            Latency::Linear(model) => Some(LatencyModel {
                delta_ms: model.item_ms,
                eta_ms: model.fixed_ms,
                ..LatencyModel::default()
            }),
            Latency::Quadratic(_) | Latency::Table(_) => None,
        }
    }
}

/// Chooses among candidates, which are in the order of [`Form::ALL`].
#[must_use]
pub fn choose<'a>(
    candidates: impl Iterator<Item = &'a Candidate> + Clone,
) -> Option<&'a Candidate> {
    let validated = || {
        let all = candidates.clone();
        all.filter_map(|one| Some((one, one.left_out.as_ref()?)))
    };
    let best = validated().min_by(|a, b| a.1.mean_percent.total_cmp(&b.1.mean_percent));
    let near = validated().filter(|(_, errors)| best.is_some_and(|(_, best)| errors.is_near(best)));
    let simplest = near.min_by_key(|(one, _)| one.coefficients);
    let simplest = simplest.map(|(one, errors)| (one, errors.mean_percent));
    let determined = candidates.clone().filter(|one| one.left_out.is_none());
    let closest = determined.min_by(|a, b| {
        let by_fit = b.r_squared.total_cmp(&a.r_squared);
        by_fit.then(a.coefficients.cmp(&b.coefficients))
    });
    match (simplest, closest) {
        (Some((one, error)), Some(other)) if error > GOOD_PERCENT => {
            Some(if other.r_squared > one.r_squared {
                other
            } else {
                one
            })
        }
        (Some((one, _)), _) => Some(one),
        (None, closest) => closest,
    }
}

/// Columns of Sponge's model that the points determine: with one number of cores δ and η, with one batch γ and η, with
/// one of both η.
pub(super) fn columns(points: &[Cell]) -> &'static [usize] {
    let differ = |of: fn(&Cell) -> f64| {
        let mut values = points.iter().map(of);
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    match (
        differ(|cell| cell.cores),
        differ(|cell| f64::from(cell.batch)),
    ) {
        (true, true) => &[0, 1, 2, 3],
        (true, false) => &[0, 3],
        (false, true) => &[2, 3],
        (false, false) => &[3],
    }
}

fn quadratic(points: &[Cell], right: &str) -> Result<(Latency, Vec<f64>), InputError> {
    // As checked as the others' points are.
    rows(points)?;
    let row = |point: &Cell| {
        let batch = f64::from(point.batch);
        let factors = [batch * batch, batch, 1.0];
        factors.map(|factor| factor / point.latency_ms).to_vec()
    };
    let found = robust(points.iter().map(row).collect(), true, right)?;
    let coefficient = |index: usize| found.model.get(index).copied().unwrap_or_default();
    let square_ms = coefficient(0);
    let right = "0 or more: the latency does not grow with the batch as a square";
    rule(
        square_ms >= 0.0,
        "points",
        format!("a square of {square_ms} ms"),
        right,
    )?;
    let quadratic = Latency::Quadratic(Quadratic {
        square_ms,
        item_ms: coefficient(1),
        fixed_ms: coefficient(2),
    });
    takes_time("points", quadratic.ms(1, 1.0))?;
    Ok((quadratic, found.weights))
}

fn r_squared(points: &[Cell], latency: &Latency) -> f64 {
    let measured = || points.iter().map(|point| point.latency_ms);
    let mean_ms = measured().sum::<f64>() / points.len() as f64;
    let variance: f64 = measured().map(|ms| (ms - mean_ms) * (ms - mean_ms)).sum();
    let squares = points.iter().map(|point| {
        let error = latency.ms(point.batch, point.cores) - point.latency_ms;
        error * error
    });
    let squares: f64 = squares.sum();
    match squares <= EXACT * measured().map(|ms| ms * ms).sum::<f64>() {
        true => 1.0,
        false => 1.0 - squares / variance,
    }
}
