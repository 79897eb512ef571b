//! Ratios learnt at the numbers of cores that a variant has had → the correction of its profile. Pure.
//!
//! A ratio is taken over in steps and only if it differs by more than a tenth, so that noise changes no plan. Without
//! measurements it holds for [`HOLDS_FOR`], then fades until [`FORGOTTEN_AFTER`]: a variant that got no requests because
//! it was slow is tried again.

use std::time::Duration;

use crate::profile::{HOLDS_PERCENT, POINTS_MAX, Ratio};
use crate::service::{CORRECTION_MIN, ServiceTimeRule};

/// Relative deviation that changes a ratio.
const CHANGES: f64 = 0.1;
/// Deviation from the profile below which the profile holds again.
const HOLDS: f64 = 0.05;
/// Step of ratios, in percent.
const STEP_PERCENT: f64 = 5.0;
/// Time without measurements for which a ratio stays.
pub(super) const HOLDS_FOR: Duration = Duration::from_secs(60);
/// Time without measurements after which the profile holds again.
pub(super) const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// Ratios by cores, the latest measured last.
#[derive(Debug, Clone, Default)]
pub(super) struct Learnt(Vec<Point>);

#[derive(Debug, Clone, Copy)]
struct Point {
    ratio: Ratio,
    measured: Duration,
}

impl Learnt {
    /// Takes in a measured `ratio` at these cores of one execution.
    pub(super) fn learn(&mut self, millis: u32, ratio: f64, now: Duration, rule: &ServiceTimeRule) {
        let before = self.percent(millis, now);
        self.0.retain(|point| point.ratio.millis != millis);
        let percent = applied(before.unwrap_or(HOLDS_PERCENT), ratio, rule);
        self.0.push(Point {
            ratio: Ratio { millis, percent },
            measured: now,
        });
        if self.0.len() > POINTS_MAX {
            self.0.remove(0);
        }
    }

    /// Ratios that hold at `now`, the latest measured last.
    pub(super) fn ratios(&self, now: Duration) -> impl Iterator<Item = Ratio> {
        self.0.iter().filter_map(move |point| point.at(now))
    }

    /// Ratio at these cores in percent; `None` if they were not measured, or long ago.
    pub(super) fn percent(&self, millis: u32, now: Duration) -> Option<u32> {
        let mut all = self.ratios(now);
        let found = all.find(|ratio| ratio.millis == millis);
        found.map(|ratio| ratio.percent)
    }
}

impl Point {
    fn at(self, now: Duration) -> Option<Ratio> {
        let age = now.saturating_sub(self.measured);
        if age >= FORGOTTEN_AFTER {
            return None;
        }
        let fades = age.saturating_sub(HOLDS_FOR).as_secs_f64();
        let stays = 1.0 - fades / (FORGOTTEN_AFTER - HOLDS_FOR).as_secs_f64();
        let excess = f64::from(self.ratio.percent) - f64::from(HOLDS_PERCENT);
        let percent = match stays < 1.0 {
            true => in_steps(f64::from(HOLDS_PERCENT) + excess * stays),
            false => self.ratio.percent,
        };
        Some(Ratio {
            percent,
            ..self.ratio
        })
    }
}

/// Ratio in percent that replaces `before` after a measurement.
fn applied(before: u32, ratio: f64, rule: &ServiceTimeRule) -> u32 {
    let ratio = ratio.clamp(CORRECTION_MIN, rule.correction_max);
    let known = f64::from(before) / f64::from(HOLDS_PERCENT);
    if (ratio - 1.0).abs() <= HOLDS {
        HOLDS_PERCENT
    } else if (ratio / known - 1.0).abs() <= CHANGES {
        before
    } else {
        in_steps(ratio * f64::from(HOLDS_PERCENT))
    }
}

fn in_steps(percent: f64) -> u32 {
    ((percent / STEP_PERCENT).round() * STEP_PERCENT) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn learnt(measurements: &[(u32, f64, u64)]) -> Learnt {
        let mut learnt = Learnt::default();
        for (millis, ratio, second) in measurements {
            learnt.learn(*millis, *ratio, s(*second), &ServiceTimeRule::default());
        }
        learnt
    }

    #[test]
    fn ratio_changes_by_more_than_a_tenth_and_is_bounded() {
        for (ratios, percent) in [
            (&[1.08][..], 100),
            (&[1.12], 110),
            (&[1.3], 130),
            // Noise around a ratio, or around the profile, changes nothing.
            (&[1.3, 1.38, 1.22, 1.4], 130),
            (&[1.3, 1.5], 150),
            (&[1.3, 1.08], 110),
            (&[1.3, 1.04], 100),
            (&[1.12, 1.06], 110),
            (&[0.8], 80),
            (&[0.1], 50),
            (&[90.0], 400),
        ] {
            let measurements: Vec<_> = ratios.iter().map(|ratio| (1000, *ratio, 0)).collect();
            let found = learnt(&measurements).percent(1000, s(0));
            assert_eq!(found, Some(percent), "{ratios:?}");
        }
    }

    #[test]
    fn ratio_fades_without_measurements() {
        for (ratio, age_s, percent) in [
            (2.0, 0, Some(200)),
            (2.0, 60, Some(200)),
            (2.0, 180, Some(150)),
            (2.0, 299, Some(100)),
            (2.0, 300, None),
            (0.5, 180, Some(75)),
        ] {
            let found = learnt(&[(1000, ratio, 0)]).percent(1000, s(age_s));
            assert_eq!(found, percent, "{age_s} s");
        }
    }

    #[test]
    fn cores_are_learnt_separately_and_the_oldest_is_replaced() {
        let first = learnt(&[(1000, 1.3, 0), (4000, 1.0, 10)]);
        assert_eq!(first.percent(1000, s(10)), Some(130));
        assert_eq!(first.percent(4000, s(10)), Some(100));
        assert_eq!(first.percent(2000, s(10)), None);
        let many = learnt(&[
            (1000, 1.3, 0),
            (2000, 1.4, 1),
            (1000, 1.3, 2),
            (3000, 1.5, 3),
            (4000, 1.6, 4),
            (5000, 1.7, 5),
        ]);
        let ratios: Vec<u32> = many.ratios(s(5)).map(|ratio| ratio.percent).collect();
        assert_eq!(ratios, [130, 150, 160, 170]);
    }

    proptest! {
        #[test]
        fn ratio_stays_in_its_bounds_and_near_the_measured_one(
            ratios in prop::collection::vec(0.01_f64..20.0, 1..30),
            age_s in 0_u64..60,
        ) {
            let measurements: Vec<_> = ratios.iter().map(|ratio| (1000, *ratio, 0)).collect();
            let percent = learnt(&measurements).percent(1000, s(age_s)).unwrap();
            prop_assert!((50..=400).contains(&percent));
            let bounded = ratios.last().unwrap().clamp(0.5, 4.0);
            let off = f64::from(percent) / 100.0 / bounded;
            prop_assert!((0.88..1.13).contains(&off), "{percent} for {bounded}");
        }
    }
}
