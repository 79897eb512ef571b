//! Rule for measured service times: whether and how far they correct the profiles, and the thresholds of a variant's
//! state.

use std::time::Duration;

/// Default largest correction: an execution that takes longer than four times its profile has another cause, unless it
/// does so for [`FAR_OFF_AFTER`].
const CORRECTION_MAX: f64 = 4.0;
/// Smallest correction: a variant is planned with at most twice its profile's speed.
pub const CORRECTION_MIN: f64 = 0.5;
/// Largest value of the largest correction.
pub const CORRECTION_LIMIT: f64 = 10.0;
/// Time for which answered executions must be beyond the corrections for the profile to be far off: two windows of
/// measurements, so that a stall is none.
pub const FAR_OFF_AFTER: Duration = Duration::from_secs(30);
/// Largest ratio of a measured time that replaces a profile which is far off.
pub const FAR_OFF_MAX: f64 = 1000.0;
/// Smallest such ratio.
pub const FAR_OFF_MIN: f64 = 0.02;
const _: () = assert!(FAR_OFF_MIN < CORRECTION_MIN && CORRECTION_LIMIT < FAR_OFF_MAX);
/// Default ratio above which a variant is slow.
const INTERFERED_ABOVE: f64 = 1.25;
/// Default part of the sustained rate from which a variant is saturated.
const OVERLOADED_FROM: f64 = 0.9;
/// Default time for which another state must hold.
const DWELL: Duration = Duration::from_secs(10);
/// Default time without a request after which a variant is inactive.
const INACTIVE_AFTER: Duration = Duration::from_secs(60);
/// Default time after which a deviation is the profile's fault.
const DRIFT_AFTER: Duration = Duration::from_secs(600);

/// Rule for measured service times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceTimeRule {
    /// Whether the planner plans with the measured times.
    pub correct: bool,
    /// Largest correction of a profile that is not far off.
    pub correction_max: f64,
    /// Ratio of the measured time to the profile's above which a variant is slow.
    pub interfered_above: f64,
    /// Part of the sustained rate from which a slow variant is overloaded.
    pub overloaded_from: f64,
    /// Time for which another state must hold before it is taken on.
    pub dwell: Duration,
    /// Time without a request after which a variant is inactive.
    pub inactive_after: Duration,
    /// Time after which a profile that does not hold is to be measured anew.
    pub drift_after: Duration,
}

impl Default for ServiceTimeRule {
    fn default() -> ServiceTimeRule {
        ServiceTimeRule {
            correct: true,
            correction_max: CORRECTION_MAX,
            interfered_above: INTERFERED_ABOVE,
            overloaded_from: OVERLOADED_FROM,
            dwell: DWELL,
            inactive_after: INACTIVE_AFTER,
            drift_after: DRIFT_AFTER,
        }
    }
}
