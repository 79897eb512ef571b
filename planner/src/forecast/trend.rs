//! Counts of the latest samples → the rate that arrives now, and its extrapolation while it rises. Pure.
//!
//! Cores that are requested now are ready later, and others may have to give them up first. If the regression line
//! through the latest samples rises by more than chance explains, the rate at that later time is planned for. A steep
//! rise is extrapolated exponentially: too many cores for a moment cost less than an accurate variant that has to
//! give up its cores at the peak, when nobody can use them. A step is no rise: nothing says that the rate goes on.

mod step;

/// Standard deviations of the slope from which a rise is certain: chance exceeds them once in hours.
const DEVIATIONS: f64 = 4.0;
/// The same while a rise has been detected by other means.
const DEVIATIONS_RISING: f64 = 2.0;
/// Minimum number of samples for a line.
const POINTS_MIN: usize = 6;
/// Maximum extrapolated rate, relative to the present one.
const TIMES_MAX: f64 = 3.0;

/// Requests of a sample, and its duration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) requests: f64,
    pub(super) seconds: f64,
    /// Time since the end of the sample.
    pub(super) ago_s: f64,
}

/// Regression line through the rates of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trend {
    /// Present rate, in requests/s.
    now: f64,
    /// Relative growth per second; 0 if chance explains it.
    growth: f64,
    /// Growth per second less one standard deviation of it, in requests/s.
    lower: f64,
}

impl Trend {
    /// Fits a line by least squares, weighted by duration. `None` if there are too few samples, or none has a request.
    /// `rises` tells whether a rise has already been detected.
    pub(super) fn of(points: impl Iterator<Item = Point>, rises: bool) -> Option<Trend> {
        let points: Vec<Point> = points.filter(|point| point.seconds > 0.0).collect();
        let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
        let (seconds, requests) = (sum(&|point| point.seconds), sum(&|point| point.requests));
        if points.len() < POINTS_MIN || requests <= 0.0 {
            return None;
        }
        let mean = requests / seconds;
        let centre = sum(&|point| point.seconds * point.middle()) / seconds;
        let apart = |point: &Point| point.middle() - centre;
        let spread = sum(&|point| point.seconds * apart(point) * apart(point));
        let slope = sum(&|point| point.requests * apart(point)) / spread;
        // Arrivals in bunches are less certain than Poisson arrivals.
        let square = |point: &Point| {
            let error = point.requests - (mean + slope * apart(point)) * point.seconds;
            error * error / (mean * point.seconds)
        };
        let dispersion = (sum(&square) / (points.len() - 2) as f64).max(1.0);
        let deviation = libm::sqrt(dispersion * mean / spread);
        let deviations = if rises { DEVIATIONS_RISING } else { DEVIATIONS };
        let is_certain = slope > deviations * deviation;
        let line = Trend {
            now: (mean - slope * centre).max(0.0),
            growth: if is_certain { slope / mean } else { 0.0 },
            lower: slope - deviation,
        };
        let step = is_certain.then(|| step::rate_after(&points)).flatten();
        Some(step.map_or(line, |now| Trend {
            now,
            growth: 0.0,
            ..line
        }))
    }

    /// Present rate.
    pub(super) fn now(self) -> f64 {
        self.now
    }

    /// Growth per second by its lower bound of one standard deviation, in requests/s; 0 if that falls.
    pub(super) fn lower(self) -> f64 {
        self.lower.max(0.0)
    }

    /// Whether a rise is certain.
    pub(super) fn is_rising(self) -> bool {
        self.growth > 0.0
    }

    /// Rate after that time, if it grows by the lower bound of its growth.
    pub(super) fn line_after(self, seconds: f64) -> f64 {
        (self.now + self.lower() * seconds).min(self.now * TIMES_MAX)
    }

    /// Rate after that time; `None` if no rise is certain.
    pub(super) fn after(self, seconds: f64) -> Option<f64> {
        let times = libm::exp(self.growth * seconds).min(TIMES_MAX);
        (times > 1.0).then_some(self.now * times)
    }
}

impl Point {
    /// Rate of the sample, in requests/s.
    fn rate(&self) -> f64 {
        self.requests / self.seconds
    }

    /// Middle of the sample, in seconds from now.
    fn middle(&self) -> f64 {
        -(self.ago_s + self.seconds / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a quarter of a second, the latest last.
    fn trend(counts: &[f64], rises: bool) -> Option<Trend> {
        let points = counts.iter().rev().enumerate().map(|(index, count)| Point {
            requests: *count,
            seconds: 0.25,
            ago_s: 0.25 * index as f64,
        });
        Trend::of(points, rises)
    }

    #[test]
    fn line_gives_present_rate_and_growth() {
        // 40 requests/s and 40 more each second, over three seconds.
        let counts: Vec<f64> = (0..12)
            .map(|point| 10.0 + 10.0 * (f64::from(point) + 0.5) / 4.0)
            .collect();
        let trend = trend(&counts, false).unwrap();
        assert!((trend.now() - 160.0).abs() < 1e-9, "{trend:?}");
        let after = trend.after(1.0).unwrap();
        assert!((after - 160.0 * libm::exp(0.4)).abs() < 1e-9, "{after}");
        // The extrapolation is limited to three times the rate.
        assert_eq!(trend.after(60.0), Some(480.0));
    }

    #[test]
    fn slope_within_chance_is_no_rise() {
        let flat = trend(&[10.0; 12], true).unwrap();
        assert_eq!((flat.now(), flat.after(9.0)), (40.0, None));
        // Three deviations, which suffice if a rise has already been detected.
        let slope: Vec<f64> = (0..12).map(|point| 8.0 + 0.85 * f64::from(point)).collect();
        assert_eq!(trend(&slope, false).unwrap().after(1.0), None);
        assert!(trend(&slope, true).unwrap().after(1.0).is_some());
        // The same line, with requests in bunches.
        let bunches: Vec<f64> = (0..12)
            .map(|point| match point % 3 {
                0 => 3.0 * slope.get(point).copied().unwrap_or_default(),
                _ => 0.0,
            })
            .collect();
        assert_eq!(trend(&bunches, true).unwrap().after(1.0), None);
        let falls: Vec<f64> = slope.iter().rev().map(|count| 3.0 * count).collect();
        assert_eq!(trend(&falls, true).unwrap().after(1.0), None);
    }

    #[test]
    fn too_few_samples_or_requests_give_no_trend() {
        assert_eq!(trend(&[10.0; POINTS_MIN - 1], true), None);
        assert_eq!(trend(&[0.0; 12], true), None);
    }
}
