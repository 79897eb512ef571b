//! Reasons why the console refuses a text.

use weir_planner::service::ConfigError;
use weir_planner::solve::InputError;
use weir_replay::scenario::FieldError;

/// Reason, with the field, the value and what would be right.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ConsoleError {
    #[error("{path}: {value}; it must be {right}")]
    Value {
        path: String,
        value: String,
        right: String,
    },
    #[error("{what}: {message}")]
    Text { what: &'static str, message: String },
    #[error("{0}")]
    Problem(#[from] InputError),
    #[error("{0}")]
    Service(#[from] ConfigError),
    #[error("{0}")]
    Scenario(#[from] FieldError),
    #[error("{0}")]
    Replay(String),
    #[error("chart: {0}")]
    Chart(String),
}

impl ConsoleError {
    /// Creates the refusal of a value.
    pub(crate) fn value(
        path: impl Into<String>,
        value: impl std::fmt::Display,
        right: impl Into<String>,
    ) -> ConsoleError {
        ConsoleError::Value {
            path: path.into(),
            value: value.to_string(),
            right: right.into(),
        }
    }
}
