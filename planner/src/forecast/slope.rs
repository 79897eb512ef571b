//! Slow rise: the slope of the rate over the last half minute. Pure.
//!
//! Replicas take seconds to tens of seconds until they serve. A rise that takes minutes goes on meanwhile, and three
//! seconds of samples do not show it. A step is no slope: after one, samples are taken anew.

use std::time::Duration;

use super::samples::{Recent, Sample};
use super::trend::{Point, Trend};

/// Span of the samples.
const SPAN: Duration = Duration::from_secs(30);
/// Shortest span whose slope counts, s.
const SPAN_MIN_S: f64 = 15.0;

/// Samples of the last half minute.
#[derive(Debug, Clone, Default)]
pub(super) struct Slope {
    samples: Recent<Sample>,
    growth: f64,
}

impl Slope {
    /// Takes in a sample.
    pub(super) fn observe(&mut self, at: Duration, rate: f64, seconds: f64) {
        let sample = Sample {
            requests: rate * seconds,
            seconds,
        };
        self.samples.push(at, sample, at.saturating_sub(SPAN));
        let points = self.samples.latest().map(|(end, sample)| Point {
            requests: sample.requests,
            seconds: sample.seconds,
            ago_s: at.saturating_sub(end).as_secs_f64(),
        });
        let points: Vec<Point> = points.collect();
        let span: f64 = points.iter().map(|point| point.seconds).sum();
        let trend = Trend::of(points.into_iter(), false).filter(|_| span >= SPAN_MIN_S);
        self.growth = trend.map_or(0.0, Trend::lower);
    }

    /// Certain growth, in requests/s each second.
    pub(super) fn growth(&self) -> f64 {
        self.growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(rates: impl IntoIterator<Item = f64>) -> f64 {
        let mut slope = Slope::default();
        for (second, rate) in (1..).zip(rates) {
            slope.observe(Duration::from_secs(second), rate, 1.0);
        }
        slope.growth()
    }

    #[test]
    fn slow_rise_grows_and_nothing_else_does() {
        let swell = |second: u32| 50.0 + 2.0 * f64::from(second);
        let grows = growth((0..60).map(swell));
        assert!((1.7..2.0).contains(&grows), "{grows}");
        assert_eq!(growth((0..10).map(swell)), 0.0);
        assert_eq!(growth((0..60).rev().map(swell)), 0.0);
        assert_eq!(growth([100.0; 60]), 0.0);
        // Chance: alternating about 100.
        let chance = (0..60).map(|second| if second % 2 == 0 { 90.0 } else { 110.0 });
        assert_eq!(growth(chance), 0.0);
    }
}
