//! State of a variant, after INFaaS (ATC '21, §4): measured service time and rate, compared with the profile. Pure: the
//! time is an argument.
//!
//! | state | service time | rate |
//! |---|---|---|
//! | normal | as in the profile | any |
//! | overloaded | above the profile's | near the sustained one |
//! | interfered | above the profile's | below it |
//! | inactive | | no request for a while |
//!
//! Two things keep a state from flapping: a state is left at a lower threshold than it is entered, and another one is
//! taken on only after it has held for a dwell time. A variant becomes inactive, or active again, at once.

use std::time::Duration;

use super::ServiceTimeRule;

/// Part of a threshold's distance at which a state is left.
const LEAVE: f64 = 0.5;
/// Part of the saturated rate at which an overloaded variant is so no longer.
const LEAVE_RATE: f64 = 0.9;

/// State of a variant.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum VariantState {
    /// It takes the time that its profile says.
    #[default]
    Normal,
    /// It is slow because it has as many requests as it sustains.
    Overloaded,
    /// It is slow although it has fewer requests than it sustains.
    Interfered,
    /// It gets no requests.
    Inactive,
}

impl VariantState {
    /// All of them.
    pub const ALL: [VariantState; 4] = [
        VariantState::Normal,
        VariantState::Overloaded,
        VariantState::Interfered,
        VariantState::Inactive,
    ];

    /// Returns the word in metrics and messages.
    pub const fn label(self) -> &'static str {
        match self {
            VariantState::Normal => "normal",
            VariantState::Overloaded => "overloaded",
            VariantState::Interfered => "interfered",
            VariantState::Inactive => "inactive",
        }
    }

    /// Whether it takes longer than its profile says.
    pub const fn is_slow(self) -> bool {
        matches!(self, VariantState::Overloaded | VariantState::Interfered)
    }
}

/// Measurement of a variant at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Time since its last request.
    pub idle: Duration,
    /// Measured service time relative to the profile's; `None` if there are too few executions.
    pub ratio: Option<f64>,
    /// Rate relative to the sustained one.
    pub load: f64,
}

/// State of a variant, and the state that it is about to take on, with its start.
#[derive(Debug, Clone, Copy, Default)]
pub struct StateMachine {
    state: VariantState,
    next: Option<(VariantState, Duration)>,
}

impl StateMachine {
    /// Present state.
    pub fn state(&self) -> VariantState {
        self.state
    }

    /// Takes in a reading at `now`; returns the state before if it has changed.
    pub fn see(
        &mut self,
        now: Duration,
        reading: Reading,
        rule: &ServiceTimeRule,
    ) -> Option<VariantState> {
        let before = self.state;
        let shown = shown(before, reading, rule)?;
        let since = match self.next {
            Some((next, since)) if next == shown => since,
            _ => now,
        };
        self.next = (shown != before).then_some((shown, since));
        let inactive = [before, shown].contains(&VariantState::Inactive);
        if shown == before || !inactive && now.saturating_sub(since) < rule.dwell {
            return None;
        }
        (self.state, self.next) = (shown, None);
        Some(before)
    }
}

/// Ratio above which a variant is slow, by whether it is so already.
pub fn slow_above(is_slow: bool, rule: &ServiceTimeRule) -> f64 {
    match is_slow {
        true => 1.0 + (rule.interfered_above - 1.0) * LEAVE,
        false => rule.interfered_above,
    }
}

