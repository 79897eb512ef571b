//! The normal distribution's quantiles.

/// Quantile of the standard normal distribution, by bisection: exact to 1e-9, the same on every machine.
pub(crate) fn quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-8.0_f64, 8.0_f64);
    for _ in 0..36 {
        let middle = (low + high) / 2.0;
        let below = 0.5 * libm::erfc(-middle / std::f64::consts::SQRT_2);
        if below < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.975, 1.959_964),
            (0.999, 3.090_232),
            (0.1, -1.281_552),
        ] {
            assert!((quantile(probability) - expected).abs() < 1e-6);
        }
        assert!((quantile(1.0) - 8.0).abs() < 1e-6);
    }
}
