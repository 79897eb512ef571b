//! Service times of a variant by the requests' classes.
//!
//! A class's prediction counts while it is told apart from all others ([`group_times`](super::group_times)), by what all
//! workers measured. Its percentiles are those of an estimator like the variant's own, where this worker has enough
//! measurements; else they follow from mean and deviation. Until there are enough measurements to tell, a class with a
//! prior is predicted by both ([`group_prior`](super::group_prior)). With a single class nothing is kept.

use super::group_prior::GroupPrior;
use super::group_sums::Sums;
use super::group_times::normal;
use super::service_time::{ServiceTime, ServiceTimeEstimator, Took};
use crate::time::{Mono, Span};
use crate::waiting::class::ClassId;
use weir_api::group::{differs, explained};
use weir_api::moments::Moments;

/// Predictions of one variant's service time by class; none with a single class.
#[derive(Debug, Default)]
pub struct ClassTimes {
    list: Box<[ClassTime]>,
    explained: f64,
}

#[derive(Debug, Default)]
struct ClassTime {
    /// Estimator by this worker's measurements.
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

    /// Whether there is a single class.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
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

    /// Records an execution of a class planned to take `planned` that took `took`.
    pub fn record(&mut self, class: ClassId, planned: Span, took: Took, now: Mono) {
        if let Some(of) = self.list.get_mut(usize::from(class.0)) {
            of.estimator.record(planned, took, now);
        }
    }

    /// Drops what is too old of this worker's measurements.
    pub fn expire(&mut self, planned: Span, now: Mono) {
        for of in &mut self.list {
            of.estimator.predict(planned, None, now);
        }
    }

    /// Predicts for executions planned to take `planned`, by what was measured of each class and the prior.
    pub fn estimate(
        &mut self,
        planned: Span,
        measured: impl Fn(ClassId) -> Sums,
        prior: &GroupPrior,
    ) {
        let moments = |class| measured(ClassId(class)).moments();
        let classes = 0..self.list.len() as u8;
        let all = classes.map(moments);
        let all = all.fold(Moments::default(), |all, one| all + one);
        let ratios = |class| {
            let own = moments(class);
            if differs(own, all - own) {
                return Some(own);
            }
            Some(own + prior.beside_class(ClassId(class), own, all - own)?)
        };
        let mut of_prior = Moments::default();
        for (class, of) in (0..).zip(&mut self.list) {
            of.predicted = None;
            if let Some(ratios) = ratios(class) {
                let of_worker = of.estimator.measured(planned);
                of.predicted = of_worker.or_else(|| Some(normal(planned, ratios)));
                of_prior = of_prior + (ratios - moments(class));
            }
        }
        let ratios = (0..self.list.len() as u8).filter_map(ratios);
        self.explained = explained(ratios, all + of_prior);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::group_times::{Group, GroupTimes};
    use super::super::service_time::WINDOW;
    use super::*;

    const PLANNED: Span = Span::from_millis(40);
    const SHORT: ClassId = ClassId(0);
    const LONG: ClassId = ClassId(1);

    fn of_class(class: ClassId) -> Group {
        Group {
            class,
            ..Group::default()
        }
    }

    fn record(times: &mut GroupTimes, class: ClassId, time: Span) {
        times.record(of_class(class), PLANNED, Took::completed(time), Mono(0));
    }

    fn of(times: &GroupTimes, class: ClassId) -> Option<ServiceTime> {
        times.of(of_class(class))
    }

    fn ms(ms: f64) -> Span {
        Span::from_millis_f64(ms)
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
            let mut times = GroupTimes::new(2);
            for index in 0..count {
                let off = if index % 2 == 0 { scatter } else { -scatter };
                record(&mut times, SHORT, ms(short + off));
                record(&mut times, LONG, ms(long + off));
            }
            times.predict(PLANNED, Mono(0));
            for class in [SHORT, LONG] {
                let found = of(&times, class).is_some();
                assert_eq!(found, apart, "{count} {short} {long} {scatter}");
            }
        }
    }

    #[test]
    fn prediction_follows_the_plan_and_is_forgotten() {
        let mut times = GroupTimes::new(2);
        for _ in 0..40 {
            record(&mut times, SHORT, ms(20.0));
            record(&mut times, LONG, ms(80.0));
        }
        times.estimate(PLANNED / 2, 1);
        assert_eq!(of(&times, LONG).map(|time| time.mean), Some(ms(40.0)));
        times.predict(PLANNED, Mono(0) + WINDOW * 2);
        assert_eq!(of(&times, LONG), None);
        assert!(ClassTimes::new(1).is_empty());
    }

    proptest! {
        /// With requests of one class only, the variant's prediction counts, whatever is measured.
        #[test]
        fn one_class_has_no_prediction_of_its_own(
            took in prop::collection::vec(1.0_f64..500.0, 0..300),
            class in 0..3_u8,
        ) {
            let mut times = GroupTimes::new(3);
            for took in took {
                record(&mut times, ClassId(class), ms(took));
                prop_assert!((0..3).all(|class| of(&times, ClassId(class)).is_none()));
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
            let mut times = GroupTimes::new(2);
            for (is_long, scatter) in classes.iter().zip(scatter) {
                let (class, took) = if *is_long { (LONG, 4.0 * unit) } else { (SHORT, unit) };
                record(&mut times, class, ms(took * scatter));
            }
            times.predict(PLANNED, Mono(0));
            for (class, took) in [(SHORT, unit), (LONG, 4.0 * unit)] {
                let predicted = of(&times, class).unwrap();
                for time in [predicted.mean, predicted.high, predicted.safe] {
                    let off = time.as_millis_f64() / took;
                    prop_assert!((0.9..=1.1).contains(&off), "{time:?} for {took} ms");
                }
            }
        }
    }
}
