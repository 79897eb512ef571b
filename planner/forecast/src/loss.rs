//! Scores of forecasts.

/// Pinball loss of a forecast of this quantile: its expectation is lowest at the true quantile.
pub fn pinball(quantile: f64, forecast: f64, actual: f64) -> f64 {
    let error = actual - forecast;
    (quantile * error).max((quantile - 1.0) * error)
}

/// Symmetric absolute error in percent, 0 to 200: 200·|f − a| / (f + a).
pub fn smape(forecast: f64, actual: f64) -> f64 {
    let sum = forecast.abs() + actual.abs();
    if sum > 0.0 {
        200.0 * (forecast - actual).abs() / sum
    } else {
        0.0
    }
}

/// Logarithm of a rate in which forecasters compute; defined at 0.
pub(crate) fn log_rate(rate: f64) -> f64 {
    libm::log1p(rate.max(0.0))
}

/// Inverse of [`log_rate`]; never negative, and finite.
pub(crate) fn from_log(log: f64) -> f64 {
    libm::expm1(log.clamp(0.0, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_follow_their_formulas() {
        assert!((pinball(0.9, 10.0, 12.0) - 1.8).abs() < 1e-12);
        assert!((pinball(0.9, 12.0, 10.0) - 0.2).abs() < 1e-12);
        assert_eq!(pinball(0.5, 3.0, 3.0), 0.0);
        assert_eq!(smape(0.0, 0.0), 0.0);
        assert_eq!(smape(5.0, 0.0), 200.0);
        assert!((smape(90.0, 110.0) - 20.0).abs() < 1e-12);
        for rate in [0.0, 0.3, 1.0, 1e5] {
            assert!((from_log(log_rate(rate)) - rate).abs() <= 1e-9 * (1.0 + rate));
        }
        assert_eq!(from_log(-3.0), 0.0);
        assert!(from_log(f64::INFINITY).is_finite());
    }
}
