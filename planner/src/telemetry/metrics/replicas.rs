//! Metrics of the replicas, by variant.

use prometheus::GaugeVec;

use super::make::Make;
use crate::telemetry::status::VariantReport;

#[derive(Debug)]
pub(super) struct ReplicaMetrics {
    target: GaugeVec,
    ready: GaugeVec,
}

impl ReplicaMetrics {
    pub(super) fn new(make: &Make) -> prometheus::Result<ReplicaMetrics> {
        Ok(ReplicaMetrics {
            target: make.gauges("replicas_target", "Target number of a variant's replicas.")?,
            ready: make.gauges("replicas_ready", "Replicas of a variant that serve.")?,
        })
    }

    pub(super) fn show(&self, variant: &str, report: &VariantReport) {
        for (gauges, count) in [
            (&self.target, report.replicas_target),
            (&self.ready, report.replicas_ready),
        ] {
            gauges.with_label_values(&[variant]).set(count.into());
        }
    }
}
