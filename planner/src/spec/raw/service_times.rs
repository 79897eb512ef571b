//! Service times as written: correction of the profiles, and thresholds of a variant's state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawDuration;
use super::rules::in_range;
use crate::service::ServiceTimeRule;

/// Measured service times: whether they correct the profiles, and when a variant is overloaded, interfered or
/// inactive.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawServiceTimes {
    /// Whether capacities and policies count with the measured times. Measured they are in any case.
    pub correct: bool,
    /// Largest factor on the profile's time. A profile that is off by more for 30 s is replaced by what is measured.
    #[schemars(range(min = 1.0, max = 10.0))]
    pub correction_max: f64,
    /// A variant whose time is more than this factor of its profile's is overloaded or interfered. It is so no longer
    /// below half of the excess.
    #[schemars(range(min = 1.05, max = 10.0))]
    pub interfered_above: f64,
    /// Fraction of the rate that a variant sustains by its profile from which a slow variant is overloaded. Below, it is
    /// interfered.
    #[schemars(range(min = 0.1, max = 1.0))]
    pub overloaded_from: f64,
    /// Time for which another state must hold before it is taken on.
    #[schemars(extend("x-kubernetes-validations" = in_range("0s", "1h")))]
    pub dwell: RawDuration,
    /// Time without a request after which a variant is inactive.
    #[schemars(extend("x-kubernetes-validations" = in_range("1s", "1h")))]
    pub inactive_after: RawDuration,
    /// Time after which a profile whose times are not measured is reported, to be measured anew.
    #[schemars(extend("x-kubernetes-validations" = in_range("1s", "1h")))]
    pub drift_after: RawDuration,
}

impl Default for RawServiceTimes {
    fn default() -> RawServiceTimes {
        let rule = ServiceTimeRule::default();
        RawServiceTimes {
            correct: rule.correct,
            correction_max: rule.correction_max,
            interfered_above: rule.interfered_above,
            overloaded_from: rule.overloaded_from,
            dwell: RawDuration(rule.dwell),
            inactive_after: RawDuration(rule.inactive_after),
            drift_after: RawDuration(rule.drift_after),
        }
    }
}
