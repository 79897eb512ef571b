//! Forecast of the peak within the time that actuation takes, by the forecasters of `weir-forecast`.
//!
//! They take one rate for each whole second; samples are divided among the seconds that they cover. A sample over more
//! than [`GAP`] ends what is known, because its rate may have been anything within.

use std::time::Duration;

use weir_forecast::ensemble::Ensemble;
use weir_forecast::model::Kind;
use weir_forecast::task::{HORIZON_MAX, Task};

/// Longest sample that is divided among its seconds.
const GAP: Duration = Duration::from_secs(5);
/// Shortest horizon: two resizes in place.
const HORIZON_MIN: Duration = Duration::from_secs(4);
/// Part of a second that must have been measured.
const MEASURED_MIN: f64 = 0.999;

/// Forecaster of the demand, beside the reactive estimates.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Forecasting {
    /// None.
    Reactive,
    /// The one with the lowest pinball loss so far.
    Auto,
    /// The latest rate.
    Last,
    /// The maximum of the latest seconds.
    Maximum,
    /// Exponential smoothing of mean and variance.
    Smoothing,
    /// Linear quantile regression.
    Linear,
}

/// Settings of the forecast ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AheadRule {
    /// Forecasters among which the best is followed.
    pub forecasters: &'static [Kind],
    /// Horizon and quantile.
    pub task: Task,
}

impl Forecasting {
    /// Forecasters to run; none for the reactive estimates alone.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Forecasting::Reactive => &[],
            Forecasting::Auto => &[Kind::Last, Kind::Maximum, Kind::Smoothing, Kind::Linear],
            Forecasting::Last => &[Kind::Last],
            Forecasting::Maximum => &[Kind::Maximum],
            Forecasting::Smoothing => &[Kind::Smoothing],
            Forecasting::Linear => &[Kind::Linear],
        }
    }
}

/// Horizon in whole seconds, from the longest time that a variant takes to be ready.
pub fn horizon(readiness_max: Duration) -> usize {
    let seconds = readiness_max.max(HORIZON_MIN).as_secs_f64().ceil();
    (seconds as usize).clamp(1, HORIZON_MAX)
}

/// Forecasters, and the second under way.
#[derive(Debug)]
pub(super) struct Ahead {
    ensemble: Ensemble,
    second: u64,
    requests: f64,
    measured_s: f64,
    upper: f64,
}

impl Ahead {
    pub(super) fn new(rule: &AheadRule) -> Ahead {
        Ahead {
            ensemble: Ensemble::new(rule.forecasters, rule.task, None),
            second: 0,
            requests: 0.0,
            measured_s: 0.0,
            upper: 0.0,
        }
    }

    /// Takes in the mean rate from `from` to `at`.
    pub(super) fn observe(&mut self, from: Duration, at: Duration, rate: f64) {
        if at.saturating_sub(from) > GAP {
            self.begin(at.as_secs());
            return;
        }
        let mut begin = from;
        while begin < at {
            let second = begin.as_secs();
            let end = at.min(Duration::from_secs(second + 1));
            if second != self.second {
                self.end();
                self.begin(second);
            }
            let seconds = (end - begin).as_secs_f64();
            self.requests += rate * seconds;
            self.measured_s += seconds;
            begin = end;
        }
    }

    fn begin(&mut self, second: u64) {
        self.second = second;
        self.requests = 0.0;
        self.measured_s = 0.0;
    }

    /// Ends the second under way. One that was measured in part is left out.
    fn end(&mut self) {
        if self.measured_s >= MEASURED_MIN {
            self.ensemble
                .observe(self.second, self.requests / self.measured_s);
            let forecast = self.ensemble.forecast();
            self.upper = forecast.map_or(0.0, |forecast| forecast.upper);
        }
    }

    /// Quantile of the peak within the horizon, requests/s; 0 until enough is known.
    pub(super) fn upper(&self) -> f64 {
        self.upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(forecasting: Forecasting) -> Ahead {
        Ahead::new(&AheadRule {
            forecasters: forecasting.kinds(),
            task: Task::new(4, 0.95).unwrap(),
        })
    }

    #[test]
    fn samples_are_divided_among_whole_seconds() {
        let mut ahead = ahead(Forecasting::Last);
        let ms = Duration::from_millis;
        // 10/s until 1.5 s, 30/s until 3 s.
        ahead.observe(ms(0), ms(700), 10.0);
        ahead.observe(ms(700), ms(1500), 10.0);
        assert!((ahead.upper() - 10.0).abs() < 1e-6, "{ahead:?}");
        ahead.observe(ms(1500), ms(3001), 30.0);
        assert_eq!(ahead.ensemble.history().len(), 3);
        let rates = ahead.ensemble.history().last(3);
        for (rate, expected) in rates.iter().zip([10.0, 20.0, 30.0]) {
            assert!((rate - expected).abs() < 1e-6, "{rates:?}");
        }
    }

    #[test]
    fn long_sample_ends_what_is_known() {
        let mut ahead = ahead(Forecasting::Auto);
        let seconds = Duration::from_secs_f64;
        for second in 0..10 {
            ahead.observe(
                seconds(f64::from(second)),
                seconds(f64::from(second + 1)),
                7.0,
            );
        }
        assert_eq!(ahead.ensemble.history().len(), 9);
        ahead.observe(seconds(10.0), seconds(19.5), 7.0);
        ahead.observe(seconds(19.5), seconds(22.1), 7.0);
        // The seconds 20 and 21; of 19 a half was not measured.
        assert_eq!(ahead.ensemble.history().len(), 2);
    }

    #[test]
    fn horizon_is_the_longest_readiness() {
        for (readiness, expected) in [(0.0, 4), (4.2, 5), (30.0, 30), (600.0, 120)] {
            assert_eq!(horizon(Duration::from_secs_f64(readiness)), expected);
        }
    }
}
