//! Knowledge of an earlier planner, with which the next one begins.

use std::time::Duration;

use super::{History, Learnt};

/// Knowledge of an earlier planner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Past {
    /// Rates that it measured, and the time since their end.
    pub history: Option<(History, Duration)>,
    /// Numbers that its forecasters learned, and the time since.
    pub learnt: Option<(Learnt, Duration)>,
}
