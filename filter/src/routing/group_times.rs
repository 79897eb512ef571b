//! Service times of a variant by groups of requests, where the group explains more than chance does: by class, or by
//! the size of the body.
//!
//! Measured are ratios to the planned time, over the last one to two windows, by all workers of the proxy together: few
//! executions are enough, whichever workers they come to. A worker adds its own to those of all at its renewal.
//!
//! A group is told apart while
//! - it and all other requests together have [`SAMPLES_MIN`] ratios each
//! - the means of these two differ by a part of [`DIFFERENCE_MIN`]
//! - Welch's t of the two means is at least [`T_MIN`]: 6 in 100,000 by chance, because it is tested again and again
//!
//! Until they have enough ratios, a group that all proxies together tell apart is predicted by the plan's prior too
//! ([`group_prior`](super::group_prior)). What a worker measures is reported for that ([`GroupReport`]).
//!
//! [`SAMPLES_MIN`]: weir_api::group::SAMPLES_MIN
//! [`DIFFERENCE_MIN`]: weir_api::group::DIFFERENCE_MIN
//! [`T_MIN`]: weir_api::group::T_MIN
//!
//! If class and size both tell requests apart, the one counts that explains more of the times' variance; if neither does,
//! the variant's prediction. Everything is created with the variant, so a request allocates nothing.

use super::class_times::ClassTimes;
use super::group_prior::GroupPrior;
use super::group_report::GroupReport;
use super::group_sums::{GroupSums, Sums};
use super::service_time::{ServiceTime, Took, UPDATE_EVERY, reference};
use super::size_times::SizeTimes;
use crate::size::{SIZES, Size};
use crate::time::{Mono, Span};
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;
use weir_api::group::SIZES_MORE;
use weir_api::moments::Moments;

/// Requests whose service times are measured together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// Their class.
    pub class: ClassId,
    /// Size of their bodies.
    pub size: Size,
}

impl Group {
    /// Returns the group of a waiting request.
    #[must_use]
    pub fn waiting(class: ClassId, place: Place) -> Group {
        Group {
            class,
            size: place.size(),
        }
    }
}

/// Estimators of one variant's service time by group.
#[derive(Debug)]
pub struct GroupTimes {
    /// Measurements of all workers, as last read.
    common: Box<GroupSums>,
    /// Measurements of this worker that are not among those yet.
    own: Box<GroupSums>,
    /// Measurements of all proxies, by the plan.
    prior: GroupPrior,
    /// Measurements of this worker that are not reported yet.
    unreported: GroupReport,
    /// Number of measurements since the last prediction.
    unprocessed: u32,
    classes: ClassTimes,
    sizes: SizeTimes,
    /// Whether requests are executed in batches. They take a batch's time together, whatever their groups.
    batched: bool,
    /// Whether any group may have a prediction of its own: mostly none has.
    apart: bool,
    /// Whether sizes are told apart, and whether they count before classes.
    sizes_apart: bool,
    sizes_first: bool,
}

impl GroupTimes {
    /// Creates the estimators for this many classes.
    #[must_use]
    pub fn new(classes: usize) -> GroupTimes {
        GroupTimes {
            common: Box::default(),
            own: Box::default(),
            prior: GroupPrior::default(),
            unreported: GroupReport::default(),
            unprocessed: 0,
            classes: ClassTimes::new(classes),
            sizes: SizeTimes::default(),
            batched: false,
            apart: false,
            sizes_apart: false,
            sizes_first: false,
        }
    }

    /// Forgets all measurements.
    pub fn clear(&mut self) {
        self.common.clear();
        self.own.clear();
        (self.prior, self.unreported) = Default::default();
        self.classes.clear();
        self.sizes.clear();
        self.compare();
    }

    /// Prediction of a group of its own; `None` if the variant's counts.
    #[must_use]
    #[inline]
    pub fn of(&self, group: Group) -> Option<ServiceTime> {
        if self.apart {
            self.own_prediction(group)
        } else {
            None
        }
    }

