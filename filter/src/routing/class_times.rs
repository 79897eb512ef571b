//! Service times of a variant by the requests' classes.
//!
//! Each class has an estimator like the variant's own. Its prediction counts while the class is told apart from all
//! others ([`group_times`](super::group_times)). With a single class nothing is kept.

use std::time::Duration;

use super::group_times::{differs, explained};
use super::moments::Moments;
use super::service_time::{ServiceTime, ServiceTimeEstimator, Took};
use crate::time::Mono;
use crate::waiting::class::ClassId;

/// Estimators of one variant's service time by class; none with a single class.
#[derive(Debug, Default)]
pub struct ClassTimes {
    list: Box<[ClassTime]>,
    explained: f64,
}

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
        ClassTimes {
            list: (0..kept).map(|_| ClassTime::default()).collect(),
            explained: 0.0,
        }
    }

    /// Forgets all measurements.
    pub fn clear(&mut self) {
        *self = ClassTimes::new(self.list.len());
    }

    /// Part of the times' variance that the classes explain, by the square of the mean; 0 if none is told apart.
    #[must_use]
    pub fn explained(&self) -> f64 {
        self.explained
    }

    /// Prediction of a class of its own; `None` if the variant's counts.
    #[must_use]
    pub fn of(&self, class: ClassId) -> Option<ServiceTime> {
        self.list.get(usize::from(class.0))?.predicted
    }

    /// Records an execution of a class planned to take `planned` that took `took`. Returns whether predictions may have
    /// changed.
    pub fn record(&mut self, class: ClassId, planned: Duration, took: Took, now: Mono) -> bool {
        let of_class = self.list.get_mut(usize::from(class.0));
        let renews = of_class.is_some_and(|of| of.estimator.record(planned, took, now));
        if renews {
            self.estimate(planned);
        }
        renews
    }

    /// Mean time of the completed executions of a class that has a prediction of its own.
    #[must_use]
    pub fn completed_mean(&self, class: ClassId, planned: Duration) -> Option<Duration> {
        self.of(class)?;
        self.list
            .get(usize::from(class.0))?
            .estimator
            .completed_mean(planned)
    }

    /// Predicts anew, without what is too old.
    pub fn predict(&mut self, planned: Duration, now: Mono) {
        for of in &mut self.list {
            of.estimator.predict(planned, None, now);
        }
        self.estimate(planned);
    }

    /// Predicts for executions planned to take `planned`.
    pub fn estimate(&mut self, planned: Duration) {
        let moments = self.list.iter().map(|of| of.estimator.moments());
        let all = moments.fold(Moments::default(), |all, one| all + one);
        for of in &mut self.list {
            let own = of.estimator.moments();
            of.predicted = None;
            if differs(own, all - own) {
                of.predicted = of.estimator.measured(planned);
            }
        }
        let apart = self.list.iter().filter(|of| of.predicted.is_some());
        self.explained = explained(apart.map(|of| of.estimator.moments()), all);
    }
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
        assert!(single.list.is_empty());
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
