//! Reasons of condition `Degraded` from measured service times. The plan counts with them, so they come last.

use crate::control_loop::far_off_note;
use crate::service::VariantState;
use crate::telemetry::status::{CycleReport, ServiceTimeReport};

/// Reason and message of a profile that no longer holds, or of a variant that is slow without having many requests.
pub(super) fn degraded(report: &CycleReport) -> Option<(&'static str, String)> {
    let first = |holds: &dyn Fn(&ServiceTimeReport) -> bool| {
        let mut all = report.variants.iter();
        all.find(|(_, variant)| holds(&variant.service_time))
    };
    if let Some((name, variant)) = first(&|times| times.replaces_profile)
        && let Some(message) = far_off_note(name, &variant.service_time)
    {
        return Some(("ProfileDrift", message));
    }
    if let Some((name, variant)) = first(&|times| times.drift_ms.is_some()) {
        let minutes = variant.service_time.drift_ms.unwrap_or_default() / 60_000;
        let message = format!(
            "the profile of {name} has not held for {minutes} min{}: measure it anew with `weir profile`",
            measured(&variant.service_time)
        );
        return Some(("ProfileDrift", message));
    }
    let (name, variant) = first(&|times| times.state == VariantState::Interfered)?;
    let message = format!(
        "{name} is slower than its profile although it has fewer requests than it sustains{}: another process may use \
         its node",
        measured(&variant.service_time)
    );
    Some(("Interfered", message))
}

/// Measured ratio in tenths, so that noise changes no message.
fn measured(times: &ServiceTimeReport) -> String {
    times.measured_ratio.map_or_else(String::new, |ratio| {
        format!(", measured {ratio:.1} × profile")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::conditions::{SloServiceStatus, Timestamp, WatchNotes, planned_status};
    use crate::service::SolveStatus;
    use crate::spec::tests::service;

    /// Condition `Degraded` with these measured service times of variant a.
    async fn shown(state: VariantState, drift_ms: Option<u64>, outcome: SolveStatus) -> String {
        let mut report = crate::control_loop::tests::reports(1).await.remove(0);
        report.outcome = outcome;
        report.variants.get_mut("a").unwrap().service_time = ServiceTimeReport {
            state,
            measured_ratio: Some(1.52),
            executions: 300,
            cut_off: 0,
            is_bound: false,
            correction: 1.5,
            has_profile: true,
            profile_ms: Some(20.0),
            replaces_profile: false,
            drift_ms,
        };
        let (before, notes) = (SloServiceStatus::default(), WatchNotes::default());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let status = planned_status(&service(8), &report, &[], 1, &notes, &before, now);
        let mut conditions = status.conditions.iter();
        let found = conditions.find(|one| one.type_ == "Degraded").unwrap();
        format!("{} {}: {}", found.status, found.reason, found.message)
    }

    #[tokio::test]
    async fn drift_and_interference_degrade_unless_something_graver_does() {
        for (state, drift_ms, outcome, expected) in [
            (
                VariantState::Overloaded,
                None,
                SolveStatus::Optimal,
                "False AsExpected: ",
            ),
            (
                VariantState::Interfered,
                None,
                SolveStatus::Optimal,
                "True Interfered: a is slower than its profile although it has fewer requests than it sustains, \
                 measured 1.5 × profile: another process may use its node",
            ),
            (
                VariantState::Interfered,
                Some(700_000),
                SolveStatus::NoDemand,
                "True ProfileDrift: the profile of a has not held for 11 min, measured 1.5 × profile: measure it anew \
                 with `weir profile`",
            ),
            (
                VariantState::Interfered,
                Some(700_000),
                SolveStatus::OutOfTime,
                "True SolverOutOfTime: ",
            ),
        ] {
            let shown = shown(state, drift_ms, outcome).await;
            assert!(shown.starts_with(expected), "{shown}");
        }
    }
}
