//! Validation of durations.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_api::plan::HOUR_MS;

use super::raw::RawDuration;
use crate::service::ConfigError;
use crate::service::rule::{refusal, rule};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const HOUR: Duration = Duration::from_millis(HOUR_MS);

/// Validates a duration; `more` explains the range.
pub(super) fn duration(
    path: impl Display,
    value: RawDuration,
    range: RangeInclusive<Duration>,
    more: &str,
) -> Result<Duration, ConfigError> {
    let (min, max) = (RawDuration(*range.start()), RawDuration(*range.end()));
    let right = format!("{min} to {max}{more}");
    rule(range.contains(&value.0), path, value, &right)?;
    Ok(value.0)
}

/// Validates a duration that the proxies or timers count in whole ms.
pub(super) fn whole_ms(
    path: &str,
    value: RawDuration,
    range: RangeInclusive<Duration>,
    more: &str,
) -> Result<Duration, ConfigError> {
    let value = duration(path, value, range, more)?;
    match value.subsec_nanos() % 1_000_000 {
        0 => Ok(value),
        _ => Err(refusal(
            path,
            RawDuration(value),
            "a whole number of ms, such as 250ms",
        )),
    }
}
