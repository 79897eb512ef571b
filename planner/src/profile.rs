//! Performance of a variant by its number of cores: its latency model, its parallelism, and the rate it
//! sustains. Pure; measured elsewhere, configured in the service file.
//!
//! - latency of one batch, Sponge (EuroMLSys '24) Eq. 2: l(b, c) = γ·b/c + ε/c + δ·b + η
//! - sustained rate, InfAdapter's (EuroMLSys '23) fit: th(n) = slope·n + intercept, of which a fixed
//!   fraction is used (its code: 0.8). Its code also rounds down to whole requests per second. This module
//!   does not, because rounding takes up to all of a slow model's capacity.
//!
//! If both are given, the lower rate holds: the rate at which the slots can execute, by the latency model,
//! bounds any fit.
//!
//! A [`Correction`] by measurements applies to the latency model alone. The fit was measured under load, with all that
//! slows executions down then: a measured time within that of the fit confirms it, and a longer one lowers the bound.
//!
//! A longer measured time lowers the rate, and never takes it away: it includes the time in which a request waits at the
//! server for others of its variant. What is compared with a latency budget is the profile's time ([`Profile::budget_ms`]).

mod correction;

use weir_api::{Cores, Rps};

pub use correction::{Correction, HOLDS_PERCENT, POINTS_MAX, Ratio};

use crate::solve::latency_model::{LatencyModel, Parallelism};

/// Part of a variant's rate that is planned with: InfAdapter's published code plans with 0.8 of the fitted rate.
pub const UTILISATION: f64 = 0.8;

/// Latency of one batch that has its cores to itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Model of the mean latency.
    pub model: LatencyModel,
    /// Ratio of a high percentile to the mean, at least 1.
    pub tail: f64,
}

/// Sustained rate within the SLO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Requests per second for each core.
    pub slope_rps: f64,
    /// Requests per second at zero cores; usually negative.
    pub intercept_rps: f64,
}

/// Origin of a profile's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Measured beforehand, or written by a person.
    Given,
    /// None is known: a start value, which measured times replace as soon as there are any.
    Start,
}

/// Performance of a variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Origin of its times.
    pub origin: Origin,
    /// Latency model.
    pub latency: Latency,
    /// Number of batches executed at the same time.
    pub parallelism: Parallelism,
    /// Requests in one batch.
    pub batch: u32,
    /// Sustained rate, if measured; otherwise it follows from the latency model.
    pub fit: Option<Fit>,
    /// Fraction of the rate that is planned with, above 0 and at most 1.
    pub utilisation: f64,
    /// Correction of the latency by measurements.
    pub correction: Correction,
}

impl Profile {
    /// Returns the profile without its correction.
    #[must_use]
    pub fn uncorrected(self) -> Profile {
        Profile {
            correction: Correction::NONE,
            ..self
        }
    }

    /// Whether nothing is known of it: it has a start value, and nothing was measured.
    pub fn is_unknown(&self) -> bool {
        self.origin == Origin::Start && self.correction == Correction::NONE
    }

    /// Returns the number of requests executed at the same time with `cores`; 0 without cores.
    pub fn slots(&self, cores: Cores) -> u32 {
        self.batches(cores).saturating_mul(self.batch)
    }

    /// Returns the predicted time from dispatch to response in ms, a high percentile; infinite without
    /// cores.
    pub fn service_ms(&self, cores: Cores) -> f64 {
        self.mean_ms(cores) * self.latency.tail
    }

    /// Returns the time that is compared with a latency budget, in ms: that of the profile, or the measured one if it is
    /// shorter.
    pub fn budget_ms(&self, cores: Cores) -> f64 {
        self.service_ms(cores)
            .min(self.uncorrected().service_ms(cores))
    }

    /// Returns the profile with its largest batch that takes at most that time, at least one of one request.
    #[must_use]
    pub fn with_batch_within(self, cores: Cores, latency_max_ms: f64) -> Profile {
        let with = |batch: u32| Profile { batch, ..self };
        let in_time = |profile: &Profile| profile.budget_ms(cores) <= latency_max_ms;
        (1..=self.batch)
            .rev()
            .map(with)
            .find(in_time)
            .unwrap_or_else(|| with(1))
    }

    /// Returns the minimum mean latency of one request with at most `most` cores, in ms; 0 if unknown.
    pub fn shortest_ms(&self, most: Cores) -> f64 {
        let alone = Profile { batch: 1, ..*self };
        let shortest_ms = alone.mean_ms(most);
        if shortest_ms.is_finite() {
            shortest_ms.max(0.0)
        } else {
            0.0
        }
    }

    /// Returns the rate to plan with: the fraction of [`Profile::sustained`], 0 if [`Profile::budget_ms`] is longer than
    /// `latency_max_ms`.
    pub fn capacity(&self, cores: Cores, latency_max_ms: f64) -> Rps {
        if self.budget_ms(cores) > latency_max_ms {
            return Rps(0.0);
        }
        Rps(self.utilisation * self.sustained(cores).0)
    }

