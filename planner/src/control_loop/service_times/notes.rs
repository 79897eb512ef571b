//! Words of the reasons and of the log about measured service times.

use crate::service::VariantState;
use crate::telemetry::status::ServiceTimeReport;

/// Measured and planned ratio of a variant that is not as in its profile.
pub(super) fn measured_note(name: &str, report: &ServiceTimeReport) -> String {
    let ServiceTimeReport {
        state,
        measured_ratio,
        correction,
        ..
    } = *report;
    let planned = match correction == 1.0 {
        true => String::new(),
        false => format!(", planned with {correction:.2}"),
    };
    let is = match state.is_slow() {
        true => format!(": it is {}", state.label()),
        false => String::new(),
    };
    match measured_ratio {
        _ if planned.is_empty() && is.is_empty() => String::new(),
        Some(ratio) => format!(
            "; {name}: {} over {}{planned}{is}",
            measured(report, ratio),
            executions_of(report)
        ),
        None => format!("; {name}: not measured of late{planned}{is}"),
    }
}

/// Measured ratio, which too few answers make a lower bound.
fn measured(report: &ServiceTimeReport, ratio: f64) -> String {
    let least = match report.is_bound {
        true => "at least ",
        false => "",
    };
    format!("measured {least}{ratio:.2} × profile")
}

/// Sentence of a variant that is planned with what is measured in place of its profile.
pub(crate) fn far_off_note(name: &str, report: &ServiceTimeReport) -> Option<String> {
    let (profile_ms, ratio) = (report.profile_ms?, report.measured_ratio?);
    report.replaces_profile.then(|| {
        let answers = report.executions.saturating_sub(report.cut_off);
        let (profile, measured) = (in_ms(profile_ms), in_ms(profile_ms * ratio));
        format!(
            "the profile of {name} says {profile} ms, measured {measured} ms over {answers} answers: planned with what is \
             measured; run `weir profile`"
        )
    })
}

/// Sentence of a variant without a profile: what is measured of it.
pub(super) fn no_profile_note(name: &str, report: &ServiceTimeReport) -> Option<String> {
    if report.has_profile {
        return None;
    }
    let is_known = report.measured_ratio.zip(report.profile_ms);
    let measured = match is_known {
        Some((ratio, start_ms)) => {
            let least = match report.is_bound {
                true => "at least ",
                false => "",
            };
            let executions = executions_of(report);
            format!(
                "measured {least}{} ms over {executions}",
                in_ms(ratio * start_ms)
            )
        }
        None if report.correction == 1.0 => "nothing measured yet".to_owned(),
        None => "nothing measured of late".to_owned(),
    };
    Some(format!("{name}: no profile; {measured}"))
}

/// Time in ms, of which short ones have a decimal.
fn in_ms(ms: f64) -> String {
    match ms < 10.0 {
        true => format!("{ms:.1}"),
        false => format!("{ms:.0}"),
    }
}

/// Number of executions measured, and of those that were cut off.
fn executions_of(report: &ServiceTimeReport) -> String {
    let executions = report.executions;
    match report.cut_off {
        0 => format!("{executions} executions"),
        cut_off => format!("{executions} executions, {cut_off} of them cut off"),
    }
}

/// Name of a variant whose profile no longer holds, with the command that renews it.
pub(super) fn drift_note(service: &str, name: &str, report: &ServiceTimeReport) -> String {
    let Some(drift_ms) = report.drift_ms else {
        return String::new();
    };
    let minutes = drift_ms / 60_000;
    format!(
        "; the profile of {name} has not held for {minutes} min: {}",
        renewal(service, name)
    )
}

pub(super) fn renewal(service: &str, name: &str) -> String {
    format!(
        "measure it anew with `weir profile`, or `weir profile --from-proxy URL --service {service} --variant {name}`"
    )
}

pub(super) fn log_state(name: &str, before: VariantState, report: &ServiceTimeReport) {
    let (state, before) = (report.state, before.label());
    let measured = report.measured_ratio.map_or_else(String::new, |ratio| {
        let executions = executions_of(report);
        format!(", {} over {executions}", measured(report, ratio))
    });
    let label = state.label();
    match state.is_slow() {
        true => tracing::warn!("variant {name} is {label}, and was {before}{measured}"),
        false => tracing::info!("variant {name} is {label}, and was {before}{measured}"),
    }
}
