//! Metrics of measured service times, by variant.

use prometheus::{GaugeVec, IntGaugeVec, Opts};

use super::make::Make;
use crate::service::VariantState;
use crate::telemetry::status::ServiceTimeReport;

#[derive(Debug)]
pub(super) struct ServiceTimeMetrics {
    measured: GaugeVec,
    correction: GaugeVec,
    drift: GaugeVec,
    state: IntGaugeVec,
}

impl ServiceTimeMetrics {
    pub(super) fn new(make: &Make) -> prometheus::Result<ServiceTimeMetrics> {
        Ok(ServiceTimeMetrics {
            measured: make.gauges(
                "service_time_ratio",
                "A variant's measured service time relative to its profile's; NaN while unknown.",
            )?,
            correction: make.gauges(
                "service_time_correction",
                "Factor on a variant's profile that is planned with, at its actual cores.",
            )?,
            drift: make.gauges(
                "profile_drift",
                "1 while a variant's profile has not held for serviceTimes.driftAfter or longer.",
            )?,
            state: make.register(IntGaugeVec::new(
                Opts::new("variant_state", "1 for the state a variant is in, else 0."),
                &["variant", "state"],
            )?)?,
        })
    }

    pub(super) fn show(&self, variant: &str, report: &ServiceTimeReport) {
        let show = |gauges: &GaugeVec, value| gauges.with_label_values(&[variant]).set(value);
        show(&self.measured, report.measured_ratio.unwrap_or(f64::NAN));
        show(&self.correction, report.correction);
        show(&self.drift, f64::from(u8::from(report.drift_ms.is_some())));
        for state in VariantState::ALL {
            let labels = [variant, state.label()];
            let is = i64::from(report.state == state);
            self.state.with_label_values(&labels).set(is);
        }
    }
}
