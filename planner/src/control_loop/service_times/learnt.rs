//! Ratios learnt at the numbers of cores that a variant has had → the correction of its profile. Pure.
//!
//! A ratio is taken over in steps and only if it differs by more than a tenth, so that noise changes no plan. Without
//! measurements it holds for [`HOLDS_FOR`], then fades until [`FORGOTTEN_AFTER`]: a variant that got no requests because
//! it was slow is tried again.
//!
//! A ratio lies within the bounds of a correction, unless the profile is far off ([`FarOff`]). Without a profile a ratio
//! neither fades nor has an episode: it is all that is known.
//!
//! A slow episode is the time from the first ratio above the profile to one that holds, whatever the cores are. What
//! it multiplied, its end divides again:
//! - where the ratio at the present cores has fallen to 1 from a peak, the ratios of other cores measured in the episode
//!   are divided by this peak
//! - where the present cores were not slow in the episode, nothing tells its end from a profile that is wrong at the other
//!   cores alone: their ratios begin to fade

use std::ops::RangeInclusive;
use std::time::Duration;

use super::super::known_times::{KnownRatio, KnownRatios};
use super::far_off::FarOff;
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
pub(super) struct Learnt {
    points: Vec<Point>,
    /// Start of the present slow episode.
    slow_since: Option<Duration>,
    far_off: FarOff,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    ratio: Ratio,
    measured: Duration,
    /// Age when it was measured: that of a ratio which an earlier planner measured, or which fades from now on.
    aged: Duration,
    /// Largest ratio of the slow episode, in percent.
    peak: u32,
}

impl Learnt {
    /// Ratios of a variant without a profile, to its start value.
    pub(super) fn without_profile() -> Learnt {
        Learnt {
            far_off: FarOff::NoProfile,
            ..Learnt::default()
        }
    }

    /// Whether there is a profile that the ratios correct.
    pub(super) fn has_profile(&self) -> bool {
        !matches!(self.far_off, FarOff::NoProfile)
    }

    /// Takes in a measured `ratio` at these cores of one execution, and that of its answers if there were enough.
    pub(super) fn learn(
        &mut self,
        millis: u32,
        (ratio, of_answers): (f64, Option<f64>),
        now: Duration,
        rule: &ServiceTimeRule,
    ) {
        if let Some(of_answers) = of_answers {
            self.far_off.see(of_answers, now, rule);
        }
        let bounds = self.far_off.bounds(rule);
        let before = self.percent(millis, now);
        let is_here = |point: &&Point| point.ratio.millis == millis;
        let peak = self.points.iter().find(is_here).map(|point| point.peak);
        self.points.retain(|point| point.ratio.millis != millis);
        let percent = applied(before.unwrap_or(HOLDS_PERCENT), ratio, &bounds);
        let is_slow = percent > HOLDS_PERCENT && self.has_profile();
        let mut peak = peak.unwrap_or(HOLDS_PERCENT);
        if is_slow {
            self.slow_since.get_or_insert(now);
            peak = peak.max(percent);
        } else {
            self.end_episode(peak, now);
            peak = HOLDS_PERCENT;
        }
        self.points.push(Point {
            ratio: Ratio { millis, percent },
            measured: now,
            aged: Duration::ZERO,
            peak,
        });
        if self.points.len() > POINTS_MAX {
            self.points.remove(0);
        }
    }

    /// Ends the slow episode, which had this `peak` at the present cores: see the module.
    fn end_episode(&mut self, peak: u32, now: Duration) {
        let Some(since) = self.slow_since.take() else {
            return;
        };
        let slow = |point: &&mut Point| point.measured >= since && point.peak > HOLDS_PERCENT;
        for point in self.points.iter_mut().filter(slow) {
            if peak > HOLDS_PERCENT {
                let excess = f64::from(point.ratio.percent) / f64::from(peak);
                let percent = in_steps(excess * f64::from(HOLDS_PERCENT));
                point.ratio.percent = percent.max(HOLDS_PERCENT).min(point.ratio.percent);
            } else {
                point.aged += HOLDS_FOR.saturating_sub(point.age(now));
            }
            point.peak = HOLDS_PERCENT;
        }
    }

    /// Ratios that hold at `now`, for a later planner.
    pub(super) fn known(&self, now: Duration) -> KnownRatios {
        let held = self.points.iter();
        let held = held.filter(|point| self.held(**point, now).is_some());
        let points = held.map(|point| KnownRatio {
            millis: point.ratio.millis,
            percent: point.ratio.percent,
            peak: point.peak,
            age_ms: u64::try_from(point.age(now).as_millis()).unwrap_or(u64::MAX),
        });
        KnownRatios {
            points: points.collect(),
            is_slow: self.slow_since.is_some(),
            is_far_off: self.is_far_off(now),
        }
    }

    /// Whether what is measured replaces the profile.
    pub(super) fn is_far_off(&self, now: Duration) -> bool {
        matches!(self.far_off, FarOff::Yes) && self.ratios(now).next().is_some()
    }

