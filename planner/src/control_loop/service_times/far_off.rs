//! Whether a profile is far off: answered executions have been beyond the bounds of a correction for [`FAR_OFF_AFTER`].
//! What is measured replaces the profile then, within wider bounds, until a ratio is within those of a correction. Pure.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::service::{CORRECTION_MIN, FAR_OFF_AFTER, FAR_OFF_MAX, FAR_OFF_MIN, ServiceTimeRule};

/// Whether the profile is far off.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum FarOff {
    /// Ratios are within the bounds of a correction.
    #[default]
    No,
    /// They have been beyond them since that time.
    Since(Duration),
    /// They have been so for long enough.
    Yes,
}

impl FarOff {
    /// Takes in the ratio of answered executions.
    pub(super) fn see(&mut self, ratio: f64, now: Duration, rule: &ServiceTimeRule) {
        let is_beyond = !FarOff::No.bounds(rule).contains(&ratio);
        *self = match *self {
            _ if !is_beyond => FarOff::No,
            FarOff::No => FarOff::Since(now),
            FarOff::Since(since) if now.saturating_sub(since) >= FAR_OFF_AFTER => FarOff::Yes,
            still => still,
        };
    }

    /// Bounds of the ratios that are planned with.
    pub(super) fn bounds(self, rule: &ServiceTimeRule) -> RangeInclusive<f64> {
        match self {
            FarOff::Yes => FAR_OFF_MIN..=FAR_OFF_MAX,
            FarOff::No | FarOff::Since(_) => CORRECTION_MIN..=rule.correction_max,
        }
    }
}
