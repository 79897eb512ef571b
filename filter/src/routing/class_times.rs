//! Service times of a variant by the requests' classes, where the class explains more than chance does.
//!
//! Each class has an estimator like the variant's own. Its prediction counts while
//! - it and all other classes together have [`SAMPLES_MIN`] ratios each
//! - the means of these two differ by a part of [`DIFFERENCE_MIN`]
//! - Welch's t of the two means is at least [`T_MIN`]: 6 in 100,000 by chance, because it is tested again and again
//!
//! Otherwise the variant's prediction counts, as it does with a single class, for which nothing is kept. The estimators
//! are created with the variant, so a request allocates nothing.

use std::time::Duration;

use super::moments::Moments;
use super::service_time::{SAMPLES_MIN, ServiceTime, ServiceTimeEstimator, Took};
use crate::time::Mono;
use crate::waiting::class::ClassId;

/// Difference of the means below which a class has no prediction of its own, as a part of the others' mean.
pub const DIFFERENCE_MIN: f64 = 0.1;
/// Minimum of Welch's t.
pub const T_MIN: f64 = 4.0;

/// Estimators of one variant's service time by class; none with a single class.
#[derive(Debug, Default)]
pub struct ClassTimes(Box<[ClassTime]>);

#[derive(Debug, Default)]
struct ClassTime {
    estimator: ServiceTimeEstimator,
    /// Prediction; `None` while the variant's own counts.
    predicted: Option<ServiceTime>,
}

impl ClassTimes {
    /// Creates the estimators of this many classes.
    #[must_use]
    pub fn new(classes: usize) -> ClassTimes {
        let kept = if classes > 1 { classes } else { 0 };
        ClassTimes((0..kept).map(|_| ClassTime::default()).collect())
    }

    /// Forgets all measurements.
    pub fn clear(&mut self) {
        *self = ClassTimes::new(self.0.len());
    }

    /// Prediction of a class of its own; `None` if the variant's counts.
    #[must_use]
    pub fn of(&self, class: ClassId) -> Option<ServiceTime> {
        self.0.get(usize::from(class.0))?.predicted
    }

    /// Records an execution of a class planned to take `planned` that took `took`.
    pub fn record(&mut self, class: ClassId, planned: Duration, took: Took, now: Mono) {
        let of_class = self.0.get_mut(usize::from(class.0));
        if of_class.is_some_and(|of| of.estimator.record(planned, took, now)) {
            self.estimate(planned);
        }
    }

    /// Mean time of the completed executions of a class that has a prediction of its own.
    #[must_use]
    pub fn completed_mean(&self, class: ClassId, planned: Duration) -> Option<Duration> {
        self.of(class)?;
        self.0
            .get(usize::from(class.0))?
            .estimator
            .completed_mean(planned)
    }

    /// Predicts anew, without what is too old.
    pub fn predict(&mut self, planned: Duration, now: Mono) {
        for of in &mut self.0 {
            of.estimator.predict(planned, None, now);
        }
        self.estimate(planned);
    }

    /// Predicts for executions planned to take `planned`.
    pub fn estimate(&mut self, planned: Duration) {
        let moments = self.0.iter().map(|of| of.estimator.moments());
        let all = moments.fold(Moments::default(), |all, one| all + one);
        for of in &mut self.0 {
            let own = of.estimator.moments();
            of.predicted = None;
            if differs(own, all - own) {
                of.predicted = of.estimator.measured(planned);
            }
        }
    }
}

