//! Exponential smoothing, moved by the load's pattern of the hour and of the day.
//!
//! The pattern is found by MSTL (seasonal-trend decomposition by LOESS with several periods) on the logarithms of the
//! mean rates of whole minutes. A period counts once the load has been seen for two of it.

use std::collections::VecDeque;

use stlrs::{MstlParams, StlParams};

use super::smoothing::{Smoothing, TIME_CONSTANT_S};
use super::{Model, Prediction};
use crate::history::History;
use crate::loss::{from_log, log_rate};
use crate::task::Task;

/// Periods of the pattern, in minutes: an hour and a day.
pub const PERIODS: [usize; 2] = [60, 1440];
/// Maximum number of minutes that the pattern is found from: a week.
pub const BUCKETS_MAX: usize = 7 * 1440;
/// Length of a bucket, in seconds.
const BUCKET_S: u64 = 60;
/// Periods over which the pattern is smoothed: it changes slowly from one to the next.
const SEASONAL_LENGTH: usize = 35;
/// A pattern is smoothed over this part of its period: fewer repetitions tell less of each minute.
const PERIOD_PARTS: usize = 60;
/// Maximum factor by which the pattern moves a forecast, as a logarithm: 4 times.
const SHIFT_MAX: f64 = 1.386;

/// Smoothing with a seasonal pattern.
#[derive(Debug)]
pub struct Seasonal {
    horizon: usize,
    smoothing: Smoothing,
    /// Logarithms of whole minutes, the latest last.
    minutes: VecDeque<f64>,
    /// Number of the minute under way since the epoch, its sum and its seconds.
    current: Option<(u64, f64, u32)>,
    /// Pattern of each period found, by the minute since the epoch modulo the period.
    patterns: Vec<Vec<f64>>,
}

impl Seasonal {
    /// Creates a model that has seen nothing.
    pub fn new(task: Task) -> Seasonal {
        Seasonal {
            horizon: task.horizon(),
            smoothing: Smoothing::new(task),
            minutes: VecDeque::new(),
            current: None,
            patterns: Vec::new(),
        }
    }

    /// Ends the minute under way, and fills minutes without a rate by those a day before, or else the last one.
    fn end_minute(&mut self, next: u64) {
        let Some((minute, sum, seconds)) = self.current else {
            return;
        };
        let mean = log_rate(sum / f64::from(seconds.max(1)));
        self.minutes.push_back(mean);
        let missing = next.saturating_sub(minute).saturating_sub(1);
        if missing > BUCKETS_MAX as u64 / 2 {
            self.minutes.clear();
            self.patterns.clear();
            return;
        }
        for _ in 0..missing {
            let day = PERIODS.iter().max().copied().unwrap_or_default();
            let before = self.minutes.len().checked_sub(day);
            let before = before.and_then(|index| self.minutes.get(index));
            let filled = before.or(self.minutes.back()).copied().unwrap_or(mean);
            self.minutes.push_back(filled);
        }
        while self.minutes.len() > BUCKETS_MAX {
            self.minutes.pop_front();
        }
    }

    /// Pattern at a second since the epoch, interpolated between the middles of minutes.
    fn pattern(&self, second: f64) -> f64 {
        let minutes = (second / BUCKET_S as f64 - 0.5).max(0.0);
        let (whole, part) = (minutes.floor(), minutes - minutes.floor());
        let at = |minute: u64, pattern: &Vec<f64>| {
            let index = minute.checked_rem(pattern.len() as u64).unwrap_or_default();
            pattern.get(index as usize).copied().unwrap_or_default()
        };
        let sum = |minute: u64| -> f64 { self.patterns.iter().map(|one| at(minute, one)).sum() };
        sum(whole as u64) * (1.0 - part) + sum(whole as u64 + 1) * part
    }

    /// Logarithm by which the pattern rises from the smoothed past to its maximum within the horizon.
    fn shift(&self, now: u64) -> f64 {
        if self.patterns.is_empty() {
            return 0.0;
        }
        let past = self.pattern(now as f64 - TIME_CONSTANT_S);
        let steps = 4;
        let ahead = (0..=steps).map(|step| {
            let share = f64::from(step) / f64::from(steps);
            self.pattern(now as f64 + share * self.horizon as f64)
        });
        let shift = ahead.fold(f64::MIN, f64::max) - past;
        shift.clamp(-SHIFT_MAX, SHIFT_MAX)
    }
}

