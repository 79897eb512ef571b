//! Rates measured of late, from which a planner that starts anew comes to know the load as the one before it did. Times
//! in which nobody observed are gaps, never zero. Bounded in number and age. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use super::{BURSTS_MAX, DemandRule};

/// Maximum number of samples in a history: an hour of those a quarter of a second apart.
pub const HISTORY_SAMPLES_MAX: usize = 14_400;
/// Maximum length of a history.
pub const HISTORY_MAX: Duration = BURSTS_MAX;
/// Span within which times matter: forecasters ahead count whole seconds, and fit at whole minutes.
const PHASE_NS: u128 = 3_600_000_000_000;
/// Length of a history for a forecast ahead, which learns from all of it.
const AHEAD: Duration = HISTORY_MAX;

/// Mean rate over a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Time before it in which nobody observed.
    pub gap: Duration,
    /// Length; 0 for a first sample, which counts requests of an unknown time.
    pub span: Duration,
    /// Rate in requests/s.
    pub rate: f64,
}

/// Reason why samples are no history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum HistoryError {
    #[error("more than {HISTORY_SAMPLES_MAX} samples")]
    TooMany,
    #[error("samples of more than {HISTORY_MAX:?}")]
    TooLong,
    #[error("a rate that is no number, negative or infinite")]
    Rate,
}

/// Latest rates, the latest last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    samples: VecDeque<Measured>,
    length: Duration,
    end: Duration,
    kept: Duration,
}

impl History {
    /// Creates an empty history, as long as a forecast by `rule` depends on it.
    pub(super) fn of(rule: &DemandRule) -> History {
        let ahead = rule.ahead.as_ref().map_or(Duration::ZERO, |_| AHEAD);
        let kept = rule.bursts.max(rule.window + rule.moving).max(ahead);
        History {
            kept: kept.min(HISTORY_MAX),
            ..History::default()
        }
    }

    /// Creates a history of these samples, the latest last, of which the first began at `begin`.
    ///
    /// # Errors
    /// Fails if there are too many of them, or a value is none.
    pub fn new(
        samples: impl IntoIterator<Item = Measured>,
        begin: Duration,
    ) -> Result<History, HistoryError> {
        let mut history = History {
            kept: HISTORY_MAX,
            ..History::default()
        };
        for one in samples {
            if history.samples.len() >= HISTORY_SAMPLES_MAX {
                return Err(HistoryError::TooMany);
            }
            if !one.rate.is_finite() || one.rate < 0.0 {
                return Err(HistoryError::Rate);
            }
            let length = history.length.checked_add(one.gap);
            let length = length.and_then(|length| length.checked_add(one.span));
            let length = length.filter(|length| *length <= HISTORY_MAX);
            history.length = length.ok_or(HistoryError::TooLong)?;
            history.samples.push_back(one);
        }
        history.end = begin.saturating_add(history.length);
        Ok(history)
    }

    /// Adds the mean rate from `from` to `at`.
    pub(super) fn push(&mut self, from: Duration, at: Duration, rate: f64) {
        let one = Measured {
            gap: match self.samples.is_empty() {
                true => Duration::ZERO,
                false => from.saturating_sub(self.end),
            },
            span: at.saturating_sub(from),
            rate,
        };
        self.samples.push_back(one);
        self.length += one.gap + one.span;
        self.end = at;
        while self.length > self.kept || self.samples.len() > HISTORY_SAMPLES_MAX {
            let Some(oldest) = self.samples.pop_front() else {
                return;
            };
            self.length -= oldest.gap + oldest.span;
            // The gap before the first sample says nothing.
            if let Some(first) = self.samples.front_mut() {
                self.length -= std::mem::take(&mut first.gap);
            }
        }
    }

    /// Samples, the latest last.
    pub fn samples(&self) -> impl Iterator<Item = &Measured> {
        self.samples.iter()
    }

    /// Whether nothing has been measured.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// End of the latest sample.
    pub fn end(&self) -> Duration {
        self.end
    }

    /// Time from the first sample's begin to the end.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Begin of the first sample within the hour.
    pub fn phase(&self) -> Duration {
        let begin = self.end.saturating_sub(self.length);
        Duration::from_nanos(u64::try_from(begin.as_nanos() % PHASE_NS).unwrap_or_default())
    }

