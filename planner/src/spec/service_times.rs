//! Validation of the rule for measured service times.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::duration::{HOUR, SECOND, duration};
use super::raw::{RawDuration, RawServiceTimes};
use crate::service::rule::within;
use crate::service::{CORRECTION_LIMIT, ConfigError, ServiceTimeRule};

/// Validates the section `serviceTimes`.
pub(super) fn service_times(raw: &RawServiceTimes) -> Result<ServiceTimeRule, ConfigError> {
    let key = |key: &str| format!("serviceTimes.{key}");
    let number = |name: &str, value, range| within(key(name), value, range, "");
    let time = |name: &str, value: RawDuration, range: RangeInclusive<Duration>| {
        duration(key(name), value, range, "")
    };
    Ok(ServiceTimeRule {
        correct: raw.correct,
        correction_max: number("correctionMax", raw.correction_max, 1.0..=CORRECTION_LIMIT)?,
        interfered_above: number("interferedAbove", raw.interfered_above, 1.05..=10.0)?,
        overloaded_from: number("overloadedFrom", raw.overloaded_from, 0.1..=1.0)?,
        dwell: time("dwell", raw.dwell, Duration::ZERO..=HOUR)?,
        inactive_after: time("inactiveAfter", raw.inactive_after, SECOND..=HOUR)?,
        drift_after: time("driftAfter", raw.drift_after, SECOND..=HOUR)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Service;
    use crate::spec::tests::small;

    fn with(section: &str) -> Result<ServiceTimeRule, String> {
        let text = small().replace("slo: 1s", &format!("slo: 1s\nserviceTimes: {{{section}}}"));
        let service = Service::from_yaml(&text).map_err(|error| error.to_string())?;
        Ok(service.service_times)
    }

    #[test]
    fn section_is_read_and_has_defaults() {
        assert_eq!(with(""), Ok(ServiceTimeRule::default()));
        let rule = with("correct: false, correctionMax: 2, dwell: 5s, driftAfter: 1h");
        let expected = ServiceTimeRule {
            correct: false,
            correction_max: 2.0,
            dwell: Duration::from_secs(5),
            drift_after: HOUR,
            ..ServiceTimeRule::default()
        };
        assert_eq!(rule, Ok(expected));
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (section, expected) in [
            (
                "correctionMax: 0.9",
                "serviceTimes.correctionMax: 0.9; it must be 1 to 10",
            ),
            (
                "correctionMax: 11",
                "serviceTimes.correctionMax: 11; it must be 1 to 10",
            ),
            (
                "interferedAbove: 1",
                "serviceTimes.interferedAbove: 1; it must be 1.05 to 10",
            ),
            (
                "overloadedFrom: 1.1",
                "serviceTimes.overloadedFrom: 1.1; it must be 0.1 to 1",
            ),
            (
                "dwell: 61m",
                "serviceTimes.dwell: 1h1m; it must be 0s to 1h",
            ),
            (
                "inactiveAfter: 0s",
                "serviceTimes.inactiveAfter: 0s; it must be 1s to 1h",
            ),
            (
                "driftAfter: 2h",
                "serviceTimes.driftAfter: 2h; it must be 1s to 1h",
            ),
            ("dwel: 1s", "unknown"),
        ] {
            let error = with(section).unwrap_err();
            assert!(error.contains(expected), "{section}: {error}");
        }
    }
}
