//! Service times of a variant by the size of the requests' bodies.
//!
//! Once one size is told apart from the rest ([`group_times`](super::group_times)), every size with [`SAMPLES_MIN`]
//! ratios has a prediction of its own: that of a medium size is the mean of all, but without the scatter of all. A size
//! spans a factor of two, so its prediction is by mean and deviation. A size with fewer ratios is predicted by them
//! and the plan's prior, if there is one ([`group_prior`](super::group_prior)). Else it takes the time of all, as bodies of
//! unknown size do.

use super::group_prior::GroupPrior;
use super::group_sums::Sums;
use super::group_times::normal;
use super::service_time::{SAMPLES_MIN, ServiceTime};
use crate::size::{SIZES, Size};
use crate::time::Span;
use weir_api::group::{differs, explained};
use weir_api::moments::Moments;

/// Predictions of one variant's service time by size.
#[derive(Debug, Default)]
pub struct SizeTimes {
    /// Predictions; `None` while the variant's own counts.
    predicted: Box<[Option<ServiceTime>; SIZES]>,
    explained: f64,
}

impl SizeTimes {
    /// Prediction of a size of its own; `None` if the variant's counts.
    #[must_use]
    pub fn of(&self, size: Size) -> Option<ServiceTime> {
        self.predicted.get(size.index()).copied().flatten()
    }

    /// Forgets all predictions.
    pub fn clear(&mut self) {
        (*self.predicted, self.explained) = ([None; SIZES], 0.0);
    }

    /// Part of the times' variance that the sizes explain, by the square of the mean; 0 if they are not told apart.
    #[must_use]
    pub fn explained(&self) -> f64 {
        self.explained
    }

    /// Predicts for executions planned to take `planned`, by what was measured of the sizes and the prior.
    pub fn estimate(&mut self, planned: Span, measured: &[Sums; SIZES], prior: &GroupPrior) {
        let sizes = measured.map(|sums| sums.moments());
        let all = sizes.iter().fold(Moments::default(), |all, own| all + *own);
        let known = || (0..).zip(&sizes).skip(Size::UNKNOWN.index() + 1);
        self.clear();
        let apart = known().any(|(_, own)| differs(*own, all - *own));
        let min = f64::from(SAMPLES_MIN);
        let ratios = |index, own: Moments| {
            if apart && own.count >= min {
                return Some(own);
            }
            Some(own + prior.beside_size(index, own, all - own)?)
        };
        let mut of_prior = Moments::default();
        for (index, own) in known() {
            let Some(ratios) = ratios(index, *own) else {
                continue;
            };
            of_prior = of_prior + (ratios - *own);
            if let Some(predicted) = self.predicted.get_mut(index) {
                *predicted = Some(normal(planned, ratios));
            }
        }
        let ratios = known().filter_map(|(index, own)| ratios(index, *own));
        self.explained = explained(ratios, all + of_prior);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::group_times::{Group, GroupTimes};
    use super::super::service_time::{Took, WINDOW};
    use super::*;
    use crate::time::Mono;

    const PLANNED: Span = Span::from_millis(40);
    const KB: u64 = 1000;

    fn ms(ms: f64) -> Span {
        Span::from_millis_f64(ms)
    }

    fn of_size(size: Size) -> Group {
        Group {
            size,
            ..Group::default()
        }
    }

    fn record(times: &mut GroupTimes, bytes: u64, time: f64) {
        let group = of_size(Size::of(bytes));
        times.record(group, PLANNED, Took::completed(ms(time)), Mono(0));
    }

    fn of(times: &GroupTimes, bytes: u64) -> Option<ServiceTime> {
        times.of(of_size(Size::of(bytes)))
    }

    #[test]
    fn prediction_of_its_own_needs_samples_and_a_difference() {
        // Executions of 10 and of 1,000 KB, their times with a scatter, and whether they are told apart.
        for (count, small, large, scatter, apart) in [
            (20, 20.0, 100.0, 0.0, true),
            (19, 20.0, 100.0, 0.0, false),
            (200, 40.0, 43.0, 0.0, false),
            (200, 40.0, 45.0, 0.0, true),
            (20, 40.0, 50.0, 20.0, false),
            (200, 40.0, 60.0, 20.0, true),
        ] {
            let mut times = GroupTimes::new(1);
            for index in 0..count {
                let off = if index % 2 == 0 { scatter } else { -scatter };
                record(&mut times, 10 * KB, small + off);
                record(&mut times, 1000 * KB, large + off);
            }
            times.predict(PLANNED, Mono(0));
            for bytes in [10 * KB, 1000 * KB] {
                let found = of(&times, bytes).is_some();
                assert_eq!(found, apart, "{count} {small} {large} {scatter}");
            }
        }
    }

    #[test]
    fn medium_size_is_predicted_without_the_scatter_of_all() {
        let mut times = GroupTimes::new(1);
        for _ in 0..30 {
            for (bytes, time) in [(100 * KB, 20.0), (200 * KB, 40.0), (400 * KB, 60.0)] {
                record(&mut times, bytes, time);
            }
        }
        times.predict(PLANNED, Mono(0));
        let medium = of(&times, 200 * KB).unwrap();
        assert_eq!([medium.mean, medium.high, medium.safe], [ms(40.0); 3]);
        times.estimate(PLANNED / 2, 1);
        let large = of(&times, 400 * KB).unwrap();
        assert_eq!(large.mean, ms(30.0), "it follows the plan");
        times.predict(PLANNED, Mono(0) + WINDOW * 2);
        assert_eq!(of(&times, 400 * KB), None, "it is forgotten");
    }

    proptest! {
        /// Requests of one size, and of unknown size, have no prediction of their own, whatever is measured.
        #[test]
        fn one_size_has_no_prediction_of_its_own(
            each in prop::collection::vec(1.0_f64..500.0, 0..300),
            bytes in prop::option::of(0..10_000_000_u64),
        ) {
            let group = of_size(bytes.map_or(Size::UNKNOWN, Size::of));
            let mut times = GroupTimes::new(1);
            for time in each {
                times.record(group, PLANNED, Took::completed(ms(time)), Mono(0));
                prop_assert_eq!((times.of(group), times.of(Group::default())), (None, None));
            }
        }

        /// Times in proportion to the size are predicted within the width of a size, in any mix of sizes.
        #[test]
        fn times_by_size_are_predicted_within_the_size(
            sizes in prop::collection::vec(1_000..1_000_000_u64, 300..400),
        ) {
            let mut times = GroupTimes::new(1);
            for bytes in &sizes {
                record(&mut times, *bytes, *bytes as f64 / 1e4);
            }
            times.predict(PLANNED, Mono(0));
            let mut known = 0;
            for bytes in sizes {
                if let Some(predicted) = of(&times, bytes) {
                    let part = predicted.mean.as_millis_f64() * 1e4 / bytes as f64;
                    prop_assert!((0.5..=2.0).contains(&part), "{bytes}: {predicted:?}");
                    prop_assert!(predicted.mean <= predicted.high && predicted.high <= predicted.safe);
                    known += 1;
                }
            }
            prop_assert!(known >= 1);
        }
    }
}
