//! Kubernetes' VerticalPodAutoscaler with the defaults of its recommender and updater (kubernetes/autoscaler,
//! `logic/recommender.go`, `logic/estimator.go`, `updater/priority`):
//!
//! - one sample of CPU use a minute in a decaying [`Histogram`]; here the mean of that minute;
//! - target: the 90th percentile plus 15 %; lower and upper bound: the 50th and 95th percentile plus 15 %, times
//!   (1 + 0.001/d)⁻² and 1 + 1/d with a history of d days; none below 25 millicores, all within the bounds of the
//!   resource policy (`cores.min`, `cores.max`);
//! - a pod changes to the target where its request is outside of the bounds, or where it has run for 12 hours and
//!   the target differs by 10 %.
//!
//! The change is made in place (`updateMode: InPlaceOrRecreate`). Requests are limits here, so that use never
//! exceeds what a pod has. In the first quarter of an hour the bounds allow nearly everything: short replays show
//! a VPA that does nothing, as production would.

use std::time::Duration;

use weir_api::Cores;

use super::histogram::Histogram;

/// Interval of the recommender and of the updater.
pub(super) const PERIOD: Duration = Duration::from_mins(1);
/// `--recommendation-margin-fraction`, added to 1.
const MARGIN: f64 = 1.15;
/// `--target-cpu-percentile`.
const TARGET: f64 = 0.9;
/// `--recommendation-lower-bound-cpu-percentile`.
const LOWER: f64 = 0.5;
/// `--recommendation-upper-bound-cpu-percentile`.
const UPPER: f64 = 0.95;
/// `--pod-recommendation-min-cpu-millicores`, in cores.
const CORES_MIN: f64 = 0.025;
/// `--in-recommendation-bounds-eviction-lifetime-threshold`.
const LIFETIME: Duration = Duration::from_hours(12);
/// `--pod-update-threshold`.
const CHANGE_MIN: f64 = 0.1;
/// `--confidence-interval-cpu`.
const DAY: Duration = Duration::from_hours(24);

/// Recommended cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recommendation {
    pub(super) target: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

/// Recommender of one container.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recommender {
    histogram: Histogram,
    first: Option<Duration>,
    last: Duration,
    samples: u32,
}

impl Recommender {
    /// Takes in a sample of CPU use, in cores.
    pub(super) fn sample(&mut self, at: Duration, cores: f64) {
        self.histogram.add(at, cores);
        self.first = self.first.or(Some(at));
        self.last = at;
        self.samples += 1;
    }

    /// Recommendation without the bounds of a resource policy.
    pub(super) fn recommendation(&self) -> Recommendation {
        let with_margin = |percentile| self.histogram.percentile(percentile) * MARGIN;
        let days = self.days();
        let estimate = |percentile, multiplier, exponent| {
            let factor = confidence_factor(days, multiplier, exponent);
            (with_margin(percentile) * factor).max(CORES_MIN)
        };
        Recommendation {
            target: with_margin(TARGET).max(CORES_MIN),
            lower: estimate(LOWER, 0.001, -2.0),
            upper: estimate(UPPER, 1.0, 1.0),
        }
    }

    /// Confidence: length of the history in days, of which each has a sample a minute.
    fn days(&self) -> f64 {
        let lasted = self.last.saturating_sub(self.first.unwrap_or(self.last));
        let days = lasted.as_secs_f64() / DAY.as_secs_f64();
        days.min(f64::from(self.samples) / (24.0 * 60.0))
    }
}

/// (1 + multiplier / days) ^ exponent: infinite or 0 without a history.
fn confidence_factor(days: f64, multiplier: f64, exponent: f64) -> f64 {
    libm::pow(1.0 + multiplier / days, exponent)
}

/// One VerticalPodAutoscaler, whose pod has run since the beginning: a resize in place does not restart it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vpa {
    recommender: Recommender,
}

impl Vpa {
    /// Takes in the use of the last minute; returns the cores of the pod if they are to change.
    pub(super) fn update(
        &mut self,
        now: Duration,
        used: f64,
        request: Cores,
        (min, max): (Cores, Cores),
    ) -> Option<Cores> {
        self.recommender.sample(now, used);
        let recommendation = self.recommender.recommendation();
        let capped = |cores: f64| cores.clamp(min.as_f64(), max.as_f64().max(min.as_f64()));
        let capped = Recommendation {
            target: capped(recommendation.target),
            lower: capped(recommendation.lower),
            upper: capped(recommendation.upper),
        };
        let target = Cores::from_millis((capped.target * 1e3).ceil() as u32);
        changes(request.as_f64(), capped, now).then_some(target)
    }
}

