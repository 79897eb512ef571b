//! Features of the last two minutes, for the linear model: logarithms of means and maxima, relative to the mean of the
//! window, so that they are the same for any level of the load.

use crate::history::{History, mean, peak};
use crate::loss::log_rate;

/// Number of features.
pub(crate) const FEATURES: usize = 14;

/// Features of a window, and the logarithm that the prediction is relative to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Features {
    pub(crate) values: [f64; FEATURES],
    pub(crate) base: f64,
}

impl Features {
    /// Features of a full window; `None` before.
    pub(crate) fn of(history: &History, horizon: usize) -> Option<Features> {
        if !history.is_full() {
            return None;
        }
        let window = history.last(120);
        let (minute, recent) = (history.last(60), history.last(20));
        let base = log_rate(mean(window));
        let relative = |rate: f64| log_rate(rate) - base;
        let recent_mean = mean(recent);
        let (deviation, long_deviation) = (deviation(recent), deviation(window));
        Some(Features {
            values: [
                1.0,
                base,
                relative(mean(history.last(1))),
                relative(mean(history.last(5))),
                relative(recent_mean),
                relative(mean(minute)),
                relative(peak(history.last(horizon))),
                relative(peak(history.last(5))),
                relative(peak(recent)),
                relative(peak(minute)),
                relative(peak(window)),
                relative(recent_mean + 2.0 * deviation),
                relative(mean(window) + 2.0 * long_deviation),
                1.0 / libm::sqrt(1.0 + recent_mean),
            ],
            base,
        })
    }
}

/// Standard deviation.
fn deviation(rates: &[f64]) -> f64 {
    let mean = mean(rates);
    let squares: f64 = rates.iter().map(|rate| (rate - mean) * (rate - mean)).sum();
    libm::sqrt(squares / rates.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_need_a_full_window_and_are_finite() {
        let mut history = History::default();
        for at in 1..120 {
            history.push(at, 3.0);
            assert_eq!(Features::of(&history, 20), None);
        }
        history.push(120, 3.0);
        let steady = Features::of(&history, 20).unwrap();
        assert!((steady.base - libm::log(4.0)).abs() < 1e-12);
        assert!(steady.values[2..13].iter().all(|value| value.abs() < 1e-12));
        for at in 121..500 {
            history.push(at, if at % 7 == 0 { 1e5 } else { 0.0 });
            let features = Features::of(&history, 1).unwrap();
            assert!(features.values.iter().all(|value| value.is_finite()));
        }
    }
}
