//! Mode of a service while it runs: advisory, active, or paused. The service's own mode is its begin.

use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::service::Mode;

/// Mode of a running service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunMode {
    /// Observes, solves, publishes shares for the actual cores and exports the target cores; changes none.
    Advisory,
    /// Changes the cores too.
    Active,
    /// Runs no cycles: cores and plan stay as they are, and the plan is renewed before proxies find it too old.
    Paused,
}

impl From<Mode> for RunMode {
    fn from(mode: Mode) -> RunMode {
        match mode {
            Mode::Advisory => RunMode::Advisory,
            Mode::Active => RunMode::Active,
        }
    }
}

impl RunMode {
    /// Returns the mode of a cycle; `None` if there is none.
    pub fn of_cycles(self) -> Option<Mode> {
        match self {
            RunMode::Advisory => Some(Mode::Advisory),
            RunMode::Active => Some(Mode::Active),
            RunMode::Paused => None,
        }
    }
}

/// Mode of a service, which its control loop follows.
#[derive(Debug)]
pub struct ModeSwitch(Mutex<ModeState>);

/// Mode, and the number of its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeState {
    /// The mode.
    pub mode: RunMode,
    /// Number of changes so far.
    pub version: u64,
    /// Whether it may be changed here.
    pub changeable: bool,
}

/// Reason why a mode was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ModeError {
    #[error("mode: it follows the service's resource; change `spec.mode` of the SloService")]
    Fixed,
    #[error("mode: it was changed in the meantime; read it again")]
    Stale,
}

impl ModeSwitch {
    /// Creates the switch of a service whose mode follows its resource.
    pub fn fixed(mode: Mode) -> ModeSwitch {
        ModeSwitch(Mutex::new(ModeState {
            mode: mode.into(),
            version: 0,
            changeable: false,
        }))
    }

    /// Creates the switch of a changed service that follows `before`. A mode that was set stays, unless the service's own
    /// is another now.
    #[must_use]
    pub fn following(before: (&ModeSwitch, Mode), mode: Mode) -> ModeSwitch {
        let (switch, configured) = before;
        let state = switch.current();
        ModeSwitch(Mutex::new(ModeState {
            mode: match configured == mode {
                true => state.mode,
                false => mode.into(),
            },
            version: state.version + 1,
            changeable: state.changeable,
        }))
    }

    /// Lets the mode be changed.
    pub fn allow_changes(&self) {
        self.state().changeable = true;
    }

    /// Returns the mode and its version.
    pub fn current(&self) -> ModeState {
        *self.state()
    }

    /// Changes the mode, if it is still one that `is_expected`.
    ///
    /// # Errors
    /// Fails if the mode may not be changed, or if it is not expected.
    pub fn set(
        &self,
        mode: RunMode,
        is_expected: impl FnOnce(ModeState) -> bool,
    ) -> Result<ModeState, ModeError> {
        let mut state = self.state();
        if !state.changeable {
            return Err(ModeError::Fixed);
        }
        if !is_expected(*state) {
            return Err(ModeError::Stale);
        }
        if state.mode != mode {
            state.mode = mode;
            state.version += 1;
        }
        Ok(*state)
    }

    fn state(&self) -> MutexGuard<'_, ModeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_changed_if_allowed_and_expected() {
        let switch = ModeSwitch::fixed(Mode::Active);
        let set = |mode, version| switch.set(mode, |state| state.version == version);
        assert_eq!(set(RunMode::Paused, 0), Err(ModeError::Fixed));
        switch.allow_changes();
        assert_eq!(set(RunMode::Paused, 1), Err(ModeError::Stale));
        assert_eq!(switch.current().mode, RunMode::Active);
        assert_eq!(set(RunMode::Paused, 0).unwrap().version, 1);
        assert_eq!(set(RunMode::Paused, 1).unwrap().version, 1, "no change");
        assert_eq!(set(RunMode::Advisory, 0), Err(ModeError::Stale));
        assert_eq!(set(RunMode::Advisory, 1).unwrap().version, 2);
        assert_eq!(switch.current().mode.of_cycles(), Some(Mode::Advisory));
        // A changed service keeps it, unless its own mode is another.
        for (own, mode) in [
            (Mode::Active, RunMode::Advisory),
            (Mode::Advisory, RunMode::Advisory),
        ] {
            let next = ModeSwitch::following((&switch, Mode::Active), own);
            let expected = ModeState {
                mode,
                version: 3,
                changeable: true,
            };
            assert_eq!(next.current(), expected);
        }
        switch.set(RunMode::Paused, |_| true).unwrap();
        let next = ModeSwitch::following((&switch, Mode::Active), Mode::Advisory);
        assert_eq!(next.current().mode, RunMode::Advisory);
        let next = ModeSwitch::following((&switch, Mode::Active), Mode::Active);
        assert_eq!(next.current().mode, RunMode::Paused);
    }
}
