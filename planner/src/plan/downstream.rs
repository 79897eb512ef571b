//! Downstream time of each stage: what a request needs at the later ones. Pure.
//!
//! It is the sum of the measured times, so that a stage does not use up time that a later one needs. But a measured time
//! includes waits at that stage, and a downstream time of nearly the whole objective has everything refused on entry.
//! So it grows beyond the profiles' times only as far as the latency budget leaves a stage its own time by the profile.

/// Time of a request at a stage, in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Needs {
    /// With the corrections by measurements.
    pub(super) measured_ms: f64,
    /// By the profiles.
    pub(super) profile_ms: f64,
}

impl Needs {
    /// Longer of two, each by its own.
    pub(super) fn max(self, other: Needs) -> Needs {
        Needs {
            measured_ms: self.measured_ms.max(other.measured_ms),
            profile_ms: self.profile_ms.max(other.profile_ms),
        }
    }
}

/// Downstream times of stages with these needs, for a latency budget. After the last stage they need `last_ms`.
pub(super) fn downstream_ms(
    stages: &[Needs],
    last_ms: f64,
    latency_max_ms: f64,
    most_ms: f64,
) -> Vec<f64> {
    let mut later = Needs {
        measured_ms: last_ms,
        profile_ms: last_ms,
    };
    let mut all: Vec<f64> = stages
        .iter()
        .rev()
        .map(|stage| {
            let left_ms = latency_max_ms - stage.profile_ms;
            let least_ms = later.profile_ms.min(later.measured_ms);
            let ms = later.measured_ms.min(left_ms).max(least_ms);
            later.measured_ms += stage.measured_ms;
            later.profile_ms += stage.profile_ms;
            ms.min(most_ms)
        })
        .collect();
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured and profile's time of each stage → downstream times, for a budget of 500 of 1000 ms.
    #[test]
    fn measured_times_leave_each_stage_its_own() {
        for (stages, last_ms, expected) in [
            (&[(50.0, 50.0), (80.0, 80.0)][..], 0.0, &[80.0, 0.0][..]),
            (&[(50.0, 50.0), (332.0, 83.0)], 0.0, &[332.0, 0.0]),
            // A profile that is off by 30: the first stage keeps its 50 ms.
            (&[(50.0, 50.0), (2490.0, 83.0)], 0.0, &[450.0, 0.0]),
            (
                &[(900.0, 50.0), (900.0, 50.0), (50.0, 50.0)],
                10.0,
                &[450.0, 60.0, 10.0],
            ),
            // Faster than the profile.
            (&[(50.0, 50.0), (40.0, 80.0)], 0.0, &[40.0, 0.0]),
            // The profiles themselves need all there is.
            (&[(50.0, 50.0), (2000.0, 2000.0)], 0.0, &[999.0, 0.0]),
        ] {
            let needs: Vec<Needs> = stages
                .iter()
                .map(|(measured_ms, profile_ms)| Needs {
                    measured_ms: *measured_ms,
                    profile_ms: *profile_ms,
                })
                .collect();
            let found = downstream_ms(&needs, last_ms, 500.0, 999.0);
            assert_eq!(found, expected, "{stages:?}");
        }
    }
}
