//! Whether a profile is far off: answered executions have been beyond the bounds of a correction for [`FAR_OFF_AFTER`].
//! What is measured replaces the profile then, within wider bounds, until a ratio is within those of a correction. Without
//! a profile what is measured counts from the first ratio on. Pure.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::service::{CORRECTION_MIN, FAR_OFF_AFTER, FAR_OFF_MAX, FAR_OFF_MIN, ServiceTimeRule};

/// Whether the profile is far off.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum FarOff {
    /// Ratios are within the bounds of a correction.
    #[default]
    No,
    /// They have been beyond them since that time.
    Since(Duration),
    /// They have been so for long enough.
    Yes,
    /// There is no profile that could hold.
    NoProfile,
}

impl FarOff {
    /// Takes in the ratio of answered executions.
    pub(super) fn see(&mut self, ratio: f64, now: Duration, rule: &ServiceTimeRule) {
        let is_beyond = !FarOff::No.bounds(rule).contains(&ratio);
        *self = match *self {
            FarOff::NoProfile => FarOff::NoProfile,
            _ if !is_beyond => FarOff::No,
            FarOff::No => FarOff::Since(now),
            FarOff::Since(since) if now.saturating_sub(since) >= FAR_OFF_AFTER => FarOff::Yes,
            still => still,
        };
    }

    /// Bounds of the ratios that are planned with.
    pub(super) fn bounds(self, rule: &ServiceTimeRule) -> RangeInclusive<f64> {
        match self {
            FarOff::Yes | FarOff::NoProfile => FAR_OFF_MIN..=FAR_OFF_MAX,
            FarOff::No | FarOff::Since(_) => CORRECTION_MIN..=rule.correction_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::learnt::Learnt;
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn learnt(mut learnt: Learnt, measurements: &[(u32, f64, u64)]) -> Learnt {
        for (millis, ratio, second) in measurements {
            let measured = (*ratio, Some(*ratio));
            learnt.learn(*millis, measured, s(*second), &ServiceTimeRule::default());
        }
        learnt
    }

    /// Measured ratios at seconds → percent, and whether the profile is far off.
    #[test]
    fn far_off_profile_is_replaced_after_30_s() {
        for (measurements, percent, is_far_off) in [
            (&[(15.0, 0), (15.0, 29)][..], 400, false),
            (&[(15.0, 0), (15.0, 30)], 1500, true),
            (&[(30.0, 0), (14.0, 20), (30.0, 40)], 3000, true),
            // Within the bounds meanwhile.
            (&[(15.0, 0), (3.9, 20), (15.0, 40)], 400, false),
            (&[(15.0, 0), (15.0, 30), (15.0, 60), (2.0, 61)], 200, false),
            (&[(15.0, 0), (15.0, 30), (1.0, 31)], 100, false),
            // A profile of 600 ms for a model of 20.
            (&[(0.0333, 0), (0.0333, 30)], 3, true),
            // The bounds of what replaces a profile.
            (&[(9e9, 0), (9e9, 30)], 100_000, true),
            (&[(1e-9, 0), (1e-9, 30)], 2, true),
        ] {
            let all: Vec<_> = measurements
                .iter()
                .map(|(ratio, second)| (1000, *ratio, *second))
                .collect();
            let (_, _, end) = *all.last().unwrap();
            let learnt = learnt(Learnt::default(), &all);
            let found = (learnt.percent(1000, s(end)), learnt.is_far_off(s(end)));
            assert_eq!(found, (Some(percent), is_far_off), "{measurements:?}");
            // A later planner goes on with it.
            let known = learnt.known(s(end));
            let rule = ServiceTimeRule::default();
            let anew = Learnt::default().continuing(&known, (s(0), s(1)), &rule);
            let found = (anew.percent(1000, s(0)), anew.is_far_off(s(0)));
            assert_eq!(found, (Some(percent), is_far_off), "{measurements:?}");
        }
        // Executions that were cut off are no answers.
        let mut learnt = Learnt::default();
        for second in 0..60 {
            learnt.learn(1000, (15.0, None), s(second), &ServiceTimeRule::default());
        }
        assert_eq!(learnt.percent(1000, s(60)), Some(400));
        assert!(!learnt.is_far_off(s(60)));
    }

    /// Ratios of a variant without a profile count from the first one on, and stay without requests.
    #[test]
    fn ratio_to_a_start_value_counts_at_once_and_does_not_fade() {
        for (measurements, percent) in [
            (&[(43.0, 0)][..], 4300),
            (&[(43.0, 0), (44.0, 1)], 4300),
            (&[(43.0, 0), (86.0, 1)], 8600),
            (&[(86.0, 0), (0.3, 1)], 30),
        ] {
            let all: Vec<_> = measurements
                .iter()
                .map(|(ratio, second)| (1000, *ratio, *second))
                .collect();
            let learnt = learnt(Learnt::without_profile(), &all);
            for at in [2, 3600] {
                assert_eq!(
                    learnt.percent(1000, s(at)),
                    Some(percent),
                    "{measurements:?}"
                );
            }
            assert!(!learnt.is_far_off(s(2)));
            let known = learnt.known(s(2));
            let rule = ServiceTimeRule::default();
            let anew = Learnt::without_profile().continuing(&known, (s(0), s(1)), &rule);
            assert_eq!(anew.percent(1000, s(3600)), Some(percent));
            assert!(!anew.has_profile());
        }
    }
}
