//! Service times of a variant by the size of the requests' bodies.
//!
//! Once one size is told apart from the rest ([`group_times`](super::group_times)), every size with [`SAMPLES_MIN`]
//! ratios has a prediction of its own: that of a medium size is the mean of all, but without the scatter of all. A size
//! spans a factor of two, so of its times the mean and the deviation are kept, and no percentiles. A size with fewer
//! ratios, and a body of unknown size, take the time of all.

use std::time::Duration;

use super::group_times::{differs, explained};
use super::moments::Moments;
use super::service_time::{
    RATIO_MAX, SAMPLES_MIN, ServiceTime, Took, UPDATE_EVERY, WINDOW, reference,
};
use crate::size::{SIZES, Size};
use crate::time::Mono;

/// Estimators of one variant's service time by size.
#[derive(Debug, Default)]
pub struct SizeTimes(Box<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Ratios to the planned time, of the present window and the one before.
    windows: [Window; 2],
    window_ends: Mono,
    unprocessed: u32,
    /// Predictions; `None` while the variant's own counts.
    predicted: [Option<ServiceTime>; SIZES],
    explained: f64,
}

type Window = [Ratios; SIZES];

/// Ratios of one size.
#[derive(Debug, Clone, Copy, Default)]
struct Ratios {
    all: Moments,
    completed: Moments,
}

impl SizeTimes {
    /// Prediction of a size of its own; `None` if the variant's counts.
    #[must_use]
    pub fn of(&self, size: Size) -> Option<ServiceTime> {
        self.0.predicted.get(size.index()).copied().flatten()
    }

    /// Part of the times' variance that the sizes explain, by the square of the mean; 0 if they are not told apart.
    #[must_use]
    pub fn explained(&self) -> f64 {
        self.0.explained
    }

    /// Records an execution of a size planned to take `planned` that took `took`. Returns whether predictions may have
    /// changed.
    pub fn record(&mut self, size: Size, planned: Duration, took: Took, now: Mono) -> bool {
        let rotated = self.rotate(now);
        let table = &mut *self.0;
        let [current, _] = &mut table.windows;
        if let Some(own) = current.get_mut(size.index()) {
            let ratio = took.time.as_secs_f64() / reference(planned).as_secs_f64();
            let ratio = ratio.min(RATIO_MAX as f64);
            let one = Moments::of(ratio);
            own.all = own.all + one;
            if took.completed {
                own.completed = own.completed + one;
            }
        }
        table.unprocessed += u32::from(size != Size::UNKNOWN);
        let renews = rotated || table.unprocessed >= UPDATE_EVERY;
        if renews {
            self.estimate(planned);
        }
        renews
    }

    /// Mean time of the completed executions of a size that has a prediction of its own.
    #[must_use]
    pub fn completed_mean(&self, size: Size, planned: Duration) -> Option<Duration> {
        self.of(size)?;
        let [current, before] = &self.0.windows;
        let (current, before) = (current.get(size.index())?, before.get(size.index())?);
        let completed = current.completed + before.completed;
        (completed.count > 0.0).then(|| scaled(planned, completed.mean()))
    }

    /// Predicts anew, without what is too old.
    pub fn predict(&mut self, planned: Duration, now: Mono) {
        self.rotate(now);
        self.estimate(planned);
    }

    /// Predicts for executions planned to take `planned`.
    pub fn estimate(&mut self, planned: Duration) {
        let table = &mut *self.0;
        table.unprocessed = 0;
        let [current, before] = &table.windows;
        let both = current.iter().zip(before);
        let mut sizes = [Moments::default(); SIZES];
        for (own, (current, before)) in sizes.iter_mut().zip(both) {
            *own = current.all + before.all;
        }
        let all = sizes.iter().fold(Moments::default(), |all, own| all + *own);
        let known = || sizes.iter().skip(Size::UNKNOWN.index() + 1);
        (table.predicted, table.explained) = ([None; SIZES], 0.0);
        if !known().any(|own| differs(*own, all - *own)) {
            return;
        }
        let min = f64::from(SAMPLES_MIN);
        let own = known().copied().filter(|own| own.count >= min);
        table.explained = explained(own, all);
        let predicted = table.predicted.iter_mut().skip(Size::UNKNOWN.index() + 1);
        for (predicted, own) in predicted.zip(known()) {
            *predicted = (own.count >= min).then(|| {
                let deviation = own.variance().sqrt();
                ServiceTime::normal(scaled(planned, own.mean()), scaled(planned, deviation))
            });
        }
    }

