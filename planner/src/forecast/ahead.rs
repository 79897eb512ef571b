//! Forecast of the peak within the time that actuation takes, by the forecasters of `weir-forecast`.
//!
//! They take one rate for each whole second; samples are divided among the seconds that they cover. A sample over more
//! than [`GAP`] ends what is known, because its rate may have been anything within.

use std::sync::Arc;
use std::time::Duration;

use weir_api::Rps;
use weir_forecast::ensemble::Ensemble;
use weir_forecast::learnt::{Learnt, LearntError};
use weir_forecast::lstm::Network;
use weir_forecast::model::{Kind, Prediction, Season, Settings};
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
    /// Smoothing, moved by the pattern of `demand.season`.
    Seasonal,
    /// The LSTM of `demand.model`.
    Lstm,
}

/// Settings of the forecast ahead.
#[derive(Debug, Clone, PartialEq)]
pub struct AheadRule {
    /// Forecasters among which the best is followed.
    pub forecasters: Vec<Kind>,
    /// Horizon and quantile.
    pub task: Task,
    /// Season of the load.
    pub season: Option<Season>,
    /// Network of the LSTM.
    pub network: Option<Arc<Network>>,
}

impl AheadRule {
    /// Creates the settings; `None` for the reactive estimates alone. The automatic choice is also among the seasonal
    /// forecaster and the LSTM, each if what it needs is there.
    pub fn new(
        forecasting: Forecasting,
        task: Task,
        season: Option<Season>,
        network: Option<Arc<Network>>,
    ) -> Option<AheadRule> {
        let forecasters = match forecasting {
            Forecasting::Reactive => return None,
            Forecasting::Auto => {
                let seasonal = season.map(|_| Kind::Seasonal);
                let lstm = network.as_ref().map(|_| Kind::Lstm);
                let always = [Kind::Last, Kind::Maximum, Kind::Smoothing, Kind::Linear];
                always.into_iter().chain(seasonal).chain(lstm).collect()
            }
            Forecasting::Last => vec![Kind::Last],
            Forecasting::Maximum => vec![Kind::Maximum],
            Forecasting::Smoothing => vec![Kind::Smoothing],
            Forecasting::Linear => vec![Kind::Linear],
            Forecasting::Seasonal => vec![Kind::Seasonal],
            Forecasting::Lstm => vec![Kind::Lstm],
        };
        Some(AheadRule {
            forecasters,
            task,
            season,
            network,
        })
    }
}

/// Horizon in whole seconds, from the longest time that a variant takes to be ready.
pub fn horizon(readiness_max: Duration) -> usize {
    let seconds = readiness_max.max(HORIZON_MIN).as_secs_f64().ceil();
    (seconds as usize).clamp(1, HORIZON_MAX)
}

/// Peak of the rate within a horizon.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Peak {
    /// Name of the forecaster.
    pub forecaster: &'static str,
    /// Horizon, in s.
    pub horizon_s: u64,
    /// Peak that is exceeded half of the time.
    pub median_rps: Rps,
    /// Quantile of `upper_rps`, 0 to 1.
    pub quantile: f64,
    /// Quantile of the peak.
    pub upper_rps: Rps,
}

/// Forecasters, and the second under way.
#[derive(Debug)]
pub(super) struct Ahead {
    ensemble: Ensemble,
    second: u64,
    requests: f64,
    measured_s: f64,
    /// Latest forecast; `None` until enough is known.
    latest: Option<Prediction>,
    /// Seconds that the forecasters' time is ahead of the demand's: the season goes on over a restart.
    shift_s: u64,
}

/// Period within which the forecasters' time matters where the load has no season.
const NO_SEASON_S: u64 = 3600;

impl Ahead {
    pub(super) fn new(rule: &AheadRule) -> Ahead {
        let settings = Settings {
            network: rule.network.as_deref(),
            season: rule.season,
        };
        Ahead {
            ensemble: Ensemble::new(&rule.forecasters, rule.task, settings),
            second: 0,
            requests: 0.0,
            measured_s: 0.0,
            latest: None,
            shift_s: 0,
        }
    }

