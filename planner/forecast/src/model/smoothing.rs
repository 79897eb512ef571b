//! Exponential smoothing of mean and variance. The peak of H independent normal rates has the quantile q where one of
//! them has q^(1/H).

use super::{Model, Prediction};
use crate::history::History;
use crate::loss::{from_log, log_rate};
use crate::normal;
use crate::task::Task;

/// Time constant of mean and variance, in seconds.
pub(super) const TIME_CONSTANT_S: f64 = 20.0;

/// Exponentially weighted mean and variance, and what they make of the peak.
#[derive(Debug)]
pub(super) struct Smoothing {
    /// Deviations above the mean of the peak's median and of its quantile.
    deviations: [f64; 2],
    mean: f64,
    variance: f64,
    /// Weight that has been taken in so far, 0 to 1.
    weight: f64,
}

impl Smoothing {
    pub(super) fn new(task: Task) -> Smoothing {
        let seconds = task.horizon() as f64;
        let of_peak = |quantile: f64| normal::quantile(libm::pow(quantile, 1.0 / seconds));
        Smoothing {
            deviations: [of_peak(0.5), of_peak(task.quantile())],
            mean: 0.0,
            variance: 0.0,
            weight: 0.0,
        }
    }

    /// Moves mean and deviation by a logarithm.
    pub(super) fn shift(&mut self, log: f64) {
        let factor = libm::exp(log);
        self.variance *= factor * factor;
        self.mean = from_log(log_rate(self.mean) + log);
    }
}

impl Model for Smoothing {
    fn observe(&mut self, history: &History) {
        let Some(rate) = history.last(1).last() else {
            return;
        };
        if history.len() == 1 {
            self.weight = 0.0;
        }
        let new = 1.0 - libm::exp(-1.0 / TIME_CONSTANT_S);
        self.weight += new * (1.0 - self.weight);
        // The first second has the whole weight.
        let part = new / self.weight;
        let change = rate - self.mean;
        self.mean += part * change;
        self.variance = (1.0 - part) * (self.variance + part * change * change);
    }

    fn predict(&self, history: &History) -> Option<Prediction> {
        let [median, upper] = self
            .deviations
            .map(|deviations| (self.mean + deviations * libm::sqrt(self.variance)).max(0.0));
        (history.len() > 1).then_some(Prediction { median, upper })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_rate_is_its_own_peak_and_noise_lifts_it() {
        let mut history = History::default();
        let mut smoothing = Smoothing::new(Task::new(20, 0.95).unwrap());
        let mut at = 0;
        let mut run = |smoothing: &mut Smoothing, seconds: u64, rate: &dyn Fn(u64) -> f64| {
            for _ in 0..seconds {
                at += 1;
                history.push(at, rate(at));
                smoothing.observe(&history);
            }
            smoothing.predict(&history)
        };
        assert_eq!(run(&mut smoothing, 1, &|_| 30.0), None);
        let steady = run(&mut smoothing, 50, &|_| 30.0).unwrap();
        assert!((steady.median - 30.0).abs() < 1e-6 && (steady.upper - 30.0).abs() < 1e-6);
        let noisy = run(&mut smoothing, 400, &|at| 20.0 + 20.0 * (at % 2) as f64).unwrap();
        // The peak of 20 exceeds 1.82 deviations half of the time, 2.80 once in twenty times.
        assert!((noisy.median - 48.2).abs() < 1.0 && (noisy.upper - 58.0).abs() < 1.0);
    }
}
