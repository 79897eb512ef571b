//! Growth of the rate, for replicas that take seconds to tens of seconds until they serve: a rise goes on meanwhile, and
//! three seconds of samples do not show a slow one. Pure.
//!
//! - A slow rise is the slope of the last half minute. Samples before the end of a steep rise, or of one that is detected
//!   otherwise, do not count.
//! - A steep rise is certain by the samples of the last seconds, and is extrapolated. A step is no rise.

use std::time::Duration;

use super::samples::{Recent, Sample};
use super::trend::{Point, Trend};

/// Span of the samples.
const SPAN: Duration = Duration::from_secs(30);
/// Shortest span whose slope counts as slow, s.
const SPAN_MIN_S: f64 = 15.0;
/// Span that may show a steep rise, s: a shorter one is not certain of it in time, a longer one shows an earlier slope.
const STEEP_S: f64 = 6.0;

/// Samples of the last half minute.
#[derive(Debug, Clone, Default)]
pub(super) struct Slope {
    samples: Recent<Sample>,
    /// Growth of a slow rise.
    growth: f64,
    steep: Option<Trend>,
    /// Latest time of a steep rise or step.
    risen: Duration,
}

impl Slope {
    /// Takes in a sample, after a step or rise that was detected at `risen`.
    pub(super) fn observe(&mut self, at: Duration, rate: f64, seconds: f64, risen: Duration) {
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
        let latest = |span_s: f64| {
            let within = move |point: &&Point| point.ago_s < span_s * 0.999;
            points.iter().take_while(within).copied()
        };
        self.steep = Trend::of(latest(STEEP_S), false).filter(|trend| trend.is_rising());
        self.risen = match self.steep {
            Some(_) => at,
            None => self.risen.max(risen),
        };
        let quiet_s = at.saturating_sub(self.risen).as_secs_f64();
        let span_s: f64 = latest(quiet_s).map(|point| point.seconds).sum();
        let trend = Trend::of(latest(quiet_s), false).filter(|_| span_s >= SPAN_MIN_S);
        self.growth = trend.map_or(0.0, Trend::lower);
    }

    /// Certain growth of a slow rise, in requests/s each second.
    pub(super) fn growth(&self) -> f64 {
        self.growth
    }

    /// Rate that a steep rise comes to after that time; `None` without one.
    pub(super) fn after(&self, time: Duration) -> Option<f64> {
        let steep = self.steep?;
        Some(steep.line_after(time.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope(rates: impl IntoIterator<Item = f64>) -> Slope {
        let mut slope = Slope::default();
        for (quarter, rate) in (1..).zip(rates) {
            let at = Duration::from_millis(250 * quarter);
            slope.observe(at, rate, 0.25, Duration::ZERO);
        }
        slope
    }

    fn growth(rates: impl IntoIterator<Item = f64>) -> f64 {
        let quarters = rates.into_iter().flat_map(|rate| [rate; 4]);
        slope(quarters).growth()
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

    /// Rates a quarter of a second apart, after 20 s of 40 requests/s → the rate in 10 s.
    fn after(rates: impl IntoIterator<Item = f64>) -> Option<f64> {
        let steady = std::iter::repeat_n(40.0, 80);
        slope(steady.chain(rates)).after(Duration::from_secs(10))
    }

    #[test]
    fn steep_rise_is_extrapolated_and_no_step_is() {
        // 10 requests/s more each second, for 6 s: 100, and 200 in 10 s.
        let rise = |quarter: u32| 40.0 + 2.5 * f64::from(quarter);
        let then = after((1..=24).map(rise)).unwrap();
        assert!((180.0..=205.0).contains(&then), "{then}");
        // At most three times the rate.
        let doubling = |quarter: u32| 40.0 * libm::pow(2.0, f64::from(quarter) / 4.0);
        let then = after((1..=12).map(doubling)).unwrap();
        assert!((400.0..=960.0).contains(&then), "{then}");
        assert_eq!(after([]), None);
        for quarters in 1..60 {
            assert_eq!(
                after(std::iter::repeat_n(300.0, quarters)),
                None,
                "{quarters}"
            );
        }
        // A rise of 3 s that has ended is none.
        let ended = (1..=12).map(|quarter| 40.0 + 20.0 * f64::from(quarter));
        let ended = ended.chain([280.0; 28]);
        assert_eq!(after(ended), None);
    }
}
