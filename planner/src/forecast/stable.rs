//! Estimates of a rate → the rate to plan for, which falls only for a reason. Pure.
//!
//! - A fall that chance explains is ignored: the rate stays while the estimate is at most [`DEVIATIONS`] below it, and
//!   follows it down at that distance.
//! - A burst that has recurred is expected again. When the estimate has risen steeply to an earlier rate, cores are
//!   kept for the highest of the latest estimates, for twice as long as that rate had been absent. If cores were
//!   moved between bursts, each burst would begin by waiting for them and for variants to load.

use std::collections::VecDeque;
use std::time::Duration;

/// Longest memory of bursts.
pub const BURSTS_MAX: Duration = Duration::from_secs(3600);
/// Standard deviations of a count by which an estimate may lie below the rate.
const DEVIATIONS: f64 = 3.0;
/// Largest distance below the rate, as a fraction of the estimate: at a few requests/s, chance would keep a multiple of
/// the cores.
const PART_MAX: f64 = 0.15;
/// Ratio of an estimate to that of a second ago that counts as a steep rise: cores follow slower ones in time.
const STEEP: f64 = 1.25;
/// Fraction of a rate from which it counts as the same again.
const SAME: f64 = 0.9;
/// Time for which a recurring rate is expected, as a multiple of its absence.
const TIMES: u32 = 2;
/// Interval whose highest estimate is remembered.
const SECOND: Duration = Duration::from_secs(1);
/// Maximum number of these intervals.
const SECONDS_MAX: usize = BURSTS_MAX.as_secs() as usize + 1;

/// Rate that does not fall by chance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level(f64);

impl Level {
    /// Follows an estimate with the given standard deviation.
    pub(super) fn follow(&mut self, estimate: f64, deviation: f64) {
        let apart = (DEVIATIONS * deviation).min(PART_MAX * estimate);
        self.0 = self.0.min(estimate + apart).max(estimate);
    }

    /// Rate after the last estimate.
    pub(super) fn rate(self) -> f64 {
        self.0
    }
}

/// Remembered estimates, and bursts that recurred.
#[derive(Debug, Clone, Default)]
pub(super) struct Bursts {
    /// Begin of each second, and its highest estimate.
    seconds: VecDeque<(Duration, f64)>,
    /// Times at which a rate recurred, and its absence before.
    returns: VecDeque<(Duration, Duration)>,
}

impl Bursts {
    /// Takes in an estimate and returns the highest rate that may recur soon; 0 for none. An absence shorter than
    /// `apart` belongs to the same burst. Entries older than `memory` are forgotten.
    pub(super) fn follow(
        &mut self,
        at: Duration,
        estimate: f64,
        apart: Duration,
        memory: Duration,
    ) -> f64 {
        if self.is_steep(at, estimate)
            && let Some(away) = self.away(at, estimate).filter(|away| *away > apart)
        {
            self.returns.push_back((at, away));
        }
        match self.seconds.back_mut() {
            Some((begin, max)) if at.saturating_sub(*begin) < SECOND => {
                *max = max.max(estimate);
            }
            _ => self.seconds.push_back((at, estimate)),
        }
        let is_old = |of: Duration| at.saturating_sub(of) > memory;
        while self.seconds.len() > SECONDS_MAX
            || self
                .seconds
                .front()
                .is_some_and(|(begin, _)| is_old(*begin))
        {
            self.seconds.pop_front();
        }
        while self.returns.len() > SECONDS_MAX
            || self.returns.front().is_some_and(|(back, _)| is_old(*back))
        {
            self.returns.pop_front();
        }
        let longest = self.returns.iter().map(|(_, away)| *away).max();
        let waits = longest.unwrap_or_default() * TIMES;
        let latest = self.seconds.iter().rev();
        let latest = latest.take_while(|(begin, _)| at.saturating_sub(*begin) <= waits);
        let latest = latest.filter(|_| longest.is_some());
        latest.fold(0.0, |max, (_, one)| max.max(*one))
    }

    fn is_steep(&self, at: Duration, estimate: f64) -> bool {
        let mut earlier = self.seconds.iter().rev();
        let before = earlier.find(|(begin, _)| *begin + SECOND <= at);
        before.is_some_and(|(_, before)| estimate >= before * STEEP)
    }

