//! Mean rate of a load that changes by chance only. Pure.
//!
//! It is a mean over about [`SPAN_S`], which chance moves little. A count that chance does not explain ends that load:
//! the mean begins anew with it. The lower bound of the last ten seconds counts too, since a small rise takes long to
//! be certain.

use super::Observed;

/// Time constant of the mean, s.
const SPAN_S: f64 = 30.0;
/// Spans whose counts may show that the load is another one, s: a rise shows in each, a fall in the last.
const SPANS_S: [f64; 3] = [1.0, 3.0, 10.0];
/// Standard deviations of a count that chance does not explain.
const CHANGED: f64 = 4.0;
/// Standard deviations from a count down to its lower bound.
const DEVIATIONS: f64 = 2.0;

/// Mean since the load has been the same.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LongMean {
    mean: f64,
    /// Time over which it is a mean.
    seconds: f64,
    /// Lower bound of the last seconds.
    bound: f64,
}

impl LongMean {
    /// Takes in the latest sample.
    pub(super) fn observe(&mut self, observed: &Observed<'_>) {
        let seconds = observed.seconds;
        if seconds <= 0.0 {
            return;
        }
        self.seconds += seconds;
        let weight = (seconds / self.seconds).max(1.0 - libm::exp(-seconds / SPAN_S));
        self.mean += weight * (observed.rate - self.mean);
        let longest = SPANS_S.into_iter().fold(0.0, f64::max);
        for span in SPANS_S {
            let (requests, seconds) = observed.samples.count(span);
            let expected = self.mean * seconds;
            let apart = CHANGED * libm::sqrt(expected.max(1.0));
            // A load that has just risen was lower before.
            let whole = span >= longest && self.seconds >= longest;
            if requests > expected + apart || whole && requests < expected - apart {
                (self.mean, self.seconds) = (requests / seconds, seconds);
                break;
            }
        }
        let (requests, seconds) = observed.samples.count(longest);
        self.bound = (requests - DEVIATIONS * libm::sqrt(requests)) / seconds;
    }

    /// Rate after the last sample, requests/s.
    pub(super) fn rate(self) -> f64 {
        self.mean.max(self.bound)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::samples::{Recent, Sample};
    use super::*;

    /// Samples of a quarter of a second → the rate after each.
    fn rates(counts: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let mut mean = LongMean::default();
        let mut samples: Recent<Sample> = Recent::default();
        let mut at = Duration::ZERO;
        let mut observe = |requests: f64| {
            at += Duration::from_millis(250);
            let sample = Sample {
                requests,
                seconds: 0.25,
            };
            samples.push(at, sample, at.saturating_sub(Duration::from_secs(13)));
            mean.observe(&Observed {
                at,
                rate: requests / 0.25,
                seconds: 0.25,
                known: 0.0,
                samples: &samples,
                oldest: Duration::ZERO,
            });
            mean.rate()
        };
        counts.into_iter().map(&mut observe).collect()
    }

    #[test]
    fn chance_moves_the_mean_little() {
        // 20/s in bunches: a deviation of a third by sample, as much as Poisson arrivals have over three seconds.
        let counts = (0..400).map(|sample| [3.0, 8.0, 5.0, 6.0, 3.0][sample % 5]);
        let rates = rates(counts);
        assert!(
            rates[40..].iter().all(|rate| (rate - 20.0).abs() < 1.0),
            "{rates:?}"
        );
    }

    #[test]
    fn rise_counts_within_a_second_and_fall_within_ten() {
        let of = |before: f64, after: f64| {
            let counts = [vec![before; 200], vec![after; 80]].concat();
            rates(counts).split_off(200)
        };
        let risen = of(5.0, 15.0);
        assert!(risen[3] > 40.0 && risen[12] > 50.0, "{risen:?}");
        let fallen = of(15.0, 5.0);
        assert!(fallen[8] > 45.0 && fallen[40] < 25.0, "{fallen:?}");
    }
}
