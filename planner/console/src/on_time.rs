//! Predicted part of the requests that are answered on time by a variant in steady state.
//!
//! Arrivals are Poisson. A variant with c slots executes a request in S, log-normal with the mean and the 99th
//! percentile of its profile. A request that could not be answered by the deadline T is refused, so a request of length
//! s waits at most τ = T − s. With μ = 1/E\[S\] and κ = cμ − λ, an M/M/c queue with that patience loses
//!
//! ```text
//! e^(−κτ) / ((1 − B)/B + cμ (1 − e^(−κτ))/κ + e^(−κτ)),   B = Erlang's loss probability of λ/μ on c
//! ```
//!
//! (Baccelli and Hebuterne, 1981), above capacity too. Waits of executions that vary less than exponential ones are
//! shorter by (1 + cv²)/2, so τ counts by the inverse of that (Boots and Tijms, 1999). The prediction is the mean over
//! s.
//!
//! Networks, bursts, batches that do not fill and rebalancing among variants are left to the replay.

use libm::{exp, log, sqrt};

/// Standard score of the 99th percentile.
const Z_99: f64 = 2.326_347_874_040_841;
/// Number of lengths of an execution that the mean is taken over.
const LENGTHS: u32 = 65;
/// Range of these lengths, in standard deviations of their logarithm.
const RANGE: f64 = 4.0;
/// Maximum number of slots that are counted one by one; more lose no measurable part below capacity.
const SLOTS_MAX: u32 = 100_000;

/// Load and servers of a variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Requests/s.
    pub rate_rps: f64,
    /// Requests that are executed at the same time.
    pub slots: u32,
    /// Mean time of an execution, in ms.
    pub mean_ms: f64,
    /// 99th percentile of the time relative to the mean, 1 or more.
    pub tail: f64,
    /// Time that a request has, in ms.
    pub deadline_ms: f64,
}

impl Load {
    /// Returns the predicted part that is on time, 0 to 1.
    pub fn on_time(&self) -> f64 {
        if self.slots == 0 || self.mean_ms.is_nan() || self.mean_ms <= 0.0 {
            return 0.0;
        }
        let sigma = self.sigma();
        let step = 2.0 * RANGE / f64::from(LENGTHS - 1);
        let (mut part, mut weights) = (0.0, 0.0);
        for index in 0..LENGTHS {
            let z = f64::from(index) * step - RANGE;
            let weight = exp(-z * z / 2.0);
            let length_ms = self.mean_ms * exp(sigma * z - sigma * sigma / 2.0);
            weights += weight;
            if length_ms <= self.deadline_ms {
                part += weight * (1.0 - self.lost(self.deadline_ms - length_ms, sigma));
            }
        }
        (part / weights).clamp(0.0, 1.0)
    }

    /// Standard deviation of the logarithm of a time whose 99th percentile is `tail` times its mean.
    fn sigma(&self) -> f64 {
        let square = Z_99 * Z_99 - 2.0 * log(self.tail.max(1.0));
        Z_99 - sqrt(square.max(0.0))
    }

    /// Part of the requests that would wait longer than `patience_ms`.
    fn lost(&self, patience_ms: f64, sigma: f64) -> f64 {
        if self.rate_rps <= 0.0 {
            return 0.0;
        }
        let (lambda, mu) = (self.rate_rps / 1e3, 1.0 / self.mean_ms);
        let blocked = erlang_b(lambda / mu, self.slots.min(SLOTS_MAX));
        let total = f64::from(self.slots) * mu;
        let kappa = total - lambda;
        let variation = exp(sigma * sigma) - 1.0;
        let tau = patience_ms * 2.0 / (1.0 + variation);
        let idle = (1.0 - blocked) / blocked;
        // All terms times e^(κτ), which is finite wherever it matters.
        let grown = exp((kappa * tau).min(700.0));
        let waiting = if (kappa * tau).abs() < 1e-9 {
            total * tau
        } else {
            total * (grown - 1.0) / kappa
        };
        let lost = 1.0 / (idle * grown + waiting + 1.0);
        if lost.is_nan() { 0.0 } else { lost }
    }
}

/// Erlang's loss probability of `offered` load on that many slots.
fn erlang_b(offered: f64, slots: u32) -> f64 {
    (1..=slots).fold(1.0, |blocked, slot| {
        let with = offered * blocked;
        with / (f64::from(slot) + with)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load {
        rate_rps: 50.0,
        slots: 8,
        mean_ms: 100.0,
        tail: 1.26,
        deadline_ms: 1000.0,
    };

    fn check(load: Load, low: f64, high: f64) {
        let part = load.on_time();
        assert!((low..=high).contains(&part), "{load:?}: {part}");
    }

    #[test]
    fn prediction_follows_load_and_deadline() {
        check(LOAD, 0.999, 1.0);
        // Twice the capacity: half of it, in full use.
        check(
            Load {
                rate_rps: 160.0,
                ..LOAD
            },
            0.49,
            0.51,
        );
        check(
            Load {
                rate_rps: 80.0,
                ..LOAD
            },
            0.95,
            0.999,
        );
        // The deadline is the median of the execution, or shorter than any.
        check(
            Load {
                deadline_ms: 99.5,
                rate_rps: 0.0,
                ..LOAD
            },
            0.45,
            0.55,
        );
        check(
            Load {
                deadline_ms: 10.0,
                ..LOAD
            },
            0.0,
            0.0,
        );
        check(Load { slots: 0, ..LOAD }, 0.0, 0.0);
        check(
            Load {
                rate_rps: 0.0,
                tail: 1.0,
                ..LOAD
            },
            1.0,
            1.0,
        );
        check(
            Load {
                slots: u32::MAX,
                ..LOAD
            },
            0.999,
            1.0,
        );
    }

    #[test]
    fn erlang_b_has_its_published_values() {
        for (offered, slots, expected) in [(1.0, 1, 0.5), (2.0, 2, 0.4), (10.0, 10, 0.2146)] {
            let got = erlang_b(offered, slots);
            assert!((got - expected).abs() < 1e-4, "{offered} {slots}: {got}");
        }
    }

    #[test]
    fn more_load_is_never_more_on_time() {
        let mut before = 1.0;
        for rate in 0..400 {
            let part = Load {
                rate_rps: f64::from(rate),
                ..LOAD
            }
            .on_time();
            assert!(part <= before + 1e-9, "{rate}: {part} after {before}");
            before = part;
        }
    }
}
