//! Unit types, so that cores cannot be added to requests.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// CPU cores in thousandths (Kubernetes' `m`). JSON and YAML have a number of cores: `2`, `0.5`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "f64", into = "f64")]
pub struct Cores(u32);

impl Cores {
    /// Zero cores.
    pub const ZERO: Cores = Cores(0);

    /// Creates a value from whole cores.
    pub const fn whole(cores: u32) -> Cores {
        Cores(cores.saturating_mul(1000))
    }

    /// Creates a value from thousandths of a core.
    pub const fn from_millis(millicores: u32) -> Cores {
        Cores(millicores)
    }

    /// Returns the value in thousandths of a core.
    pub const fn millis(self) -> u32 {
        self.0
    }

    /// Returns the value in cores, for arithmetic with rates and times.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// Returns this many times the value.
    #[must_use]
    pub const fn times(self, count: u32) -> Cores {
        Cores(self.0.saturating_mul(count))
    }

    /// Returns how often `step` goes into the value, rounded down.
    pub const fn count(self, step: Cores) -> u32 {
        match self.0.checked_div(step.0) {
            Some(count) => count,
            None => 0,
        }
    }

    /// Whether it is a multiple of `step`.
    pub const fn is_multiple(self, step: Cores) -> bool {
        matches!(self.0.checked_rem(step.0), Some(0))
    }

    /// Returns the difference, or zero if `other` is greater.
    pub const fn saturating_sub(self, other: Cores) -> Cores {
        Cores(self.0.saturating_sub(other.0))
    }
}

impl Add for Cores {
    type Output = Cores;
    fn add(self, other: Cores) -> Cores {
        Cores(self.0.saturating_add(other.0))
    }
}

impl Sub for Cores {
    type Output = Cores;
    fn sub(self, other: Cores) -> Cores {
        debug_assert!(self >= other, "cores went below zero");
        self.saturating_sub(other)
    }
}

impl Sum for Cores {
    fn sum<I: Iterator<Item = Cores>>(parts: I) -> Cores {
        parts.fold(Cores::ZERO, Add::add)
    }
}

impl TryFrom<f64> for Cores {
    type Error = String;
    fn try_from(cores: f64) -> Result<Cores, String> {
        let millis = (cores * 1000.0).round();
        if (0.0..=f64::from(u32::MAX)).contains(&millis) {
            Ok(Cores(millis as u32))
        } else {
            Err(format!(
                "cores must be a number from 0 to 4294967, not {cores}"
            ))
        }
    }
}

impl From<Cores> for f64 {
    fn from(cores: Cores) -> f64 {
        cores.as_f64()
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

/// Requests per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Rps(pub f64);

impl fmt::Display for Rps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

/// Fraction of the traffic, 0 to 1: InfAdapter's quota λ_m / λ.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Share(pub f64);

/// Revision that orders the plans of one service. Planners count up from the Unix time in
/// milliseconds, so that a restarted planner continues above its predecessor.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// Greatest revision: the largest integer that a JSON number carries exactly (2^53 − 1).
    pub const MAX: Revision = Revision((1 << 53) - 1);

    /// Returns the revision after `self` for a plan made at `unix_ms`: at least the clock, above
    /// `self`, at most [`Revision::MAX`].
    #[must_use]
    pub fn next(self, unix_ms: u64) -> Revision {
        Revision(self.0.saturating_add(1).max(unix_ms).min(Self::MAX.0))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_serialize_as_numbers() {
        for (json, millis) in [("2", 2000), ("0.5", 500), ("0", 0), ("0.0004", 0)] {
            let cores: Cores = serde_json::from_str(json).unwrap();
            assert_eq!(cores.millis(), millis, "{json}");
        }
        assert_eq!(serde_json::to_string(&Cores::whole(3)).unwrap(), "3.0");
        for bad in ["-1", "1e12", "\"2\""] {
            assert!(serde_json::from_str::<Cores>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_are_counted_in_steps() {
        let (half, whole) = (Cores::from_millis(500), Cores::whole(1));
        assert_eq!(half.times(3), Cores::from_millis(1500));
        assert_eq!(Cores::from_millis(1700).count(half), 3);
        assert_eq!(Cores::from_millis(1700).count(Cores::ZERO), 0);
        for (millis, step, multiple) in [
            (1500, half, true),
            (1700, half, false),
            (0, half, true),
            (1500, whole, false),
            (1500, Cores::ZERO, false),
        ] {
            let cores = Cores::from_millis(millis);
            assert_eq!(cores.is_multiple(step), multiple, "{cores} {step}");
        }
    }

    #[test]
    fn next_revision_exceeds_predecessor_and_clock() {
        assert_eq!(Revision(7).next(100), Revision(100));
        assert_eq!(Revision(200).next(100), Revision(201));
        assert_eq!(Revision(u64::MAX).next(1), Revision::MAX);
    }
}
