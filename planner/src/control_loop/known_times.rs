//! Service times that a planner has measured, with which the next one of its service begins: the ratios learnt by cores,
//! and the sums by group. Pure.
//!
//! They are relative to the profile, so those of a variant whose profile is another now are dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_api::Cores;
use weir_api::group::GroupName;
use weir_api::moments::Moments;

use super::Planner;
use crate::profile::{POINTS_MAX, Profile};
use crate::service::FAR_OFF_MAX;

/// Relative difference of two profiles' times that may be due to rounding.
const SAME: f64 = 1e-9;

/// Measured service times of variants, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownTimes {
    variants: BTreeMap<String, KnownVariant>,
}

/// Measured service times of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownVariant {
    /// Mean time on one core by the profile, in ms.
    profile_ms: f64,
    ratios: KnownRatios,
    /// Sums by group.
    groups: BTreeMap<String, Moments>,
}

/// Ratios by cores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownRatios {
    /// Ratios, the latest measured last.
    pub(super) points: Vec<KnownRatio>,
    /// Whether a slow episode is under way.
    pub(super) is_slow: bool,
    /// Whether what is measured replaces the profile. Files of before do not have it.
    #[serde(default)]
    pub(super) is_far_off: bool,
}

/// Ratio at one number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownRatio {
    /// Cores of one execution, in thousandths.
    pub(super) millis: u32,
    /// Measured time relative to the profile's, in percent.
    pub(super) percent: u32,
    /// Largest ratio of the slow episode, in percent.
    pub(super) peak: u32,
    /// Time since the measurement, in ms.
    pub(super) age_ms: u64,
}

/// Reason why measured service times are refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum KnownTimesError {
    #[error("variant {0}: a ratio of {1} % at {2} thousandths of a core")]
    Ratio(String, u32, u32),
    #[error("variant {0}: more than {POINTS_MAX} ratios")]
    TooMany(String),
    #[error("variant {0}: group {1} has no sums of positive times")]
    Sums(String, String),
    #[error("variant {0}: \"{1}\" is no group")]
    Group(String, String),
}

impl KnownTimes {
    /// Checks what comes from outside.
    ///
    /// # Errors
    /// The first value that cannot have been measured.
    pub fn check(&self) -> Result<(), KnownTimesError> {
        for (name, variant) in &self.variants {
            let points = &variant.ratios.points;
            if points.len() > POINTS_MAX {
                return Err(KnownTimesError::TooMany(name.clone()));
            }
            if let Some(wrong) = points.iter().find(|point| !point.is_possible()) {
                let (percent, millis) = (wrong.percent, wrong.millis);
                return Err(KnownTimesError::Ratio(name.clone(), percent, millis));
            }
            for (group, sums) in &variant.groups {
                if GroupName::parse(group).is_none() {
                    return Err(KnownTimesError::Group(name.clone(), group.clone()));
                }
                if !is_possible(sums) {
                    return Err(KnownTimesError::Sums(name.clone(), group.clone()));
                }
            }
        }
        Ok(())
    }
}

impl KnownRatio {
    fn is_possible(&self) -> bool {
        let most = (FAR_OFF_MAX * 100.0) as u32;
        self.millis > 0
            && [self.percent, self.peak]
                .iter()
                .all(|of| (1..=most).contains(of))
    }
}

fn is_possible(sums: &Moments) -> bool {
    let Moments {
        count,
        sum,
        squares,
    } = *sums;
    let is_positive = |sum: f64| sum.is_finite() && sum > 0.0;
    [count, sum, squares].into_iter().all(is_positive)
}

/// Mean time on one core by the profile as it is configured, in ms.
fn profile_ms(profile: Profile) -> f64 {
    profile.uncorrected().mean_ms(Cores::whole(1))
}

impl Planner {
    /// Returns the service times that hold at `now`; `None` if none were measured.
    pub fn known_times(&self, now: Duration) -> Option<KnownTimes> {
        let times = &self.measured;
        let each = self.service.variants.iter().enumerate();
        let known = each.filter_map(|(index, variant)| {
            let groups = times.group_times.sums(index);
            let groups = groups.filter(|(_, sums)| is_possible(sums));
            let known = KnownVariant {
                profile_ms: profile_ms(variant.profile),
                ratios: times.service_times.known(index, now),
                groups: groups.map(|(name, sums)| (name.clone(), *sums)).collect(),
            };
            let is_known = !known.ratios.points.is_empty() || !known.groups.is_empty();
            (is_known && known.profile_ms.is_finite()).then(|| (variant.name.clone(), known))
        });
        let variants: BTreeMap<_, _> = known.collect();
        (!variants.is_empty()).then_some(KnownTimes { variants })
    }

    /// Continues from service times that an earlier planner measured until `age` before `now`.
    pub fn restore_times(&mut self, now: Duration, known: &KnownTimes, age: Duration) {
        for (index, variant) in self.service.variants.iter().enumerate() {
            let Some(known) = known.variants.get(&variant.name) else {
                continue;
            };
            let ratio = known.profile_ms / profile_ms(variant.profile);
            let is_same = (ratio - 1.0).abs() <= SAME;
            if !is_same {
                continue;
            }
            let times = &mut self.measured;
            times.service_times.restore(
                index,
                &known.ratios,
                (now, age),
                &self.service.service_times,
            );
            times.group_times.restore(index, &known.groups, age);
        }
    }
}