    fn own_prediction(&self, group: Group) -> Option<ServiceTime> {
        let class = self.classes.of(group.class);
        if !self.sizes_apart {
            return class;
        }
        self.first(class, self.sizes.of(group.size))
    }

    /// Mean time of the completed executions of a group that has a prediction of its own.
    #[must_use]
    pub fn completed_mean(&self, group: Group, planned: Span) -> Option<Span> {
        self.of(group)?;
        let class = self.classes.of(group.class).and_then(|_| {
            let own = self.sum(|sums| sums.of_class(group.class));
            let prior = || self.prior.mean_of_class(group.class);
            own.completed_mean().or_else(prior)
        });
        let size = self.sizes.of(group.size).and_then(|_| {
            let own = self.sum(|sums| sums.of_size(group.size));
            let prior = || self.prior.mean_of_size(group.size);
            own.completed_mean().or_else(prior)
        });
        Some(scaled(planned, self.first(class, size)?))
    }

    /// Records an execution of a group planned to take `planned` that took `took`.
    pub fn record(&mut self, group: Group, planned: Span, took: Took, now: Mono) {
        let ends = self.own.expire(now);
        let by_class = !self.classes.is_empty();
        let ratio = took.time.div_span_f64(reference(planned));
        let one = Sums::of(ratio, took.completed);
        self.own.record(group, by_class, &one);
        if !self.batched {
            self.unreported.record(group, by_class, &one);
        }
        if by_class {
            self.classes.record(group.class, planned, took, now);
        }
        self.unprocessed += u32::from(by_class || group.size != Size::UNKNOWN);
        if ends || self.unprocessed >= UPDATE_EVERY {
            self.common.expire(now);
            self.renew(planned);
        }
    }

    /// Measurements of this worker that those of all workers do not have yet.
    #[must_use]
    pub fn own(&self) -> &GroupSums {
        &self.own
    }

    /// Takes over the measurements of all workers, to which this one has added its own; `None` if there are none, or not
    /// of this variant.
    pub fn observe_common(&mut self, all: Option<&GroupSums>) {
        match all {
            Some(all) => {
                (*self.common).clone_from(all);
                self.own.clear();
            }
            None => self.common.clear(),
        }
    }

    /// Takes over the prior of a plan.
    pub fn observe_prior(&mut self, prior: GroupPrior, planned: Span) {
        self.prior = prior;
        self.renew(planned);
    }

    /// Measurements of this worker that are not reported yet.
    pub fn unreported(&mut self) -> &mut GroupReport {
        &mut self.unreported
    }

    /// Predicts anew, without what is too old.
    pub fn predict(&mut self, planned: Span, now: Mono) {
        self.own.expire(now);
        self.common.expire(now);
        self.classes.expire(planned, now);
        self.renew(planned);
    }

    /// Predicts for executions planned to take `planned`, of `batch` requests.
    pub fn estimate(&mut self, planned: Span, batch: u32) {
        self.batched = batch > 1;
        self.renew(planned);
    }

    fn renew(&mut self, planned: Span) {
        self.unprocessed = 0;
        let has_sizes = self.common.has_sizes() || self.own.has_sizes();
        if has_sizes || !self.prior.is_empty() {
            let mut sizes: [Sums; SIZES] = self.common.sizes();
            for (all, own) in sizes.iter_mut().zip(self.own.sizes()) {
                all.add(&own);
            }
            self.sizes.estimate(planned, &sizes, &self.prior);
        } else {
            self.sizes.clear();
        }
        if !self.classes.is_empty() {
            let sums = [&self.common, &self.own];
            let of_class = |class| add_up(sums.map(|sums| sums.of_class(class)));
            self.classes.estimate(planned, of_class, &self.prior);
        }
        self.compare();
    }

    /// Sum over all measurements, of all workers and not yet among those.
    fn sum(&self, of: impl Fn(&GroupSums) -> Sums) -> Sums {
        add_up([of(&self.common), of(&self.own)])
    }

