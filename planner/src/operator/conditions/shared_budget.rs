//! Part of a shared budget in the status of a resource.

use weir_api::Cores;

use crate::spec::resource::SharedBudgetStatus;
use crate::telemetry::status::SharedBudgetReport;

impl From<&SharedBudgetReport> for SharedBudgetStatus {
    fn from(report: &SharedBudgetReport) -> SharedBudgetStatus {
        SharedBudgetStatus {
            name: report.name.clone(),
            part: report.part.map(Cores::as_f64),
            need: report.need.map(Cores::as_f64),
            preferred: report.preferred.map(Cores::as_f64),
        }
    }
}
