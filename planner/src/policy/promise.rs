//! Latency models that policies plan with: a high percentile of the measured times, and how long batches wait. Pure.

use crate::service::Variant;
use crate::solve::latency_model::LatencyModel;

/// Latency model of a variant's promise: a high percentile instead of the profile's mean.
pub(super) fn promised(variant: &Variant) -> LatencyModel {
    executed(variant, variant.profile.latency.tail)
}

/// The same by the profile. Where no batch is in time as measured, batches follow it: single requests carry the least, and
/// the measured times include what they wait for each other.
pub(super) fn promised_by_profile(variant: &Variant) -> LatencyModel {
    executed(
        variant,
        variant.profile.latency.tail / variant.profile.correction.largest(),
    )
}

/// Latency model with the largest correction, and with executions that take `factor` times the mean. A server with one
/// lane idles while it waits for a batch to fill.
pub(super) fn executed(variant: &Variant, factor: f64) -> LatencyModel {
    let model = variant.profile.latency.model;
    let factor = factor * variant.profile.correction.largest();
    let idle_ms = match variant.makes_batches() {
        true => 0.0,
        false => variant.batch_delay.as_secs_f64() * 1e3,
    };
    LatencyModel {
        gamma_ms: model.gamma_ms * factor,
        epsilon_ms: model.epsilon_ms * factor,
        delta_ms: model.delta_ms * factor,
        eta_ms: model.eta_ms * factor + idle_ms,
    }
}

/// Constant time that a request waits for its batch, if the server makes the batches; `None` if it depends on filling.
pub(super) fn wait_ms(variant: &Variant) -> Option<f64> {
    let ms = variant.batch_delay.as_secs_f64() * 1e3;
    variant.makes_batches().then_some(ms)
}

/// Time that a request waits for a batch of that size.
pub(super) fn waits_ms(variant: &Variant, batch: u32, demand_rps: f64) -> f64 {
    wait_ms(variant).unwrap_or_else(|| f64::from(batch - 1) * 1e3 / demand_rps)
}
