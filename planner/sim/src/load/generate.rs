//! Load shapes for runs without a trace, one rate for each second. Each shape is a formula; only
//! [`Rates::bursts`] draws random numbers, from its seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Rates;

/// Two alternating rates and their durations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pulse {
    /// Rate between pulses, requests/s.
    pub low_rps: f64,
    /// Rate within a pulse, requests/s.
    pub high_rps: f64,
    /// Duration of a pulse, in whole seconds, 1 or more.
    pub high_s: usize,
    /// Duration of the low rate between two pulses, in whole seconds, 1 or more; for bursts its
    /// mean.
    pub low_s: usize,
}

impl Rates {
    /// Repeated days: from `low` up to `high` after half a `period` and back, along a cosine.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn diurnal(
        low_rps: f64,
        high_rps: f64,
        period_s: usize,
        seconds: usize,
    ) -> anyhow::Result<Rates> {
        let rate = |second: usize| {
            let day = (second as f64 + 0.5) / period_s.max(1) as f64;
            let height = (1.0 - libm::cos(std::f64::consts::TAU * day)) / 2.0;
            low_rps + (high_rps - low_rps) * height
        };
        Rates::new((0..seconds).map(rate).collect())
    }

    /// A straight line from `low` in the first second to `high` in the last.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn ramp(low_rps: f64, high_rps: f64, seconds: usize) -> anyhow::Result<Rates> {
        let last = seconds.saturating_sub(1).max(1) as f64;
        let rate = |second: usize| low_rps + (high_rps - low_rps) * second as f64 / last;
        Rates::new((0..seconds).map(rate).collect())
    }

    /// `low` before second `at`, `high` from it on.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn step(low_rps: f64, high_rps: f64, at_s: usize, seconds: usize) -> anyhow::Result<Rates> {
        let rate = |second: usize| if second < at_s { low_rps } else { high_rps };
        Rates::new((0..seconds).map(rate).collect())
    }

    /// Alternating low rate and pulse, beginning with the low rate.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn on_off(pulse: Pulse, seconds: usize) -> anyhow::Result<Rates> {
        let period = (pulse.low_s + pulse.high_s).max(1);
        let rate = |second: usize| {
            if second % period < pulse.low_s {
                pulse.low_rps
            } else {
                pulse.high_rps
            }
        };
        Rates::new((0..seconds).map(rate).collect())
    }

    /// Pulses that begin at random: each second at the low rate starts one with probability
    /// 1/`low_s`.
    ///
    /// # Errors
    /// As [`Rates::new`].
    pub fn bursts(pulse: Pulse, seed: u64, seconds: usize) -> anyhow::Result<Rates> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let chance = 1.0 / pulse.low_s.max(1) as f64;
        let mut left = 0;
        let next = |_| {
            if left == 0 && rng.random_bool(chance) {
                left = pulse.high_s;
            }
            let high = left > 0;
            left = left.saturating_sub(1);
            if high { pulse.high_rps } else { pulse.low_rps }
        };
        Rates::new((0..seconds).map(next).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSE: Pulse = Pulse {
        low_rps: 1.0,
        high_rps: 9.0,
        high_s: 2,
        low_s: 3,
    };

    #[test]
    fn each_shape_follows_its_formula() {
        let ramp = Rates::ramp(10.0, 30.0, 5).unwrap();
        assert_eq!(ramp.rps(), [10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(Rates::ramp(10.0, 30.0, 1).unwrap().rps(), [10.0]);
        let step = Rates::step(1.0, 2.0, 2, 4).unwrap();
        assert_eq!(step.rps(), [1.0, 1.0, 2.0, 2.0]);
        let on_off = Rates::on_off(PULSE, 7).unwrap();
        assert_eq!(on_off.rps(), [1.0, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0]);
        let days = Rates::diurnal(10.0, 50.0, 100, 200).unwrap();
        let at = |second: usize| days.rps()[second];
        assert!(at(0) < 10.1 && at(50) > 49.9 && at(99) < 10.1 && at(150) > 49.9);
        assert!(days.rps()[..50].is_sorted());
    }

    #[test]
    fn bursts_follow_seed_and_mean() {
        let bursts = Rates::bursts(PULSE, 5, 30_000).unwrap();
        assert_eq!(bursts, Rates::bursts(PULSE, 5, 30_000).unwrap());
        assert_ne!(bursts, Rates::bursts(PULSE, 6, 30_000).unwrap());
        let high = bursts.rps().iter().filter(|rate| **rate == 9.0).count() as f64;
        // A burst lasts two seconds, and the rest after it two on average (three until the next
        // begins).
        assert!((0.47..0.53).contains(&(high / 30_000.0)), "{high}");
    }
}
