//! Random numbers that are identical on every machine for the same generator: normal, log-normal and
//! exponential numbers, and the events of a Poisson process.
//!
//! A platform's own `exp`, `ln` and `cos` differ in the last bit between processors (glibc has
//! variants with and without fused multiplication), and so do sampling crates that call them. The
//! functions here come from the `libm` crate: plain additions and multiplications, which IEEE 754
//! fixes to the bit, as it does √. `rand` derives its own numbers from integers, exactly.
//!
//! Each number takes a fixed count of draws, whatever its value. No clock, no seed of its own.

use std::f64::consts::TAU;

use rand::{Rng, RngExt};

/// Draws from the standard normal distribution: √(−2·ln u)·cos(2π·v) with u and v uniform (Box and
/// Muller, Annals of Mathematical Statistics 29, 1958). The result is at most 8.6 deviations from 0,
/// since u has 53 bits.
pub fn standard_normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * libm::log(above_zero(rng))).sqrt();
    radius * libm::cos(TAU * rng.random::<f64>())
}

/// Draws from the exponential distribution with mean 1: −ln u with u uniform.
pub fn exponential(rng: &mut impl Rng) -> f64 {
    -libm::log(above_zero(rng))
}

/// Log-normal factor with mean 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factor {
    sigma: f64,
}

impl Factor {
    /// Creates a factor from the standard deviation of its logarithm. The logarithm's mean is −σ²/2,
    /// so that the factor's mean is 1.
    ///
    /// # Errors
    /// The deviation is negative or not a number; the message has its value.
    pub fn new(sigma: f64) -> anyhow::Result<Factor> {
        anyhow::ensure!(
            sigma.is_finite() && sigma >= 0.0,
            "sigma: {sigma} must be a number, 0 or more"
        );
        Ok(Factor { sigma })
    }

    /// Draws one factor.
    pub fn sample(&self, rng: &mut impl Rng) -> f64 {
        libm::exp(self.sigma * (standard_normal(rng) - self.sigma / 2.0))
    }
}

/// Returns the events of a Poisson process within one unit of time, ascending, from 0 and below 1,
/// with `rate` of them on average (none unless the rate is above 0). Exponential gaps make their
/// number exactly Poisson-distributed for any finite rate; with an infinite rate the iterator never
/// ends.
pub fn poisson_events(rng: &mut impl Rng, rate: f64) -> impl Iterator<Item = f64> {
    let mut at = 0.0;
    std::iter::from_fn(move || {
        at += exponential(rng) / rate.max(0.0);
        (at < 1.0).then_some(at)
    })
}

/// Draws from the uniform distribution on (0, 1].
fn above_zero(rng: &mut impl Rng) -> f64 {
    1.0 - rng.random::<f64>()
}

#[cfg(test)]
mod tests;
