//! Greatest rate of the window. Pure.
//!
//! The rate is a mean over `demand.moving` (3 s), not over single seconds: at 40 requests/s one second is Poisson with
//! a deviation of 16 %, and the greatest of ten such seconds lies 24 % above the true rate; means of three seconds lie
//! about 10 % above it.
//!
//! A steep rise is over before three seconds have shown it. So a single second counts too, by its lower bound of two
//! deviations, (k − 2√k) / s. The greatest of ten such bounds lies below the true rate while that is steady, and within a
//! cycle of it when it doubles.

use std::time::Duration;

use super::samples::Recent;
use super::{Forecaster, Observed};

/// Shortest span whose count is a rate by itself, s: shorter ones are bursts.
const SECOND_S: f64 = 1.0;
/// Deviations from a count down to its lower bound.
const DEVIATIONS: f64 = 2.0;

/// Greatest moving mean and lower bound over the window.
#[derive(Debug, Clone)]
pub(super) struct WindowMax {
    moving_s: f64,
    rates: Recent<Rates>,
}

/// Rates at the end of a sample, requests/s.
#[derive(Debug, Clone, Copy)]
struct Rates {
    /// Mean over `moving_s`.
    mean: f64,
    /// The greater of the mean and the lower bound of the last second.
    max: f64,
}

impl WindowMax {
    /// No rate known yet.
    pub(super) fn new(moving_s: f64) -> WindowMax {
        WindowMax {
            moving_s,
            rates: Recent::default(),
        }
    }
}

impl Forecaster for WindowMax {
    fn observe(&mut self, observed: &Observed<'_>) {
        if observed.seconds <= 0.0 {
            return self.rates.forget(observed.oldest);
        }
        let (requests, seconds) = observed.samples.count(self.moving_s);
        let mean = requests / seconds;
        let (requests, seconds) = observed.samples.count(SECOND_S);
        let bound = (requests - DEVIATIONS * requests.sqrt()) / seconds.max(SECOND_S);
        let rates = Rates {
            mean,
            max: mean.max(bound),
        };
        self.rates.push(observed.at, rates, observed.oldest);
    }

    fn rate(&self, since: Duration) -> f64 {
        let max = self.rates.since(since).map(|rates| rates.max);
        max.fold(0.0, f64::max)
    }

    fn sustained(&self, since: Duration) -> Option<f64> {
        let means = self.rates.since(since).map(|rates| rates.mean);
        means.reduce(f64::min)
    }
}