/// Whether the mean of `own` differs from that of the `rest` by more than chance.
fn differs(own: Moments, rest: Moments) -> bool {
    let min = f64::from(SAMPLES_MIN);
    if own.count < min || rest.count < min {
        return false;
    }
    let difference = (own.mean() - rest.mean()).abs();
    let square = own.square_of_mean_error() + rest.square_of_mean_error();
    difference >= DIFFERENCE_MIN * rest.mean() && difference * difference >= T_MIN * T_MIN * square
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLANNED: Duration = Duration::from_millis(40);
    const SHORT: ClassId = ClassId(0);
    const LONG: ClassId = ClassId(1);

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    #[test]
    fn prediction_of_its_own_needs_samples_and_a_difference() {
        // Times of the short and the long class, in turn, with a scatter; whether they are told apart.
        for (count, short, long, scatter, apart) in [
            (20, 20.0, 80.0, 0.0, true),
            (19, 20.0, 80.0, 0.0, false),
            (200, 40.0, 43.0, 0.0, false),
            (200, 40.0, 45.0, 0.0, true),
            (20, 40.0, 50.0, 20.0, false),
            (200, 40.0, 60.0, 20.0, true),
            (200, 40.0, 40.0, 20.0, false),
        ] {
            let mut times = ClassTimes::new(2);
            for index in 0..count {
                let off = if index % 2 == 0 { scatter } else { -scatter };
                times.record(SHORT, PLANNED, Took::completed(ms(short + off)), Mono(0));
                times.record(LONG, PLANNED, Took::completed(ms(long + off)), Mono(0));
            }
            times.predict(PLANNED, Mono(0));
            for class in [SHORT, LONG] {
                let found = times.of(class).is_some();
                assert_eq!(found, apart, "{count} {short} {long} {scatter}");
            }
        }
    }

    #[test]
    fn prediction_follows_the_plan_and_is_forgotten() {
        let mut times = ClassTimes::new(2);
        for _ in 0..40 {
            times.record(SHORT, PLANNED, Took::completed(ms(20.0)), Mono(0));
            times.record(LONG, PLANNED, Took::completed(ms(80.0)), Mono(0));
        }
        times.estimate(PLANNED / 2);
        assert_eq!(times.of(LONG).map(|time| time.mean), Some(ms(40.0)));
        times.predict(PLANNED, Mono(0) + super::super::service_time::WINDOW * 2);
        assert_eq!(times.of(LONG), None);
        let mut single = ClassTimes::new(1);
        single.record(SHORT, PLANNED, Took::completed(ms(20.0)), Mono(0));
        assert!(single.0.is_empty());
    }

    proptest! {
        /// With requests of one class only, the variant's prediction counts, whatever is measured.
        #[test]
        fn one_class_has_no_prediction_of_its_own(
            took in prop::collection::vec(1.0_f64..500.0, 0..300),
            class in 0..3_u8,
        ) {
            let mut times = ClassTimes::new(3);
            for took in took {
                times.record(ClassId(class), PLANNED, Took::completed(ms(took)), Mono(0));
                prop_assert!((0..3).all(|class| times.of(ClassId(class)).is_none()));
            }
        }

        /// Two classes with times of 1 : 4 are predicted within a tenth each, in any mix.
        #[test]
        fn two_classes_are_predicted_within_a_tenth(
            classes in prop::collection::vec(any::<bool>(), 200..400),
            scatter in prop::collection::vec(0.97_f64..1.03, 400),
            unit in 5.0_f64..50.0,
        ) {
            prop_assume!([true, false].iter().all(|is| classes.iter().filter(|one| *one == is).count() >= 40));
            let mut times = ClassTimes::new(2);
            for (is_long, scatter) in classes.iter().zip(scatter) {
                let (class, took) = if *is_long { (LONG, 4.0 * unit) } else { (SHORT, unit) };
                times.record(class, PLANNED, Took::completed(ms(took * scatter)), Mono(0));
            }
            times.predict(PLANNED, Mono(0));
            for (class, took) in [(SHORT, unit), (LONG, 4.0 * unit)] {
                let predicted = times.of(class).unwrap();
                for time in [predicted.mean, predicted.high, predicted.safe] {
                    let off = time.as_secs_f64() * 1e3 / took;
                    prop_assert!((0.9..=1.1).contains(&off), "{time:?} for {took} ms");
                }
            }
        }
    }
}
