//! Exponential average of the rate. It lags behind a rise, and falls smoothly. Pure.

use super::{Forecaster, Observed};

/// Average over the time constant `demand.smoothing`.
#[derive(Debug, Clone)]
pub(super) struct Ewma {
    smoothing_s: f64,
    average: Option<f64>,
}

impl Ewma {
    /// No rate known yet.
    pub(super) fn new(smoothing_s: f64) -> Ewma {
        Ewma {
            smoothing_s,
            average: None,
        }
    }
}

impl Forecaster for Ewma {
    fn observe(&mut self, observed: &Observed<'_>) {
        let weight = 1.0 - libm::exp(-observed.seconds / self.smoothing_s);
        self.average = Some(self.average.map_or(observed.rate, |average| {
            average + weight * (observed.rate - average)
        }));
    }

    fn rate(&self, _since: std::time::Duration) -> f64 {
        self.average.unwrap_or_default()
    }
}
