//! Load that is known in advance, for replays: the forecast of somebody who knows the future, and nothing else.

use std::time::Duration;

use weir_api::Rps;

use super::Forecast;

/// Growth within the horizon that counts as a rise.
const RISE: f64 = 1.02;
/// Time for which a load must be there to last.
const LASTS_S: usize = 10;

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
    /// Takes the requests of each second. Plans are to carry all of `horizon`, by means over `moving`: a time for which
    /// requests may wait.
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
        let present = self.mean(now, self.moving_s);
        let ahead = || now..=now + self.horizon_s;
        let demand = self.highest(ahead(), self.moving_s);
        let mean = self.highest(ahead(), LASTS_S.max(self.moving_s));
        // The part of it that is there for long, at whatever time ahead it begins.
        let lowest = |begin: usize| {
            let means = (begin..begin + LASTS_S).map(|second| self.mean(second, self.moving_s));
            means.fold(f64::INFINITY, f64::min)
        };
        let lasted = ahead().map(lowest).fold(0.0, f64::max);
        Forecast {
            demand: Rps(demand),
            present: Rps(present),
            mean: Rps(mean),
            average: Rps(demand),
            growth: Rps(0.0),
            extrapolated: Rps(0.0),
            arriving: Rps(self.rates.get(now).copied().unwrap_or(0.0)),
            rises: demand > present * RISE,
            window_full: true,
            lasted: Some(Rps(lasted)),
        }
    }

    fn highest(&self, seconds: impl Iterator<Item = usize>, span_s: usize) -> f64 {
        let means = seconds.map(|second| self.mean(second, span_s));
        means.fold(0.0, f64::max)
    }

    /// Mean rate over `span_s` from a second on.
    fn mean(&self, second: usize, span_s: usize) -> f64 {
        let rates = self.rates.iter().skip(second).take(span_s);
        rates.sum::<f64>() / span_s as f64
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
        assert_eq!(forecast.lasted, Some(Rps(0.0)));
        let forecast = load.forecast(Duration::from_secs(4));
        assert_eq!((forecast.demand, forecast.present), (Rps(30.0), Rps(30.0)));
        assert!(!forecast.rises);
        assert_eq!(load.forecast(Duration::from_secs(9)).demand, Rps(0.0));
    }

    #[test]
    fn load_lasts_if_it_will_for_ten_seconds() {
        let rates = [vec![10.0; 5], vec![50.0; 11], vec![10.0; 20]].concat();
        let load = KnownLoad::new(rates, Duration::from_secs(3), Duration::from_secs(1));
        for (second, lasted) in [(1, 10.0), (2, 50.0), (5, 50.0), (6, 50.0), (7, 10.0)] {
            let forecast = load.forecast(Duration::from_secs(second));
            assert_eq!(forecast.lasted, Some(Rps(lasted)), "{second}");
        }
    }
}
