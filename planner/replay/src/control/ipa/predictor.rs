//! Load of the next seconds, as IPA's decisions take it. Until two minutes have passed it is the greatest rate so far,
//! as with the program's `backup_predictor_type: max`.
//!
//! - *reactive*: the greatest rate of the last 10 s, the last value of the program's series;
//! - *forecaster*: the median peak that the service's `demand.forecaster` expects, in place of the program's LSTM,
//!   whose weights are not published;
//! - *known*: the greatest rate of the next 20 s as it will be, which that LSTM is trained to tell.

use std::time::Duration;

use weir_forecast::ensemble::Ensemble;
use weir_forecast::model::Settings;
use weir_planner::forecast::DemandRule;

use crate::control::baselines::per_second::PerSecond;
use crate::scenario::IpaPredictor;

/// Seconds of a value of the series.
const STEP_S: usize = 10;
/// Values of the series that must be there before the predictor is asked: two minutes.
const VALUES_MIN: usize = 12;
/// Seconds ahead.
const AHEAD_S: usize = 20;

/// Predictor of the load.
pub(super) struct Predictor {
    seconds: PerSecond,
    kind: Kind,
}

enum Kind {
    Reactive,
    Forecaster {
        ensemble: Box<Ensemble>,
        before: u64,
    },
    Known {
        arrivals: Vec<f64>,
    },
}

impl Predictor {
    pub(super) fn new(kind: IpaPredictor, demand: &DemandRule, arrivals: Vec<f64>) -> Predictor {
        let kind = match (kind, &demand.ahead) {
            (IpaPredictor::Known, _) => Kind::Known { arrivals },
            (IpaPredictor::Forecaster, Some(ahead)) => {
                let settings = Settings {
                    network: ahead.network.as_deref(),
                    season: ahead.season,
                };
                let ensemble = Ensemble::new(&ahead.forecasters, ahead.task, settings);
                Kind::Forecaster {
                    ensemble: Box::new(ensemble),
                    before: 0,
                }
            }
            _ => Kind::Reactive,
        };
        Predictor {
            seconds: PerSecond::default(),
            kind,
        }
    }

    /// Takes in the requests that have arrived so far; called once a second.
    pub(super) fn observe(&mut self, at: Duration, arrivals: u64) {
        self.seconds.observe(arrivals);
        if let Kind::Forecaster { ensemble, before } = &mut self.kind
            && at > Duration::ZERO
        {
            let new = arrivals.saturating_sub(std::mem::replace(before, arrivals));
            ensemble.observe(at.as_secs(), new as f64);
            ensemble.refit_if_due();
        }
    }

    /// Returns the load to decide for, requests/s; `None` before the first second has passed.
    pub(super) fn predict(&self, at: Duration) -> Option<f64> {
        let series = self.seconds.maxima(STEP_S, VALUES_MIN);
        let so_far = series.iter().copied().reduce(f64::max)?;
        if series.len() < VALUES_MIN {
            return Some(so_far);
        }
        Some(match &self.kind {
            Kind::Reactive => *series.last()?,
            Kind::Forecaster { ensemble, .. } => {
                let forecast = ensemble.forecast();
                forecast.map_or(so_far, |forecast| forecast.median)
            }
            Kind::Known { arrivals } => {
                let now = at.as_secs() as usize;
                let ahead = arrivals.iter().skip(now).take(AHEAD_S);
                ahead.copied().fold(0.0, f64::max)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_forecast::task::Task;
    use weir_planner::forecast::{AheadRule, Forecasting};

    /// 1, 2, … requests in the seconds 0, 1, …
    fn rising(seconds: u64) -> Vec<f64> {
        (1..=seconds).map(|rate| rate as f64).collect()
    }

    fn demand(forecasting: Forecasting) -> DemandRule {
        let task = Task::new(20, 0.95).unwrap();
        DemandRule {
            ahead: AheadRule::new(forecasting, task, None, None),
            smoothing: Duration::from_secs(1),
            window: Duration::from_secs(1),
            moving: Duration::from_secs(1),
            headroom: 1.0,
            bursts: Duration::ZERO,
        }
    }

    fn at(kind: IpaPredictor, demand: &DemandRule, seconds: u64) -> Option<f64> {
        let arrivals = rising(300);
        let mut predictor = Predictor::new(kind, demand, arrivals.clone());
        let mut all = 0;
        for second in 0..=seconds {
            predictor.observe(Duration::from_secs(second), all);
            all += arrivals[second as usize] as u64;
        }
        predictor.predict(Duration::from_secs(seconds))
    }

    #[test]
    fn each_predictor_sees_its_seconds() {
        let plain = demand(Forecasting::Reactive);
        let last = demand(Forecasting::Last);
        let (reactive, known) = (IpaPredictor::Reactive, IpaPredictor::Known);
        let forecaster = IpaPredictor::Forecaster;
        for (kind, demand, seconds, expected) in [
            (reactive, &plain, 0, None),
            (reactive, &plain, 10, Some(10.0)),
            (reactive, &plain, 200, Some(200.0)),
            // Before two minutes: the greatest so far, even for those that would know more.
            (known, &plain, 110, Some(110.0)),
            // Seconds 200 to 219.
            (known, &plain, 200, Some(220.0)),
            (forecaster, &last, 110, Some(110.0)),
            (forecaster, &last, 200, Some(200.0)),
        ] {
            assert_eq!(at(kind, demand, seconds), expected, "{kind:?}, {seconds} s");
        }
    }

    #[test]
    fn reactive_predictor_holds_the_peak_of_ten_seconds() {
        let mut predictor = Predictor::new(
            IpaPredictor::Reactive,
            &demand(Forecasting::Reactive),
            Vec::new(),
        );
        let mut all = 0;
        for second in 0..=130 {
            predictor.observe(Duration::from_secs(second), all);
            all += if (second + 1) % 10 == 5 { 30 } else { 4 };
        }
        assert_eq!(predictor.predict(Duration::from_secs(130)), Some(30.0));
    }
}