    /// Continues from ratios that were known `age` before `now`.
    pub(super) fn continuing(
        &self,
        known: &KnownRatios,
        (now, age): (Duration, Duration),
        rule: &ServiceTimeRule,
    ) -> Learnt {
        let far_off = match known.is_far_off {
            _ if !self.has_profile() => FarOff::NoProfile,
            true => FarOff::Yes,
            false => FarOff::No,
        };
        let bounds = far_off.bounds(rule);
        let [least, most] = [bounds.start(), bounds.end()].map(|of| in_steps(of * 100.0));
        let points = known.points.iter().map(|point| Point {
            ratio: Ratio {
                millis: point.millis,
                percent: point.percent.min(most).max(least),
            },
            measured: now,
            aged: Duration::from_millis(point.age_ms).saturating_add(age),
            peak: point.peak,
        });
        Learnt {
            points: points.collect(),
            slow_since: known.is_slow.then_some(now),
            far_off,
        }
    }

    /// Ratios that hold at `now`, the latest measured last.
    pub(super) fn ratios(&self, now: Duration) -> impl Iterator<Item = Ratio> {
        let each = self.points.iter();
        each.filter_map(move |point| self.held(*point, now))
    }

    fn held(&self, point: Point, now: Duration) -> Option<Ratio> {
        match self.has_profile() {
            true => point.at(now),
            false => Some(point.ratio),
        }
    }

    /// Ratio at these cores in percent; `None` if they were not measured, or long ago.
    pub(super) fn percent(&self, millis: u32, now: Duration) -> Option<u32> {
        let mut all = self.ratios(now);
        let found = all.find(|ratio| ratio.millis == millis);
        found.map(|ratio| ratio.percent)
    }
}

impl Point {
    fn age(self, now: Duration) -> Duration {
        now.saturating_sub(self.measured) + self.aged
    }

    fn at(self, now: Duration) -> Option<Ratio> {
        let age = self.age(now);
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
fn applied(before: u32, ratio: f64, bounds: &RangeInclusive<f64>) -> u32 {
    let ratio = ratio.clamp(*bounds.start(), *bounds.end());
    let known = f64::from(before) / f64::from(HOLDS_PERCENT);
    if (ratio - 1.0).abs() <= HOLDS {
        HOLDS_PERCENT
    } else if (ratio / known - 1.0).abs() <= CHANGES {
        before
    } else {
        in_steps(ratio * f64::from(HOLDS_PERCENT))
    }
}

/// Ratio in steps of [`STEP_PERCENT`]; below the bounds of a correction, where these are large, of 1 %.
fn in_steps(percent: f64) -> u32 {
    let step = match percent < CORRECTION_MIN * f64::from(HOLDS_PERCENT) {
        true => 1.0,
        false => STEP_PERCENT,
    };
    ((percent / step).round() * step) as u32
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
            let measured = (*ratio, Some(*ratio));
            learnt.learn(*millis, measured, s(*second), &ServiceTimeRule::default());
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

    #[test]
    fn end_of_interference_divides_the_ratios_of_other_cores() {
        // Cores × 1000, measured ratio, second; then cores, expected percent at the end.
        for (measurements, cores, percent) in [
            // Twice as slow on four cores, then on eight, and over there.
            (&[(4, 2.0, 0), (8, 2.0, 20), (8, 1.0, 40)][..], 4, 100),
            (&[(4, 2.0, 0), (8, 2.0, 20), (8, 1.0, 40)], 8, 100),
            // It ends in steps, as a median over the change does.
            (
                &[(4, 2.0, 0), (8, 2.0, 20), (8, 1.4, 30), (8, 1.0, 40)],
                4,
                100,
            ),
            // The profile of four cores is wrong by 1.3 besides.
            (&[(4, 2.6, 0), (8, 2.0, 20), (8, 1.0, 40)], 4, 130),
            // A little noise at the present cores explains nothing.
            (&[(1, 2.0, 0), (4, 1.12, 20), (4, 1.0, 40)], 1, 180),
            // Measured before the interference began.
            (
                &[(1, 1.3, 0), (4, 1.0, 10), (4, 2.0, 20), (4, 1.0, 30)],
                1,
                130,
            ),
            // Four cores were never slow: the profile may be wrong for one.
            (&[(1, 1.3, 0), (4, 1.0, 10)], 1, 130),
            (&[(1, 2.0, 90), (4, 1.0, 100), (4, 1.0, 220)], 1, 150),
            (&[(1, 2.0, 90), (4, 1.0, 100), (4, 1.0, 340)], 1, 100),
            // A profile that is too slow elsewhere remains so.
            (&[(1, 0.6, 0), (4, 2.0, 10), (4, 1.0, 20)], 1, 60),
        ] {
            let measurements: Vec<_> = measurements
                .iter()
                .map(|(cores, ratio, second)| (cores * 1000, *ratio, *second))
                .collect();
            let (_, _, end) = *measurements.last().unwrap();
            let found = learnt(&measurements).percent(cores * 1000, s(end));
            assert_eq!(found.unwrap_or(100), percent, "{measurements:?}");
        }
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
