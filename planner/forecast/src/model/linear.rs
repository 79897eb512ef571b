//! Linear quantile regression of the peak's logarithm on [features](crate::features) of the last two minutes.
//!
//! The pinball loss is minimised by iteratively reweighted least squares, in one pass over the seconds: each pair of
//! features and peak counts with weight q/|e| or (1 − q)/|e| for its present error e. The sums forget with a time
//! constant, so that the fit follows a load that changes. A second costs a fixed number of multiplications, and the
//! equations are solved once in [`SOLVE_SECONDS`].

use std::collections::VecDeque;

use nalgebra::{SMatrix, SVector};

use super::{Model, Prediction};
use crate::features::{FEATURES, Features};
use crate::history::History;
use crate::learnt::{LearntFit, LearntModel, SUM_MAX, WEIGHT_MAX, are_within};
use crate::loss::from_log;
use crate::task::Task;

/// Interval of solving, in seconds.
const SOLVE_SECONDS: u64 = 60;
/// Pairs that the sums remember: a quarter of all so far, because early ones have the weights of a fit that was still
/// wrong, and four days at most.
const MEMORY_MIN: f64 = 600.0;
const MEMORY_MAX: f64 = 4.0 * 86_400.0;
/// Pairs before the first solution.
const PAIRS_MIN: u64 = 300;
/// Pairs that count alike, before errors are known well enough to weigh by.
const PAIRS_ALIKE: u64 = 1200;
/// Error below which a pair gets no more weight, as a logarithm.
const ERROR_MIN: f64 = 0.01;
/// Ridge, which keeps the equations solvable where features are equal.
const RIDGE: f64 = 1.0;

/// Linear models of median and quantile, fitted while they run.
#[derive(Debug)]
pub struct Linear {
    horizon: usize,
    fits: [Fit; 2],
    /// Features of the latest seconds, whose peaks are not known yet.
    pending: VecDeque<(u64, Features)>,
    pairs: u64,
}

/// Weighted least squares of one quantile.
#[derive(Debug)]
struct Fit {
    quantile: f64,
    squares: SMatrix<f64, FEATURES, FEATURES>,
    products: SVector<f64, FEATURES>,
    weights: SVector<f64, FEATURES>,
}

impl Linear {
    /// Creates a model that has seen nothing.
    pub fn new(task: Task) -> Linear {
        Linear {
            horizon: task.horizon(),
            fits: [Fit::new(0.5), Fit::new(task.quantile())],
            pending: VecDeque::new(),
            pairs: 0,
        }
    }

    fn learn(&mut self, features: &Features, peak_log: f64) {
        let target = peak_log - features.base;
        let alike = self.pairs < PAIRS_ALIKE;
        let memory = (self.pairs as f64 / 4.0).clamp(MEMORY_MIN, MEMORY_MAX);
        let kept = 1.0 - 1.0 / memory;
        for fit in &mut self.fits {
            fit.learn(features, target, alike, kept);
        }
        self.pairs += 1;
        let due = self.pairs == PAIRS_MIN || self.pairs.is_multiple_of(SOLVE_SECONDS);
        if due && self.pairs >= PAIRS_MIN {
            for fit in &mut self.fits {
                fit.solve();
            }
        }
    }
}

impl Fit {
    fn new(quantile: f64) -> Fit {
        Fit {
            quantile,
            squares: SMatrix::zeros(),
            products: SVector::zeros(),
            weights: SVector::zeros(),
        }
    }

    fn learn(&mut self, features: &Features, target: f64, alike: bool, kept: f64) {
        let values = SVector::from(features.values);
        let error = target - self.weights.dot(&values);
        let side = if error > 0.0 {
            self.quantile
        } else {
            1.0 - self.quantile
        };
        let weight = if alike {
            1.0
        } else {
            side / error.abs().max(ERROR_MIN)
        };
        self.squares *= kept;
        self.products *= kept;
        self.squares.ger(weight, &values, &values, 1.0);
        self.products.axpy(weight * target, &values, 1.0);
    }

    /// Keeps the earlier weights if the equations have no solution.
    fn solve(&mut self) {
        let ridged = self.squares + SMatrix::identity() * RIDGE;
        if let Some(factors) = ridged.cholesky() {
            self.weights = factors.solve(&self.products);
        }
    }

