//! Prior of a variant's service times by group: what the executions at all proxies show, as the plan tells it.
//!
//! It counts beside the proxy's own measurements of a group as [`PRIOR_MAX`] executions less those measured, and not at
//! all once the group and the rest have that many. These executions may be among those of the prior, too, and count
//! twice then: a group seems more certain for a while, never other than measured.

use weir_api::group::{GroupName, GroupTime, SAMPLES_MIN};
use weir_api::moments::Moments;

use super::group_sums::{GROUPS, index_of_class};
use crate::size::Size;
use crate::waiting::class::{ClassId, Classes};

/// Executions as which the prior of a group counts at most, and own measurements beside which it does not count. With
/// as many in a group and the rest, a difference as large as the deviation is told from chance.
pub const PRIOR_MAX: u32 = 2 * SAMPLES_MIN;

/// Mean and deviation of the ratios to the planned time, by group; none where all proxies tell none apart.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPrior(Box<[Option<(f64, f64)>; GROUPS]>);

impl Default for GroupPrior {
    fn default() -> GroupPrior {
        GroupPrior(Box::new([None; GROUPS]))
    }
}

impl GroupPrior {
    /// Returns the prior of a plan. Classes that are not configured here are left out.
    #[must_use]
    pub fn new(groups: &[GroupTime], classes: &Classes) -> GroupPrior {
        let mut prior = GroupPrior::default();
        for one in groups {
            let index = match GroupName::parse(&one.group) {
                Some(GroupName::Class(name)) => classes.id_of(name).map(index_of_class),
                Some(GroupName::Size(bytes)) => Some(Size::of(bytes).index()),
                None => None,
            };
            if let Some(of) = index.and_then(|index| prior.0.get_mut(index)) {
                *of = Some((one.mean, one.deviation));
            }
        }
        prior
    }

    /// Whether all proxies tell no group apart.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Returns the ratios of a class beside its `own` and those of the `rest`; `None` if the prior does not count.
    #[must_use]
    pub fn beside_class(&self, class: ClassId, own: Moments, rest: Moments) -> Option<Moments> {
        self.beside(index_of_class(class), own, rest)
    }

    /// Returns the ratios of a size beside its `own` and those of the `rest`; `None` if the prior does not count.
    #[must_use]
    pub fn beside_size(&self, size: usize, own: Moments, rest: Moments) -> Option<Moments> {
        self.beside(size, own, rest)
    }

    /// Mean ratio of a class.
    #[must_use]
    pub fn mean_of_class(&self, class: ClassId) -> Option<f64> {
        Some(self.at(index_of_class(class))?.0)
    }

    /// Mean ratio of a size.
    #[must_use]
    pub fn mean_of_size(&self, size: Size) -> Option<f64> {
        Some(self.at(size.index())?.0)
    }

    fn beside(&self, index: usize, own: Moments, rest: Moments) -> Option<Moments> {
        let (mean, deviation) = self.at(index)?;
        let missing = f64::from(PRIOR_MAX) - own.count.min(rest.count);
        (missing > 0.0).then(|| Moments::with(missing, mean, deviation))
    }