    fn compare(&mut self) {
        let explained = self.sizes.explained();
        self.sizes_apart = explained > 0.0;
        self.apart = !self.batched && (self.sizes_apart || !self.classes.is_empty());
        self.sizes_first = explained > SIZES_MORE * self.classes.explained();
    }

    fn first<T>(&self, class: Option<T>, size: Option<T>) -> Option<T> {
        if self.sizes_first {
            size.or(class)
        } else {
            class.or(size)
        }
    }
}

fn add_up([mut all, own]: [Sums; 2]) -> Sums {
    all.add(&own);
    all
}

/// Time of a ratio to `planned`.
fn scaled(planned: Span, ratio: f64) -> Span {
    reference(planned).mul_f64(ratio)
}

/// Time of normally distributed ratios to `planned`.
pub(super) fn normal(planned: Span, ratios: Moments) -> ServiceTime {
    let deviation = ratios.variance().sqrt();
    ServiceTime::normal(scaled(planned, ratios.mean()), scaled(planned, deviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANNED: Span = Span::from_millis(40);
    const CLASSES: [ClassId; 2] = [ClassId(0), ClassId(1)];

    fn sizes() -> [Size; 2] {
        [Size::of(10_000), Size::of(1_000_000)]
    }

    /// Records 50 executions of each class and size, which take `ms` by class, then by size, with a scatter of a
    /// twentieth.
    fn measured(ms: [[u64; 2]; 2], batch: u32) -> GroupTimes {
        let mut times = GroupTimes::new(2);
        times.estimate(PLANNED, batch);
        for index in 0..50 {
            for (class, row) in CLASSES.into_iter().zip(ms) {
                for (size, ms) in sizes().into_iter().zip(row) {
                    let part = if index % 2 == 0 { 19 } else { 21 };
                    let took = Took::completed(Span::from_millis(ms) * part / 20);
                    times.record(Group { class, size }, PLANNED, took, Mono(0));
                }
            }
        }
        times.predict(PLANNED, Mono(0));
        times
    }

    #[test]
    fn what_explains_more_counts() {
        // Times by class, then by size, and the means predicted.
        for (ms, predicted) in [
            ([[20, 100], [20, 100]], Some([[20, 100], [20, 100]])),
            ([[20, 20], [100, 100]], Some([[20, 20], [100, 100]])),
            // Both do: the size more, then the class.
            ([[20, 100], [40, 120]], Some([[30, 110], [30, 110]])),
            ([[20, 40], [100, 120]], Some([[30, 30], [110, 110]])),
            // Neither does.
            ([[40, 40], [40, 40]], None),
        ] {
            let times = measured(ms, 1);
            for (class, row) in [0, 1].into_iter().enumerate() {
                for (at, size) in sizes().into_iter().enumerate() {
                    let group = Group {
                        class: CLASSES[row],
                        size,
                    };
                    let found = times.of(group).map(|time| time.mean.as_millis_f64());
                    let expected = predicted.map(|predicted| f64::from(predicted[class][at]));
                    assert_eq!(found.is_some(), expected.is_some(), "{ms:?}");
                    if let Some((found, expected)) = found.zip(expected) {
                        assert!((found / expected - 1.0).abs() < 0.02, "{ms:?}: {found}");
                    }
                }
            }
        }
    }

    #[test]
    fn requests_without_known_size_and_batches_take_the_common_time() {
        let [small, large] = sizes();
        let group = |size| Group {
            class: ClassId(0),
            size,
        };
        let times = measured([[20, 100], [20, 100]], 1);
        assert_eq!(times.of(group(Size::UNKNOWN)), None);
        assert_eq!(times.of(group(Size::of(0))), None, "no such request came");
        let completed = |size| times.completed_mean(group(size), PLANNED);
        assert_eq!(completed(small), Some(Span::from_millis(20)));
        assert_eq!(completed(Size::UNKNOWN), None);
        let batches = measured([[20, 100], [20, 100]], 4);
        assert_eq!(
            [small, large].map(|size| batches.of(group(size))),
            [None; 2]
        );
    }
}