/// State that the reading shows; `None` if there are too few executions.
fn shown(before: VariantState, reading: Reading, rule: &ServiceTimeRule) -> Option<VariantState> {
    if reading.idle >= rule.inactive_after {
        return Some(VariantState::Inactive);
    }
    let Some(ratio) = reading.ratio else {
        return (before == VariantState::Inactive).then_some(VariantState::Normal);
    };
    let saturated = match before {
        VariantState::Overloaded => rule.overloaded_from * LEAVE_RATE,
        _ => rule.overloaded_from,
    };
    Some(match ratio > slow_above(before.is_slow(), rule) {
        false => VariantState::Normal,
        true if reading.load >= saturated => VariantState::Overloaded,
        true => VariantState::Interfered,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::VariantState::{Inactive, Interfered, Normal, Overloaded};
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn reading(idle_s: u64, ratio: Option<f64>, load: f64) -> Reading {
        Reading {
            idle: s(idle_s),
            ratio,
            load,
        }
    }

    #[test]
    fn state_follows_service_time_and_rate() {
        let rule = ServiceTimeRule::default();
        for (before, idle_s, ratio, load, expected) in [
            (Normal, 0, Some(1.0), 0.5, Normal),
            // A variant that sustains what it gets is not overloaded.
            (Normal, 0, Some(1.0), 1.0, Normal),
            (Normal, 0, Some(1.2), 0.5, Normal),
            (Normal, 0, Some(1.3), 0.5, Interfered),
            (Normal, 0, Some(1.3), 0.95, Overloaded),
            (Normal, 0, Some(0.4), 0.95, Normal),
            (Interfered, 0, Some(1.2), 0.5, Interfered),
            (Interfered, 0, Some(1.1), 0.5, Normal),
            (Interfered, 0, Some(1.3), 0.89, Interfered),
            (Overloaded, 0, Some(1.3), 0.85, Overloaded),
            (Overloaded, 0, Some(1.3), 0.8, Interfered),
            (Overloaded, 0, Some(1.1), 1.0, Normal),
            (Interfered, 60, None, 0.0, Inactive),
            (Normal, 60, Some(2.0), 1.0, Inactive),
            (Inactive, 0, None, 0.0, Normal),
            (Inactive, 0, Some(1.3), 0.0, Interfered),
        ] {
            let reading = reading(idle_s, ratio, load);
            assert_eq!(
                shown(before, reading, &rule),
                Some(expected),
                "{before:?} {reading:?}"
            );
        }
        // Too few executions say nothing.
        for before in [Normal, Overloaded, Interfered] {
            assert_eq!(shown(before, reading(59, None, 0.0), &rule), None);
        }
    }

    #[test]
    fn state_changes_after_the_dwell_time() {
        let rule = ServiceTimeRule::default();
        let mut machine = StateMachine::default();
        for (second, idle_s, ratio, before, state) in [
            (0, 0, 1.0, None, Normal),
            (1, 0, 2.0, None, Normal),
            (10, 0, 2.0, None, Normal),
            // One reading below the threshold begins the wait anew.
            (11, 0, 1.2, None, Normal),
            (12, 0, 2.0, None, Normal),
            (21, 0, 2.0, None, Normal),
            (22, 0, 2.0, Some(Normal), Interfered),
            (23, 0, 1.2, None, Interfered),
            (40, 0, 1.0, None, Interfered),
            (50, 0, 1.0, Some(Interfered), Normal),
            (200, 100, 1.0, Some(Normal), Inactive),
            (201, 0, 1.0, Some(Inactive), Normal),
        ] {
            let changed = machine.see(s(second), reading(idle_s, Some(ratio), 0.5), &rule);
            assert_eq!((changed, machine.state()), (before, state), "{second} s");
        }
    }

    proptest! {
        /// States other than inactive change at most once in each dwell time, whatever is measured.
        #[test]
        fn state_does_not_flap(
            readings in prop::collection::vec((0.5_f64..3.0, 0.0_f64..1.2), 1..300),
        ) {
            let rule = ServiceTimeRule::default();
            let mut machine = StateMachine::default();
            let mut changed_at = None;
            for (second, (ratio, load)) in (0..).zip(readings) {
                let reading = reading(0, Some(ratio), load);
                if machine.see(s(second), reading, &rule).is_some() {
                    let before = changed_at.replace(second);
                    prop_assert!(before.is_none_or(|before| second - before >= rule.dwell.as_secs()));
                }
            }
        }
    }
}
