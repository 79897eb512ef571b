//! Load that is known in advance, for replays: the forecast of somebody who knows the future, and nothing else.

use std::time::Duration;

use weir_api::Rps;

use super::Forecast;

/// Growth within the horizon that counts as a rise.
const RISE: f64 = 1.02;

/// Requests that arrive in each second.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownLoad {
    rates: Vec<f64>,
    /// Time ahead that a plan must carry.
    horizon_s: usize,
    /// Time over which a rate is a mean.
    moving_s: usize,
}

impl KnownLoad {
    /// Takes the requests of each second. Plans are to carry all of `horizon`, by means over `moving`.
    pub fn new(rates: Vec<f64>, horizon: Duration, moving: Duration) -> KnownLoad {
        let seconds = |time: Duration| (time.as_secs_f64().ceil() as usize).max(1);
        KnownLoad {
            rates,
            horizon_s: seconds(horizon),
            moving_s: seconds(moving),
        }
    }

    /// Returns the demand at that time.
    pub fn forecast(&self, at: Duration) -> Forecast {
        let now = at.as_secs() as usize;
        let present = self.mean(now);
        let ahead = (now..=now + self.horizon_s).map(|second| self.mean(second));
        let demand = ahead.fold(0.0, f64::max);
        Forecast {
            demand: Rps(demand),
            present: Rps(present),
            arriving: Rps(self.rates.get(now).copied().unwrap_or(0.0)),
            rises: demand > present * RISE,
            window_full: true,
            lasted: Some(Rps(present)),
        }
    }

    /// Mean rate from a second on.
    fn mean(&self, second: usize) -> f64 {
        let rates = self.rates.iter().skip(second).take(self.moving_s);
        rates.sum::<f64>() / self.moving_s as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_the_highest_mean_ahead() {
        let rates = vec![10.0, 10.0, 10.0, 40.0, 60.0, 0.0];
        let load = KnownLoad::new(rates, Duration::from_secs(3), Duration::from_secs(2));
        let forecast = load.forecast(Duration::from_millis(400));
        assert_eq!((forecast.demand, forecast.present), (Rps(50.0), Rps(10.0)));
        assert!(forecast.rises);
        let forecast = load.forecast(Duration::from_secs(4));
        assert_eq!((forecast.demand, forecast.present), (Rps(30.0), Rps(30.0)));
        assert!(!forecast.rises);
        assert_eq!(load.forecast(Duration::from_secs(9)).demand, Rps(0.0));
    }
}
