//! Synthetic 4G-like link from a seed, for runs without a measured log.
//!
//! Bandwidth per second is an AR(1) process in log space, so that it wanders and is skewed like
//! measured LTE, within stated bounds. Occasional fades (a tunnel, a handover) reduce it for a second
//! or a few. It resembles the published logs but is not fitted to any of them.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Network, Segment};
use crate::chance::standard_normal;

/// Minimum bandwidth: 0.5 MB/s.
pub const BYTES_PER_S_MIN: f64 = 0.5e6;
/// Maximum bandwidth: 8 MB/s.
pub const BYTES_PER_S_MAX: f64 = 8e6;
/// Median bandwidth: 3 MB/s.
const MEDIAN_BYTES_PER_S: f64 = 3e6;
/// Correlation of the logarithm from one second to the next.
const MEMORY: f64 = 0.85;
/// Standard deviation of its innovations.
const STEP: f64 = 0.25;
/// Probabilities per second that a fade begins, and that it ends.
const FADE_BEGINS: f64 = 0.03;
const FADE_ENDS: f64 = 0.4;
/// Fraction of the bandwidth left during a fade.
const FADE_LEAVES: f64 = 0.25;
/// Round-trip time throughout.
const ROUND_TRIP: Duration = Duration::from_millis(40);

impl Network {
    /// Creates `seconds` of a 4G-like link, the same for the same seed.
    ///
    /// # Errors
    /// 0 seconds, or more than [`super::SEGMENTS_MAX`].
    pub fn synthetic_4g(seed: u64, seconds: usize) -> anyhow::Result<Network> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut drift: f64 = 0.0;
        let mut faded = false;
        let mut next = || {
            drift = MEMORY * drift + STEP * standard_normal(&mut rng);
            let changes = if faded { FADE_ENDS } else { FADE_BEGINS };
            faded ^= rng.random_bool(changes);
            let leaves = if faded { FADE_LEAVES } else { 1.0 };
            let unclamped = MEDIAN_BYTES_PER_S * libm::exp(drift) * leaves;
            Segment {
                duration: Duration::from_secs(1),
                bytes_per_s: unclamped.clamp(BYTES_PER_S_MIN, BYTES_PER_S_MAX),
                round_trip: ROUND_TRIP,
            }
        };
        Network::new((0..seconds).map(|_| next()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_link_follows_seed_stays_in_bounds_and_fades() {
        let link = Network::synthetic_4g(7, 3600).unwrap();
        assert_eq!(link, Network::synthetic_4g(7, 3600).unwrap());
        assert_ne!(link, Network::synthetic_4g(8, 3600).unwrap());
        let rates: Vec<f64> = (0..3600)
            .map(|second| link.bytes_per_s(Duration::from_secs(second)))
            .collect();
        let share = |condition: &dyn Fn(f64) -> bool| {
            rates.iter().filter(|rate| condition(**rate)).count() as f64 / 3600.0
        };
        assert_eq!(
            share(&|rate| (BYTES_PER_S_MIN..=BYTES_PER_S_MAX).contains(&rate)),
            1.0
        );
        assert!((0.02..0.2).contains(&share(&|rate| rate < 1e6)), "fades");
        assert!(
            (0.05..0.5).contains(&share(&|rate| rate > 4e6)),
            "good seconds"
        );
    }
}
