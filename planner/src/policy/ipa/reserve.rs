//! Rate that a stage's servers must sustain for a demand. Pure.
//!
//! A server's rate is that of its mean executions. Counted by a high percentile, as in IPA's Equation 10, it is too low
//! by the tail, however long requests may wait. Rate beyond what arrives is for the queue alone: of Poisson arrivals at
//! a mean rate λ at servers that sustain C, about exp(−2·(C − λ)·w) wait longer than w (Kingman, for executions of equal
//! length; batches change nothing in it). So C is at least λ + ln(1/p) / (2·w), and at least the demand, which is the
//! load's peak with its headroom. Where w is short, no more than the tail is reserved.
//!
//! w is the part of the objective that `latencyBudget` leaves to queues, in equal parts for all stages.

use super::super::{DEMAND_MIN, executed, promised};
use crate::forecast::Forecast;
use crate::service::{Service, Variant};
use crate::solve::latency_model::LatencyModel;

/// Natural logarithm of 1/p, where p = 1 % of the requests may wait longer than w at a stage.
const LOG_LATE: f64 = 4.605;

/// Ratio of the rate that servers must sustain to the demand, at least 1; the tail of a variant bounds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::policy) struct Reserve(f64);

impl Reserve {
    /// The tail, however long requests may wait.
    pub(in crate::policy) const TAIL: Reserve = Reserve(f64::INFINITY);

    /// Returns the reserve for queues.
    pub(super) fn of(service: &Service, forecast: Forecast) -> Reserve {
        let all_ms = service.slo.as_secs_f64() * 1e3 - service.downstream_ms;
        let stages = service.stages.len().max(1) as f64;
        let wait_s = (all_ms - service.latency_max_ms) / 1e3 / stages;
        let demand = forecast.demand.0.max(DEMAND_MIN.0);
        let needed = forecast.mean.0 + LOG_LATE / (2.0 * wait_s.max(0.0));
        Reserve(needed / demand)
    }

    /// Time for which a batch occupies its replica, the reserve included.
    pub(super) fn occupancy(self, variant: &Variant) -> LatencyModel {
        let tail = variant.profile.latency.tail;
        match self.0 < tail {
            true => executed(variant, self.0.max(1.0)),
            false => promised(variant),
        }
    }
}