    /// Drops ratios older than two windows; returns whether a window has ended.
    fn rotate(&mut self, now: Mono) -> bool {
        let table = &mut *self.0;
        if now < table.window_ends {
            return false;
        }
        let silent = now.since(table.window_ends) >= WINDOW;
        table.windows.swap(0, 1);
        let [current, before] = &mut table.windows;
        *current = Window::default();
        if silent {
            *before = Window::default();
        }
        table.window_ends = now + WINDOW;
        true
    }
}

/// Time of a ratio to `planned`.
fn scaled(planned: Duration, ratio: f64) -> Duration {
    let seconds = reference(planned).as_secs_f64() * ratio;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLANNED: Duration = Duration::from_millis(40);
    const KB: u64 = 1000;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    fn took(time: f64) -> Took {
        Took::completed(ms(time))
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
            let mut times = SizeTimes::default();
            for index in 0..count {
                let off = if index % 2 == 0 { scatter } else { -scatter };
                times.record(Size::of(10 * KB), PLANNED, took(small + off), Mono(0));
                times.record(Size::of(1000 * KB), PLANNED, took(large + off), Mono(0));
            }
            times.predict(PLANNED, Mono(0));
            for bytes in [10 * KB, 1000 * KB] {
                let found = times.of(Size::of(bytes)).is_some();
                assert_eq!(found, apart, "{count} {small} {large} {scatter}");
            }
            assert_eq!(times.explained() > 0.0, apart);
        }
    }

    #[test]
    fn medium_size_is_predicted_without_the_scatter_of_all() {
        let mut times = SizeTimes::default();
        for _ in 0..30 {
            for (bytes, time) in [(100 * KB, 20.0), (200 * KB, 40.0), (400 * KB, 60.0)] {
                times.record(Size::of(bytes), PLANNED, took(time), Mono(0));
            }
        }
        times.predict(PLANNED, Mono(0));
        let medium = times.of(Size::of(200 * KB)).unwrap();
        assert_eq!([medium.mean, medium.high, medium.safe], [ms(40.0); 3]);
        times.estimate(PLANNED / 2);
        let large = times.of(Size::of(400 * KB)).unwrap();
        assert_eq!(large.mean, ms(30.0), "it follows the plan");
        times.predict(PLANNED, Mono(0) + WINDOW * 2);
        assert_eq!(times.of(Size::of(400 * KB)), None, "it is forgotten");
    }

    proptest! {
        /// Requests of one size, and of unknown size, have no prediction of their own, whatever is measured.
        #[test]
        fn one_size_has_no_prediction_of_its_own(
            times in prop::collection::vec(1.0_f64..500.0, 0..300),
            bytes in prop::option::of(0..10_000_000_u64),
        ) {
            let size = bytes.map_or(Size::UNKNOWN, Size::of);
            let mut of = SizeTimes::default();
            for time in times {
                of.record(size, PLANNED, took(time), Mono(0));
                prop_assert_eq!((of.of(size), of.of(Size::UNKNOWN)), (None, None));
            }
        }

        /// Times in proportion to the size are predicted within the width of a size, in any mix of sizes.
        #[test]
        fn times_by_size_are_predicted_within_the_size(
            sizes in prop::collection::vec(1_000..1_000_000_u64, 300..400),
        ) {
            let mut of = SizeTimes::default();
            for bytes in &sizes {
                of.record(Size::of(*bytes), PLANNED, took(*bytes as f64 / 1e4), Mono(0));
            }
            of.predict(PLANNED, Mono(0));
            for bytes in sizes {
                if let Some(predicted) = of.of(Size::of(bytes)) {
                    let part = predicted.mean.as_secs_f64() * 1e7 / bytes as f64;
                    prop_assert!((0.5..=2.0).contains(&part), "{bytes}: {predicted:?}");
                    prop_assert!(predicted.mean <= predicted.high && predicted.high <= predicted.safe);
                }
            }
            let known = sizes_known(&of);
            prop_assert!(known >= 1, "{known}");
        }
    }

    fn sizes_known(times: &SizeTimes) -> usize {
        times.0.predicted.iter().flatten().count()
    }
}
