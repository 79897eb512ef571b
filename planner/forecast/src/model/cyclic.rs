//! Exponential smoothing, moved by the pattern of one season of a given length.
//!
//! The season is divided into at most [`PHASES_MAX`] phases. Of each is kept the mean rise of the rate's logarithm from
//! the phase before it, over the seasons so far: a rise stays right when the level is another one in the next season.
//! Every second the smoothed mean rises as the pattern does and is then corrected by the rate measured. A forecast adds
//! the pattern's greatest rise within the horizon. Nothing is fitted: work and memory of a second are bounded.

use super::smoothing::Smoothing;
use super::{Model, Prediction};
use crate::history::History;
use crate::learnt::{LearntModel, WEIGHT_MAX};
use crate::loss::{from_log, log_rate};
use crate::task::Task;

/// Maximum number of phases of a season; none is shorter than a second.
pub const PHASES_MAX: u64 = 240;
/// Minimum length of a season, in seconds.
pub const SEASON_MIN_S: u64 = 60;
/// Maximum length of a season, in seconds: a week.
pub const SEASON_MAX_S: u64 = 7 * 86_400;
/// Seasons that the pattern remembers.
pub const SEASONS_MAX: f64 = 7.0;
/// Maximum factor by which the pattern moves a forecast, as a logarithm: 4 times.
const SHIFT_MAX: f64 = 1.386;
/// Part of a phase that must have been measured.
const MEASURED_MIN: f64 = 0.5;

/// Length of the load's season.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Season {
    seconds: u64,
}

/// Error of a season.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("season: {0} s; it must be {SEASON_MIN_S} to {SEASON_MAX_S} s")]
pub struct SeasonError(u64);

impl Season {
    /// Creates a season of that many seconds.
    ///
    /// # Errors
    /// A length out of range.
    pub fn new(seconds: u64) -> Result<Season, SeasonError> {
        match seconds {
            SEASON_MIN_S..=SEASON_MAX_S => Ok(Season { seconds }),
            _ => Err(SeasonError(seconds)),
        }
    }

    /// Its length in seconds.
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    /// Number of its phases.
    fn phases(self) -> u64 {
        self.seconds.min(PHASES_MAX)
    }

    /// Number of the phase at a second, both since the epoch.
    fn phase(self, second: u64) -> u64 {
        second.saturating_mul(self.phases()) / self.seconds
    }

    /// Phases since the epoch until the middle of a second, counted from the middle of the first.
    fn position(self, second: u64) -> f64 {
        let phases = (second as f64 + 0.5) * self.phases() as f64 / self.seconds as f64;
        (phases - 0.5).max(0.0)
    }
}

/// Mean rise to a phase from the one before it, as a logarithm.
#[derive(Debug, Clone, Copy, Default)]
struct Rise {
    mean: f64,
    seasons: f64,
}

/// Mean rate under way.
#[derive(Debug, Clone, Copy)]
struct Under {
    phase: u64,
    sum: f64,
    seconds: u32,
}

/// Smoothing with the pattern of one season.
#[derive(Debug)]
pub struct Cyclic {
    horizon: u64,
    season: Season,
    smoothing: Smoothing,
    rises: Vec<Rise>,
    under: Option<Under>,
    /// Latest phase measured, and its rate's logarithm.
    before: Option<(u64, f64)>,
}

impl Cyclic {
    /// Creates a model that has seen nothing.
    pub fn new(task: Task, season: Season) -> Cyclic {
        Cyclic {
            horizon: task.horizon() as u64,
            season,
            smoothing: Smoothing::new(task),
            rises: vec![Rise::default(); season.phases() as usize],
            under: None,
            before: None,
        }
    }

    /// Index among the rises.
    fn index(&self, phase: u64) -> usize {
        (phase % self.season.phases()) as usize
    }

    fn rise(&self, phase: u64) -> f64 {
        let rise = self.rises.get(self.index(phase));
        rise.map_or(0.0, |rise| rise.mean)
    }

    fn end(&mut self, under: Under) {
        let length = self.season.seconds as f64 / self.season.phases() as f64;
        if f64::from(under.seconds) < MEASURED_MIN * length {
            return;
        }
        let log = log_rate(under.sum / f64::from(under.seconds));
        let before = self.before.replace((under.phase, log));
        let adjacent = before.filter(|(phase, _)| phase + 1 == under.phase);
        let index = self.index(under.phase);
        if let (Some((_, before)), Some(rise)) = (adjacent, self.rises.get_mut(index)) {
            rise.seasons = (rise.seasons + 1.0).min(SEASONS_MAX);
            rise.mean += (log - before - rise.mean) / rise.seasons;
        }
    }

    /// Rise of the pattern from one second to another, and the greatest on the way; both as logarithms.
    fn walk(&self, from: u64, to: u64) -> (f64, f64) {
        let (from, to) = (self.season.position(from), self.season.position(to));
        let (mut at, mut level, mut highest) = (from, 0.0, 0.0_f64);
        while at < to {
            let whole = at.floor();
            let end = (whole + 1.0).min(to);
            level += (end - at) * self.rise(whole as u64 + 1);
            highest = highest.max(level);
            at = end;
        }
        let limited = |shift: f64| shift.clamp(-SHIFT_MAX, SHIFT_MAX);
        (limited(level), limited(highest))
    }
}