/// Whether the updater changes a pod with that request and age.
fn changes(request: f64, recommended: Recommendation, age: Duration) -> bool {
    let outside = request < recommended.lower || request > recommended.upper;
    let difference = (request - recommended.target).abs() / request;
    outside || (age >= LIFETIME && difference >= CHANGE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: u32, every: Duration, cores: f64) -> Recommender {
        let mut recommender = Recommender::default();
        for index in 0..samples {
            recommender.sample(every * index, cores);
        }
        recommender
    }

    /// `estimator_test.go`, `TestConfidenceMultiplier`: nine samples, two minutes apart, are 0.00625 days, and
    /// 3.14 cores times (1 + 0.1/0.00625)² are 907.46. Without a history the factor is infinite, or 0.
    #[test]
    fn confidence_grows_with_the_history() {
        let recommender = after(9, 2 * PERIOD, 1.0);
        assert_eq!(recommender.days(), 0.00625);
        let millicores = 3140.0 * confidence_factor(recommender.days(), 0.1, 2.0);
        assert!((millicores - 907_460.0).abs() < 1e-6, "{millicores}");
        let none = Recommender::default().days();
        assert_eq!(confidence_factor(none, 1.0, 1.0), f64::INFINITY);
        assert_eq!(confidence_factor(none, 0.001, -2.0), 0.0);
    }

    /// `recommender.go`, the comments on the factors: the upper bound is 3 times its percentile after 12 hours, 2
    /// times after 24 and 1.14 times after a week; the lower one 0.6, 0.9 and 0.95 of it after 5, 30 and 60 min.
    #[test]
    fn bounds_approach_their_percentiles() {
        for (days, factor) in [(0.5, 3.0), (1.0, 2.0), (7.0, 1.14)] {
            let got = confidence_factor(days, 1.0, 1.0);
            assert!((got - factor).abs() < 0.01, "{days}: {got}");
        }
        for (minutes, factor) in [(5.0, 0.6), (30.0, 0.9), (60.0, 0.95)] {
            let got = confidence_factor(minutes / 1440.0, 0.001, -2.0);
            assert!((got - factor).abs() < 0.02, "{minutes}: {got}");
        }
        let day = after(1441, PERIOD, 2.0).recommendation();
        // 2 cores lie in the bucket that ends with 2.09; plus 15 %.
        assert!((2.3..2.42).contains(&day.target), "{day:?}");
        assert!((day.upper / day.target - 2.0).abs() < 0.01, "{day:?}");
        assert!((0.99..1.0).contains(&(day.lower / day.target)), "{day:?}");
        assert_eq!(after(1, PERIOD, 0.0).recommendation().target, CORES_MIN);
    }

    /// `update_priority_calculator.go`: outside of the bounds at once; within them only after 12 hours and by 10 %.
    #[test]
    fn pod_changes_outside_of_the_bounds_or_late() {
        let recommended = Recommendation {
            target: 4.0,
            lower: 3.0,
            upper: 8.0,
        };
        for (request, hours, expected) in [
            (2.9, 0, true),
            (8.1, 0, true),
            (3.0, 11, false),
            (3.0, 12, true),
            (4.3, 12, false),
            (4.5, 12, true),
        ] {
            let age = Duration::from_hours(hours);
            assert_eq!(changes(request, recommended, age), expected, "{request}");
        }
    }

    #[test]
    fn full_pod_grows_once_its_history_is_long_enough() {
        let (mut vpa, bounds) = (Vpa::default(), (Cores::whole(1), Cores::whole(20)));
        let two = Cores::whole(2);
        let grows = (0..60).find_map(|minute| {
            let cores = vpa.update(PERIOD * minute, 2.0, two, bounds)?;
            Some((minute, cores))
        });
        let (minute, cores) = grows.unwrap();
        assert!((5..30).contains(&minute), "{minute}");
        assert!((2300..2420).contains(&cores.millis()), "{cores:?}");
    }
}
