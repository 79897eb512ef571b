//! Metrics of a service in a budget that it shares with others.

use prometheus::{GaugeVec, Opts};
use weir_api::Cores;

use super::make::Make;
use crate::telemetry::status::SharedBudgetReport;

#[derive(Debug)]
pub(super) struct SharedBudgetMetrics {
    budget: GaugeVec,
    part: GaugeVec,
    need: GaugeVec,
    preferred: GaugeVec,
}

impl SharedBudgetMetrics {
    pub(super) fn new(make: &Make) -> prometheus::Result<SharedBudgetMetrics> {
        let gauges = |name: &str, help: &str| {
            make.register(GaugeVec::new(Opts::new(name, help), &["budget"])?)
        };
        Ok(SharedBudgetMetrics {
            budget: gauges(
                "shared_budget_cores",
                "Cores of the budget that the service shares with others.",
            )?,
            part: gauges(
                "shared_budget_part_cores",
                "Part of the service in its shared budget; NaN while unknown.",
            )?,
            need: gauges(
                "shared_budget_need_cores",
                "Fewest cores that carry the service's demand; NaN while unknown.",
            )?,
            preferred: gauges(
                "shared_budget_preferred_cores",
                "Cores that the service's policy takes with the whole budget; NaN while unknown.",
            )?,
        })
    }

    /// Shows the state in the shared budget; none for a budget of its own.
    pub(super) fn show(&self, report: Option<&SharedBudgetReport>) {
        let all = [&self.budget, &self.part, &self.need, &self.preferred];
        // A budget that the service has left must disappear.
        all.iter().for_each(|gauges| gauges.reset());
        let Some(report) = report else { return };
        let values = [
            Some(report.cores),
            report.part,
            report.need,
            report.preferred,
        ];
        for (gauges, cores) in all.into_iter().zip(values) {
            let value = cores.map_or(f64::NAN, Cores::as_f64);
            gauges.with_label_values(&[&report.name]).set(value);
        }
    }
}