    fn predict(&self, features: &Features) -> f64 {
        let values = SVector::from(features.values);
        from_log(features.base + self.weights.dot(&values))
    }
}

impl Model for Linear {
    fn observe(&mut self, history: &History) {
        let now = history.at();
        let due = now.saturating_sub(self.horizon as u64);
        while let Some((_, features)) = self.pending.pop_front_if(|(at, _)| *at <= due) {
            // After a gap the peak is not known.
            if history.len() >= self.horizon {
                self.learn(&features, crate::loss::log_rate(history.peak(self.horizon)));
            }
        }
        if history.len() == 1 {
            self.pending.clear();
        }
        let features = Features::of(history, self.horizon);
        self.pending
            .extend(features.map(|features| (now, features)));
    }

    fn predict(&self, history: &History) -> Option<Prediction> {
        let (_, features) = self.pending.back().filter(|(at, _)| *at == history.at())?;
        let [median, upper] = &self.fits;
        let median = median.predict(features);
        (self.pairs >= PAIRS_MIN).then(|| Prediction {
            median,
            upper: upper.predict(features).max(median),
        })
    }

    fn learnt(&self) -> LearntModel {
        let fit = |fit: &Fit| LearntFit {
            squares: fit.squares.iter().copied().collect(),
            products: fit.products.iter().copied().collect(),
            weights: fit.weights.iter().copied().collect(),
        };
        LearntModel::Linear {
            pairs: self.pairs,
            fits: self.fits.iter().map(fit).collect(),
        }
    }

    fn relearn(&mut self, learnt: &LearntModel) -> bool {
        let LearntModel::Linear { pairs, fits } = learnt else {
            return false;
        };
        let is_valid = |fit: &LearntFit| {
            are_within(&fit.squares, FEATURES * FEATURES, SUM_MAX)
                && are_within(&fit.products, FEATURES, SUM_MAX)
                && are_within(&fit.weights, FEATURES, WEIGHT_MAX)
        };
        if fits.len() != self.fits.len() || !fits.iter().all(is_valid) {
            return false;
        }
        self.pairs = *pairs;
        for (own, fit) in self.fits.iter_mut().zip(fits) {
            own.squares = SMatrix::from_column_slice(&fit.squares);
            own.products = SVector::from_column_slice(&fit.products);
            own.weights = SVector::from_column_slice(&fit.weights);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn quantiles_of_a_known_distribution_are_found() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let task = Task::new(1, 0.9).unwrap();
        let (mut model, mut history) = (Linear::new(task), History::default());
        for at in 1..20_000 {
            // Uniform between 50 and 150, whatever was before.
            history.push(at, 50.0 + 100.0 * rng.random::<f64>());
            model.observe(&history);
            let early = at < PAIRS_MIN;
            assert!(!early || model.predict(&history).is_none());
        }
        let (mut above, mut above_median, n) = (0, 0, 5000);
        for at in 20_000..20_000 + n {
            let forecast = model.predict(&history).unwrap();
            history.push(at, 50.0 + 100.0 * rng.random::<f64>());
            model.observe(&history);
            above += u64::from(history.peak(1) > forecast.upper);
            above_median += u64::from(history.peak(1) > forecast.median);
        }
        let part = |count: u64| count as f64 / n as f64;
        assert!((0.08..0.12).contains(&part(above)), "{}", part(above));
        assert!(
            (0.47..0.53).contains(&part(above_median)),
            "{}",
            part(above_median)
        );
    }

    #[test]
    fn nothing_is_learned_over_a_gap() {
        let task = Task::new(20, 0.9).unwrap();
        let (mut model, mut history) = (Linear::new(task), History::default());
        let mut at = 0;
        for _ in 0..100 {
            for _ in 0..130 {
                at += 1;
                history.push(at, 10.0);
                model.observe(&history);
                assert!(model.pending.len() <= 20);
            }
            at += 1000;
        }
        assert_eq!(model.pairs, 0);
        for _ in 0..150 {
            at += 1;
            history.push(at, 10.0);
            model.observe(&history);
        }
        // Features from second 120 on, each with the 20 seconds after it.
        assert_eq!(model.pairs, 11);
    }
}