impl Model for Seasonal {
    fn observe(&mut self, history: &History) {
        self.smoothing.observe(history);
        let Some(rate) = history.last(1).last() else {
            return;
        };
        let minute = history.at() / BUCKET_S;
        match &mut self.current {
            Some((current, sum, seconds)) if *current == minute => {
                *sum += rate;
                *seconds += 1;
            }
            _ => {
                self.end_minute(minute);
                self.current = Some((minute, *rate, 1));
            }
        }
    }

    fn predict(&self, history: &History) -> Option<Prediction> {
        let smoothed = self.smoothing.predict(history)?;
        let shift = self.shift(history.at());
        let moved = |rate: f64| from_log(log_rate(rate) + shift);
        Some(Prediction {
            median: moved(smoothed.median),
            upper: moved(smoothed.upper),
        })
    }

    fn refit(&mut self) {
        let Some((now, _, _)) = self.current else {
            return;
        };
        let minutes: Vec<f64> = self.minutes.iter().copied().collect();
        let enough = |period: &&usize| minutes.len() >= 2 * **period;
        let periods: Vec<usize> = PERIODS.iter().filter(enough).copied().collect();
        let mut each = StlParams::new();
        each.robust(true);
        let mut all = MstlParams::new();
        all.stl_params(each);
        all.seasonal_lengths(&vec![SEASONAL_LENGTH; periods.len()]);
        let fit = all.fit(&minutes, &periods);
        // Without two periods there is no pattern yet.
        let Ok(fit) = fit else {
            return;
        };
        let first = now.saturating_sub(minutes.len() as u64);
        let found = periods.iter().zip(fit.seasonal());
        let pattern = |(period, component): (&usize, &Vec<f64>)| {
            let mut pattern = vec![0.0; *period];
            for (minute, value) in (first..).zip(component) {
                let index = minute.checked_rem(*period as u64).unwrap_or_default() as usize;
                // Later periods replace earlier ones.
                if let Some(of_phase) = pattern.get_mut(index) {
                    *of_phase = *value;
                }
            }
            smoothed(&pattern, *period / PERIOD_PARTS)
        };
        self.patterns = found.map(pattern).collect();
    }
}

/// Means over `span` values around each of a circle.
fn smoothed(circle: &[f64], span: usize) -> Vec<f64> {
    let around = |centre: usize| {
        let from = (centre + circle.len()).saturating_sub(span / 2);
        let values = circle
            .iter()
            .cycle()
            .skip(from % circle.len().max(1))
            .take(span.max(1));
        values.sum::<f64>() / span.max(1) as f64
    };
    (0..circle.len()).map(around).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Seasonal {
        Seasonal::new(Task::new(20, 0.95).unwrap())
    }

    /// Rate that doubles for the 10 minutes after minute 30 of each hour.
    fn rate(at: u64) -> f64 {
        match at / 60 % 60 {
            30..40 => 80.0,
            _ => 40.0,
        }
    }

    fn run(model: &mut Seasonal, history: &mut History, from: u64, to: u64) {
        for at in from..to {
            history.push(at, rate(at));
            model.observe(history);
        }
    }

    #[test]
    fn hourly_rise_is_expected_before_it_comes() {
        let (mut model, mut history) = (model(), History::default());
        run(&mut model, &mut history, 1000 * 3600, 1006 * 3600 + 1795);
        let before = model.predict(&history).unwrap();
        assert!((before.median - 40.0).abs() < 1.0, "{before:?}");
        model.refit();
        let expected = model.predict(&history).unwrap();
        assert!(expected.median > 55.0, "{expected:?}");
        run(
            &mut model,
            &mut history,
            1006 * 3600 + 1795,
            1006 * 3600 + 3000,
        );
        let after = model.predict(&history).unwrap();
        assert!((after.median - 40.0).abs() < 4.0, "{after:?}");
    }

    #[test]
    fn minutes_are_bounded_and_filled_over_gaps() {
        let (mut model, mut history) = (model(), History::default());
        run(&mut model, &mut history, 0, 7200);
        run(&mut model, &mut history, 10_800, 18_000);
        assert_eq!(model.minutes.len(), 299);
        for day in 0..9 {
            history.push(20_000 + day * 86_400, 5.0);
            model.observe(&history);
        }
        assert_eq!(model.minutes.len(), BUCKETS_MAX);
        // After a longer gap than half of that, all begins anew.
        history.push(20_000 + 30 * 86_400, 5.0);
        model.observe(&history);
        assert!(model.minutes.is_empty());
        model.refit();
        assert!(model.predict(&history).is_none());
    }
}