    /// Returns the sustained rate: th(n) above, at most that at which the slots can execute.
    pub fn sustained(&self, cores: Cores) -> Rps {
        let line = |fit: &Fit| fit.slope_rps * cores.as_f64() + fit.intercept_rps;
        let fitted = self.fit.as_ref().map_or(f64::INFINITY, line);
        let mean_ms = self.mean_ms(cores);
        let executed = if mean_ms > 0.0 {
            f64::from(self.slots(cores)) * 1000.0 / mean_ms
        } else {
            f64::INFINITY
        };
        Rps(fitted.min(executed).max(0.0))
    }

    /// Returns the predicted mean time of a batch in ms; infinite without cores.
    pub fn mean_ms(&self, cores: Cores) -> f64 {
        if cores == Cores::ZERO {
            return f64::INFINITY;
        }
        let each = self.parallelism.cores_each(cores.as_f64());
        self.correction.factor(each) * self.latency.model.service_ms(self.batch, each)
    }

    fn batches(&self, cores: Cores) -> u32 {
        self.parallelism.at_once(cores.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn profile(parallelism: Parallelism, batch: u32) -> Profile {
        Profile {
            origin: Origin::Given,
            latency: Latency {
                model: LatencyModel {
                    gamma_ms: 30.0,
                    epsilon_ms: 6.0,
                    delta_ms: 3.0,
                    eta_ms: 1.0,
                },
                tail: 1.5,
            },
            parallelism,
            batch,
            fit: Some(Fit {
                slope_rps: 20.0,
                intercept_rps: -5.0,
            }),
            utilisation: 0.8,
            correction: Correction::NONE,
        }
    }

    #[test]
    fn slots_and_service_time_follow_latency_model() {
        let fixed = |batches| Parallelism::Fixed(NonZeroU32::new(batches).unwrap());
        let per_core = Parallelism::PerCore;
        // parallelism, batch, millicores → slots, service in ms (tail 1.5)
        for (parallelism, batch, millis, slots, service_ms) in [
            (per_core, 1, 4000, 4, 60.0),
            (per_core, 2, 4000, 8, 109.5),
            (per_core, 1, 500, 1, 114.0),
            (per_core, 1, 2500, 2, 60.0),
            (fixed(1), 4, 4000, 4, 1.5 * (30.0 + 1.5 + 12.0 + 1.0)),
            (fixed(2), 1, 4000, 2, 33.0),
            (fixed(2), 1, 0, 0, f64::INFINITY),
        ] {
            let profile = profile(parallelism, batch);
            let cores = Cores::from_millis(millis);
            assert_eq!(
                profile.slots(cores),
                slots,
                "{parallelism:?} {batch} {millis}"
            );
            let got = profile.service_ms(cores);
            assert!(
                got == service_ms || (got - service_ms).abs() < 1e-9,
                "{got} {service_ms}"
            );
        }
    }

    #[test]
    fn capacity_is_lower_of_fit_and_model_and_zero_if_too_slow() {
        let per_core = profile(Parallelism::PerCore, 1);
        // 20·4 − 5 = 75 fitted; 4 slots / 40 ms = 100 executed.
        assert_eq!(per_core.capacity(Cores::whole(4), 500.0), Rps(60.0));
        assert_eq!(per_core.capacity(Cores::whole(4), 59.0), Rps(0.0));
        assert_eq!(per_core.capacity(Cores::ZERO, 500.0), Rps(0.0));
        assert_eq!(per_core.capacity(Cores::from_millis(200), 5000.0), Rps(0.0));
        // One at a time: 4 cores execute 1 / 13 ms; the fit of 20·40 − 5 must not exceed it.
        let single =
            profile(Parallelism::Fixed(NonZeroU32::MIN), 1).capacity(Cores::whole(40), 500.0);
        assert!((single.0 - 0.8 * 1000.0 / 4.9).abs() < 1e-9, "{single}");
    }
    #[test]
    fn correction_lowers_the_executed_rate_and_not_the_fit() {
        // 20·4 − 5 = 75 fitted; 4 slots / 40 ms = 100 executed.
        for (percent, service_ms, capacity) in [
            (100, 60.0, 60.0),
            // Executions a third slower than in the latency model are what the fit was measured with.
            (130, 78.0, 60.0),
            (200, 120.0, 40.0),
            (50, 30.0, 60.0),
        ] {
            let mut profile = profile(Parallelism::PerCore, 1);
            profile.correction = Correction::of([Ratio {
                millis: 1000,
                percent,
            }]);
            let cores = Cores::whole(4);
            assert_eq!(profile.service_ms(cores), service_ms, "{percent}");
            // A budget for the profile's time suffices, and one for a shorter measured time.
            let budget_ms = service_ms.min(60.0);
            assert_eq!(profile.capacity(cores, budget_ms), Rps(capacity));
            assert_eq!(profile.capacity(cores, budget_ms - 1.0), Rps(0.0));
            assert_eq!(profile.capacity(cores, 500.0), Rps(capacity), "{percent}");
            assert_eq!(profile.uncorrected().service_ms(cores), 60.0);
        }
    }
}