    fn at(&self, index: usize) -> Option<(f64, f64)> {
        self.0.get(index).copied().flatten()
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::super::group_times::{Group, GroupTimes};
    use super::super::service_time::Took;
    use super::*;
    use crate::time::{Mono, Span};
    use crate::waiting::class::Class;

    const PLANNED: Span = Span::from_millis(40);
    const SMALL: u64 = 10_000;
    const LARGE: u64 = 1_000_000;

    fn classes() -> Classes {
        let mut classes = Classes::default();
        let class = |name: &str| Class {
            name: name.into(),
            ..classes.list[0].clone()
        };
        classes.list = vec![class("short"), class("long")];
        classes
    }

    /// Prior by class or by size, of the short and the long ones.
    fn prior(by_size: bool, means: [f64; 2]) -> GroupPrior {
        let names = match by_size {
            true => ["size-8192", "size-524288"],
            false => ["class-short", "class-long"],
        };
        let groups = names.into_iter().zip(means).map(|(group, mean)| GroupTime {
            group: group.into(),
            mean,
            deviation: mean / 10.0,
        });
        GroupPrior::new(&groups.collect::<Vec<_>>(), &classes())
    }

    fn group(by_size: bool, long: bool) -> Group {
        match by_size {
            true => Group {
                size: Size::of(if long { LARGE } else { SMALL }),
                ..Group::default()
            },
            false => Group {
                class: ClassId(u8::from(long)),
                ..Group::default()
            },
        }
    }

    fn record(times: &mut GroupTimes, group: Group, ratio: f64) {
        let took = Took::completed(PLANNED.mul_f64(ratio));
        times.record(group, PLANNED, took, Mono(0));
    }

    fn ratio(times: &GroupTimes, group: Group) -> Option<f64> {
        let predicted = times.of(group)?;
        Some(predicted.mean.div_span_f64(PLANNED))
    }

    #[test]
    fn first_request_is_predicted_by_the_prior() {
        for by_size in [false, true] {
            let mut times = GroupTimes::new(2);
            times.observe_prior(prior(by_size, [0.5, 2.0]), PLANNED);
            for (long, mean) in [(false, 0.5), (true, 2.0)] {
                let of = group(by_size, long);
                let predicted = times.of(of).unwrap();
                assert_eq!(predicted.mean, PLANNED.mul_f64(mean));
                assert!(predicted.high > predicted.mean);
                let completed = times.completed_mean(of, PLANNED);
                assert_eq!(completed, Some(PLANNED.mul_f64(mean)));
            }
            if by_size {
                assert_eq!(times.of(Group::default()), None, "of unknown size");
            }
            times.estimate(PLANNED, 4);
            assert_eq!(times.of(group(by_size, true)), None, "batches");
            times.estimate(PLANNED, 1);
            times.observe_prior(GroupPrior::default(), PLANNED);
            assert_eq!(times.of(group(by_size, true)), None, "without a prior");
        }
    }

    #[test]
    fn own_executions_replace_the_prior_step_by_step() {
        let mut times = GroupTimes::new(2);
        times.observe_prior(prior(true, [0.5, 2.0]), PLANNED);
        let mut before = 2.0;
        for count in 1..=PRIOR_MAX {
            record(&mut times, group(true, true), 1.0);
            record(&mut times, group(true, false), 0.5);
            times.predict(PLANNED, Mono(0));
            let mean = ratio(&times, group(true, true)).unwrap();
            assert!(mean <= before, "{count}: {mean} after {before}");
            before = mean;
        }
        assert!((before - 1.0).abs() < 1e-3, "{before}");
    }

    #[test]
    fn unknown_classes_are_left_out() {
        let groups = [GroupTime {
            group: "class-gone".into(),
            mean: 2.0,
            deviation: 0.0,
        }];
        assert_eq!(GroupPrior::new(&groups, &classes()), GroupPrior::default());
    }

    proptest! {
        /// With enough own measurements predictions are the same whatever the prior is; with fewer the mean is between
        /// that of the prior and those measured.
        #[test]
        fn prior_never_beats_enough_own_measurements(
            by_size in any::<bool>(),
            means in prop::array::uniform2(0.01_f64..100.0),
            took in prop::collection::vec(prop::array::uniform2(0.1_f64..10.0), 0..60),
        ) {
            let [mut with, mut without] = [GroupTimes::new(2), GroupTimes::new(2)];
            with.observe_prior(prior(by_size, means), PLANNED);
            let enough = took.len() >= PRIOR_MAX as usize;
            for times in [&mut with, &mut without] {
                for each in &took {
                    for (long, ratio) in [false, true].into_iter().zip(each) {
                        record(times, group(by_size, long), *ratio);
                    }
                }
                times.predict(PLANNED, Mono(0));
            }
            for (at, long) in [false, true].into_iter().enumerate() {
                let of = group(by_size, long);
                if enough {
                    prop_assert_eq!(with.of(of), without.of(of));
                }
                if let Some(mean) = ratio(&with, of) {
                    let own = took.iter().map(|each| each[at]);
                    let [min, max] = [f64::min, f64::max].map(|of| own.clone().fold(means[at], of));
                    prop_assert!(mean >= min * 0.99 && mean <= max * 1.01, "{mean}: {min} to {max}");
                }
            }
        }
    }
}