    /// Time since the rate was last as high as this.
    fn away(&self, at: Duration, estimate: f64) -> Option<Duration> {
        let mut earlier = self.seconds.iter().rev();
        let like = earlier.find(|(_, one)| *one >= estimate * SAME);
        like.map(|(begin, _)| at.saturating_sub(*begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Duration = Duration::from_secs(10);
    const MEMORY: Duration = Duration::from_secs(300);

    /// Rates, one a second → the rate expected after the last.
    fn expected(rates: impl IntoIterator<Item = f64>, memory: Duration) -> f64 {
        let mut bursts = Bursts::default();
        let mut expected = 0.0;
        for (second, rate) in (0..).zip(rates) {
            let again = bursts.follow(Duration::from_secs(second), rate, APART, memory);
            expected = again.max(rate);
        }
        expected
    }

    fn spans(spans: &[(usize, f64)]) -> Vec<f64> {
        let all = spans.iter().map(|(seconds, rate)| vec![*rate; *seconds]);
        all.collect::<Vec<_>>().concat()
    }

    #[test]
    fn recurring_burst_is_expected_for_twice_its_absence() {
        let once = [(20, 40.0), (5, 100.0), (20, 40.0)];
        assert_eq!(expected(spans(&once), MEMORY), 40.0);
        // The rate was absent for 20 s, and is again for 21 s since its last second.
        let twice = |after| [once.as_slice(), &[(5, 95.0), (after, 40.0)]].concat();
        assert_eq!(expected(spans(&twice(42)), MEMORY), 95.0);
        assert_eq!(expected(spans(&twice(43)), MEMORY), 40.0);
        // A lower burst is no recurrence of the higher one, but of itself.
        let lower = [once.as_slice(), &[(5, 60.0), (20, 40.0)]].concat();
        assert_eq!(expected(spans(&lower), MEMORY), 60.0);
        let higher = [once.as_slice(), &[(5, 120.0), (20, 40.0)]].concat();
        assert_eq!(expected(spans(&higher), MEMORY), 40.0);
    }

    #[test]
    fn forgotten_burst_is_not_expected() {
        let twice = [(20, 40.0), (5, 100.0), (20, 40.0), (5, 100.0), (20, 40.0)];
        assert_eq!(expected(spans(&twice), Duration::from_secs(24)), 100.0);
        assert_eq!(expected(spans(&twice), Duration::from_secs(18)), 40.0);
        assert_eq!(expected(spans(&twice), Duration::ZERO), 40.0);
    }

    #[test]
    fn slow_rise_and_short_gap_are_no_bursts() {
        let swell = |from: f64| (0..30).map(move |second| from + 5.0 * f64::from(second));
        let falls = || swell(40.0).collect::<Vec<_>>().into_iter().rev();
        let twice = || swell(40.0).chain(falls()).chain(swell(40.0)).chain(falls());
        assert_eq!(expected(twice(), MEMORY), 40.0);
        let flickers = [(20, 40.0), (5, 100.0), (8, 40.0), (5, 100.0), (15, 40.0)];
        assert_eq!(expected(spans(&flickers), MEMORY), 40.0);
    }

    #[test]
    fn level_falls_by_more_than_chance_alone() {
        let mut level = Level::default();
        for (estimate, deviation, rate) in [
            (100.0, 4.0, 100.0),
            (90.0, 4.0, 100.0),
            (80.0, 4.0, 92.0),
            (90.0, 4.0, 92.0),
            (90.0, 0.0, 90.0),
            (100.0, 5.0, 100.0),
            (40.0, 20.0, 46.0),
        ] {
            level.follow(estimate, deviation);
            assert_eq!(level.rate(), rate, "{estimate}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut bursts = Bursts::default();
        for tick in 0..20_000_u64 {
            let rate = if tick % 12 == 0 { 100.0 } else { 10.0 };
            let at = Duration::from_secs(tick);
            bursts.follow(at, rate, Duration::from_secs(1), BURSTS_MAX);
        }
        assert!(bursts.seconds.len() <= SECONDS_MAX && bursts.returns.len() <= SECONDS_MAX);
    }
}
