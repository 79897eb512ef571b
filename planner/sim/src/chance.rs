//! What is drawn at random, the same on every machine for the same generator: normal, log-normal and
//! exponential numbers, and the events of a Poisson process.
//!
//! A platform's own `exp`, `ln` and `cos` differ in the last bit from one processor to the next (glibc
//! has variants with and without fused multiplication), and so do sampling crates that call them.
//! Here they are the `libm` crate's: plain additions and multiplications, which IEEE 754 fixes to the
//! bit, as it does √. `rand` makes its own numbers of whole ones, exactly.
//!
//! Each number takes the same count of draws, whatever comes out. No clock, no seed of its own.

use std::f64::consts::TAU;

use rand::{Rng, RngExt};

/// A number out of the standard normal distribution: √(−2·ln u)·cos(2π·v) with u and v uniform
/// (Box and Muller, Annals of Mathematical Statistics 29, 1958). At most 8.6 deviations off, since u
/// has 53 bits.
pub fn standard_normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * libm::log(above_zero(rng))).sqrt();
    radius * libm::cos(TAU * rng.random::<f64>())
}

/// A number out of the exponential distribution with mean 1: −ln u with u uniform.
pub fn exponential(rng: &mut impl Rng) -> f64 {
    -libm::log(above_zero(rng))
}

/// A factor whose logarithm is normal and whose mean is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factor {
    sigma: f64,
}

impl Factor {
    /// With that standard deviation of the logarithm; the mean is 1 since the logarithm's is −σ²/2.
    ///
    /// # Errors
    /// A deviation that is negative or no number, with its value.
    pub fn new(sigma: f64) -> anyhow::Result<Factor> {
        anyhow::ensure!(
            sigma.is_finite() && sigma >= 0.0,
            "sigma: {sigma} must be a number, 0 or more"
        );
        Ok(Factor { sigma })
    }

    /// Draws one.
    pub fn sample(&self, rng: &mut impl Rng) -> f64 {
        libm::exp(self.sigma * (standard_normal(rng) - self.sigma / 2.0))
    }
}

/// The events of a Poisson process within one unit of time, ascending from 0 and below 1, with `rate`
/// of them on average (none for a rate that is not above 0). The gaps are exponential, so that their
/// number is exactly Poisson's for any rate; an infinite one never ends.
pub fn poisson_events(rng: &mut impl Rng, rate: f64) -> impl Iterator<Item = f64> {
    let mut at = 0.0;
    std::iter::from_fn(move || {
        at += exponential(rng) / rate.max(0.0);
        (at < 1.0).then_some(at)
    })
}

/// Uniform, above 0 and up to 1.
fn above_zero(rng: &mut impl Rng) -> f64 {
    1.0 - rng.random::<f64>()
}

#[cfg(test)]
mod tests;