    /// Creates forecasters that continue from what was learned `age` before `now`.
    ///
    /// # Errors
    /// Fails if it does not fit.
    pub(super) fn continuing(
        rule: &AheadRule,
        learnt: &Learnt,
        now: Duration,
        age: Duration,
    ) -> Result<Ahead, LearntError> {
        let mut ahead = Ahead::new(rule);
        ahead.ensemble.relearn(learnt)?;
        let period = rule.season.map_or(NO_SEASON_S, Season::seconds);
        let shift_s = learnt.at_ms as f64 / 1e3 + age.as_secs_f64() - now.as_secs_f64();
        let periods = (shift_s / period as f64).floor();
        ahead.shift_s = (shift_s - periods * period as f64).round() as u64;
        Ok(ahead)
    }

    /// Numbers learned until `at`.
    pub(super) fn learnt(&self, at: Duration) -> Learnt {
        let at = at + Duration::from_secs(self.shift_s);
        self.ensemble
            .learnt(u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
    }

    /// Takes over what was learned.
    ///
    /// # Errors
    /// Fails if it does not fit.
    pub(super) fn relearn(&mut self, learnt: &Learnt) -> Result<(), LearntError> {
        self.ensemble.relearn(learnt)?;
        self.predict();
        Ok(())
    }

    fn predict(&mut self) {
        self.latest = self.ensemble.forecast();
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
            let second = self.second.saturating_add(self.shift_s);
            self.ensemble
                .observe(second, self.requests / self.measured_s);
            self.predict();
        }
    }

    /// Peak within the horizon; `None` until enough is known.
    pub(super) fn peak(&self, task: Task) -> Option<Peak> {
        let forecast = self.latest?;
        let (kind, _) = self.ensemble.members().nth(self.ensemble.chosen())?;
        Some(Peak {
            forecaster: kind.name(),
            horizon_s: task.horizon() as u64,
            median_rps: Rps(forecast.median),
            quantile: task.quantile(),
            upper_rps: Rps(forecast.upper),
        })
    }

    /// Quantile of the peak within the horizon, requests/s; 0 until enough is known.
    pub(super) fn upper(&self) -> f64 {
        self.latest.map_or(0.0, |latest| latest.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(forecasting: Forecasting) -> Ahead {
        let task = Task::new(4, 0.95).unwrap();
        Ahead::new(&AheadRule::new(forecasting, task, None, None).unwrap())
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
    fn model_forecasts_once_its_window_is_full() {
        let task = Task::new(4, 0.95).unwrap();
        // Without weights the peak is the window's mean.
        let network = Network::new(vec![0.0; weir_forecast::lstm::WEIGHTS]).unwrap();
        let rule = AheadRule::new(Forecasting::Lstm, task, None, Some(Arc::new(network)));
        let mut ahead = Ahead::new(&rule.unwrap());
        for second in 0..200 {
            let [from, to] = [second, second + 1].map(Duration::from_secs);
            ahead.observe(from, to, 50.0);
            // A second counts once the next one has begun.
            let expected = if second < 120 { 0.0 } else { 50.0 };
            let upper = ahead.upper();
            assert!((upper - expected).abs() < 1.0, "{second}: {upper}");
        }
    }

    #[test]
    fn automatic_choice_is_among_the_forecasters_that_have_what_they_need() {
        let task = Task::new(4, 0.95).unwrap();
        let season = Season::new(3600).unwrap();
        let network = Arc::new(Network::new(vec![0.1; weir_forecast::lstm::WEIGHTS]).unwrap());
        for (season, network, more) in [
            (None, None, &[][..]),
            (Some(season), None, &[Kind::Seasonal]),
            (None, Some(&network), &[Kind::Lstm]),
            (Some(season), Some(&network), &[Kind::Seasonal, Kind::Lstm]),
        ] {
            let rule = AheadRule::new(Forecasting::Auto, task, season, network.cloned());
            let rule = rule.unwrap();
            let always = [Kind::Last, Kind::Maximum, Kind::Smoothing, Kind::Linear];
            assert_eq!(rule.forecasters, [&always, more].concat());
            // None of them is left out.
            let ahead = Ahead::new(&rule);
            assert_eq!(ahead.ensemble.members().count(), rule.forecasters.len());
        }
        let rule = AheadRule::new(Forecasting::Reactive, task, Some(season), None);
        assert_eq!(rule, None);
    }

    #[test]
    fn horizon_is_the_longest_readiness() {
        for (readiness, expected) in [(0.0, 4), (4.2, 5), (30.0, 30), (600.0, 120)] {
            assert_eq!(horizon(Duration::from_secs_f64(readiness)), expected);
        }
    }
}