impl Model for Cyclic {
    fn observe(&mut self, history: &History) {
        let Some(rate) = history.last(1).last() else {
            return;
        };
        let now = history.at();
        if history.len() > 1 {
            let (moved, _) = self.walk(now.saturating_sub(1), now);
            self.smoothing.shift(moved);
        }
        self.smoothing.observe(history);
        let phase = self.season.phase(now);
        match &mut self.under {
            Some(under) if under.phase == phase => {
                under.sum += rate;
                under.seconds += 1;
            }
            under => {
                let (sum, seconds) = (*rate, 1);
                let ended = under.replace(Under {
                    phase,
                    sum,
                    seconds,
                });
                if let Some(ended) = ended {
                    self.end(ended);
                }
            }
        }
    }

    fn predict(&self, history: &History) -> Option<Prediction> {
        let smoothed = self.smoothing.predict(history)?;
        let (_, shift) = self.walk(history.at(), history.at() + self.horizon);
        let moved = |rate: f64| from_log(log_rate(rate) + shift);
        Some(Prediction {
            median: moved(smoothed.median),
            upper: moved(smoothed.upper),
        })
    }

    fn learnt(&self) -> LearntModel {
        let rises = self.rises.iter().map(|rise| (rise.mean, rise.seasons));
        LearntModel::Season(rises.collect())
    }

    fn relearn(&mut self, learnt: &LearntModel) -> bool {
        let LearntModel::Season(rises) = learnt else {
            return false;
        };
        let is_valid = |(mean, seasons): &(f64, f64)| {
            mean.abs() <= WEIGHT_MAX && (0.0..=SEASONS_MAX).contains(seasons)
        };
        if rises.len() != self.rises.len() || !rises.iter().all(is_valid) {
            return false;
        }
        for (rise, (mean, seasons)) in self.rises.iter_mut().zip(rises) {
            (rise.mean, rise.seasons) = (*mean, *seasons);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn model(season: u64) -> Cyclic {
        let season = Season::new(season).unwrap();
        Cyclic::new(Task::new(20, 0.95).unwrap(), season)
    }

    /// Rate that trebles for the 10 minutes after minute 30 of each hour, on a level that rises by a tenth each hour.
    fn rate(at: u64) -> f64 {
        let level = 40.0 * (1.0 + 0.1 * (at / HOUR) as f64);
        match at / 60 % 60 {
            30..40 => 3.0 * level,
            _ => level,
        }
    }

    fn run(model: &mut Cyclic, history: &mut History, seconds: std::ops::Range<u64>) {
        for at in seconds {
            history.push(at, rate(at));
            model.observe(history);
        }
    }

    #[test]
    fn rise_is_expected_before_it_comes_from_the_second_season_on() {
        for hour in 0..4 {
            let (mut model, mut history) = (model(HOUR), History::default());
            let before = hour * HOUR + 1795;
            run(&mut model, &mut history, 0..before);
            let known = rate(before - 1);
            let expected = model.predict(&history).unwrap();
            let least = if hour == 0 { 0.99 } else { 1.7 };
            let most = if hour == 0 { 1.01 } else { 4.0 };
            let factor = expected.median / known;
            assert!((least..most).contains(&factor), "{hour}: {factor}");
            // While it lasts, and when it is over, what is measured counts.
            for (minute, expected) in [(35, 3.0 * known), (50, known)] {
                let end = hour * HOUR + minute * 60;
                let (mut model, mut history) = (super::tests::model(HOUR), History::default());
                run(&mut model, &mut history, 0..end);
                let median = model.predict(&history).unwrap().median;
                assert!((median / expected - 1.0).abs() < 0.05, "{hour}: {median}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_gaps_teach_nothing() {
        for (season, phases) in [
            (SEASON_MIN_S, 60),
            (100, 100),
            (250, 240),
            (86_400, 240),
            (SEASON_MAX_S, 240),
        ] {
            let (mut model, mut history) = (model(season), History::default());
            // Every other phase is measured: no two are adjacent.
            for phase in (0..3 * phases).step_by(2) {
                let begin = (phase * season).div_ceil(phases);
                run(&mut model, &mut history, begin..begin + 1);
            }
            assert_eq!(model.rises.len() as u64, phases);
            assert!(
                model.rises.iter().all(|rise| rise.seasons == 0.0),
                "{season}"
            );
        }
    }

    #[test]
    fn factor_is_bounded() {
        let (mut model, mut history) = (model(60), History::default());
        for at in 0..600 {
            history.push(at, if at % 60 < 30 { 0.0 } else { 1e5 });
            model.observe(&history);
            let forecast = model.predict(&history);
            let finite = |one: Prediction| one.median.is_finite() && one.upper <= 1e8;
            assert!(forecast.is_none_or(finite), "{at}: {forecast:?}");
        }
        let (moved, highest) = model.walk(600, 640);
        assert!(
            moved <= SHIFT_MAX && highest == SHIFT_MAX,
            "{moved} {highest}"
        );
    }

    #[test]
    fn season_out_of_range_is_refused_with_its_length() {
        for seconds in [0, 59, SEASON_MAX_S + 1, u64::MAX] {
            let message = Season::new(seconds).unwrap_err().to_string();
            assert_eq!(
                message,
                format!("season: {seconds} s; it must be 60 to 604800 s")
            );
        }
        assert_eq!(Season::new(86_400).unwrap().seconds(), 86_400);
    }
}