    /// Returns the first time not before `now` at which a replay of this history may begin.
    pub fn replay_begin(&self, now: Duration) -> Duration {
        let hour = Duration::from_secs(3600);
        let hours = u32::try_from(now.as_secs() / 3600 + 1).unwrap_or(u32::MAX);
        hour.saturating_mul(hours) + self.phase()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{demand, rule};
    use super::super::{Demand, Forecasting};
    use super::*;

    const SAMPLE: Duration = Duration::from_millis(250);

    /// A load of an even part, bursts, and noise that repeats.
    fn rate(sample: u32) -> f64 {
        let noise = f64::from(sample * 7 % 13);
        let burst = if sample % 200 < 20 { 60.0 } else { 0.0 };
        40.0 + noise + burst
    }

    fn observe(demand: &mut Demand, samples: std::ops::Range<u32>, from: Duration) {
        for sample in samples {
            demand.observe(from + SAMPLE * sample, weir_api::Rps(rate(sample)));
            demand.foresee(Duration::from_secs(2));
        }
    }

    #[test]
    fn replayed_history_gives_the_same_forecast() {
        for forecasting in [Forecasting::Reactive, Forecasting::Auto] {
            let mut before = Demand::new(rule(1.1, forecasting));
            for end in [1, 39, 400, 1000] {
                let start = Duration::from_millis(130);
                before = Demand::new(rule(1.1, forecasting));
                observe(&mut before, 0..end, start);
                let mut after = Demand::new(rule(1.1, forecasting));
                let history = before.history();
                let begin = history.replay_begin(Duration::from_secs(4000));
                assert_eq!(begin, Duration::from_secs(7200) + start);
                after.replay(history, begin, Duration::from_secs(2));
                assert_eq!(after.forecast(), before.forecast(), "{forecasting:?} {end}");
                observe(&mut before, end..end + 50, start);
                observe(&mut after, end..end + 50, begin);
                assert_eq!(after.forecast(), before.forecast(), "{forecasting:?} {end}");
            }
            assert!(before.forecast().unwrap().window_full);
        }
    }

    #[test]
    fn gap_is_no_load_and_a_long_one_lets_the_window_fill_anew() {
        for (gap_s, is_full) in [(3, true), (9, true), (10, false), (200, false)] {
            let mut demand = demand(1.0);
            let steady = |demand: &mut Demand, from: Duration| {
                for sample in 0..80 {
                    demand.observe(from + SAMPLE * sample, weir_api::Rps(40.0));
                }
            };
            steady(&mut demand, Duration::ZERO);
            let end = SAMPLE * 79 + Duration::from_secs(gap_s);
            // Scrapes that say nothing yet.
            demand.skip(end - Duration::from_secs(1));
            demand.skip(end);
            let forecast = demand.forecast();
            assert_eq!(
                forecast.map(|known| known.demand.0),
                is_full.then_some(40.0),
                "{gap_s}"
            );
            demand.observe(end + SAMPLE, weir_api::Rps(40.0));
            let forecast = demand.forecast().unwrap();
            assert!(
                (forecast.demand.0 - 40.0).abs() < 1e-9,
                "{gap_s}: {forecast:?}"
            );
            assert_eq!(forecast.window_full, is_full, "{gap_s}");
            let last = *demand.history().samples().last().unwrap();
            let gap = Duration::from_secs(gap_s);
            assert_eq!((last.gap, last.span), (gap, SAMPLE));
        }
    }

    #[test]
    fn history_is_bounded_in_number_and_age() {
        let ms = Duration::from_millis;
        let mut history = History::of(&rule(1.0, Forecasting::Reactive));
        for second in 1..1000 {
            history.push(ms(1000 * (second - 1)), ms(1000 * second), 1.0);
        }
        assert_eq!((history.samples.len(), history.phase()), (300, ms(699_000)));
        history.push(ms(1_200_000), ms(1_200_250), 2.0);
        assert_eq!((history.samples.len(), history.length), (99, ms(299_250)));
        history.push(ms(1_600_000), ms(1_600_250), 2.0);
        assert_eq!((history.samples.len(), history.length), (1, ms(250)));
        let mut history = History::of(&rule(1.0, Forecasting::Auto));
        for sample in 1..40_000 {
            history.push(ms(100 * (sample - 1)), ms(100 * sample), 1.0);
        }
        assert_eq!(history.samples.len(), HISTORY_SAMPLES_MAX);
    }

    #[test]
    fn wrong_samples_are_refused() {
        let one = |span, rate| Measured {
            gap: Duration::ZERO,
            span,
            rate,
        };
        let second = Duration::from_secs(1);
        for (samples, expected) in [
            (vec![one(HISTORY_MAX, 1.0)], Ok(1)),
            (vec![one(second, f64::NAN)], Err(HistoryError::Rate)),
            (vec![one(second, f64::INFINITY)], Err(HistoryError::Rate)),
            (vec![one(second, -1.0)], Err(HistoryError::Rate)),
            (
                vec![one(HISTORY_MAX, 1.0), one(second, 1.0)],
                Err(HistoryError::TooLong),
            ),
            (vec![one(Duration::MAX, 1.0); 2], Err(HistoryError::TooLong)),
            (
                vec![one(Duration::ZERO, 1.0); HISTORY_SAMPLES_MAX + 1],
                Err(HistoryError::TooMany),
            ),
        ] {
            let made = History::new(samples, second);
            assert_eq!(made.map(|history| history.samples.len()), expected);
        }
    }
}
