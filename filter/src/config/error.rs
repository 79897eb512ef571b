//! Errors of the plugin configuration.

use std::borrow::Cow;

use weir_api::json;
use weir_api::plan::PlanError;

/// Reason why a plugin configuration is invalid.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ConfigError {
    #[error("plugin configuration: {0}")]
    Shape(#[from] json::Misread),
    #[error("plugin configuration: {path}: {value} must be {right}")]
    Value {
        path: Cow<'static, str>,
        value: String,
        right: String,
    },
    #[error("plugin configuration: {path}: {error}")]
    Plan { path: String, error: PlanError },
}

impl ConfigError {
    /// The same error in the part of a configuration that has this path.
    pub(super) fn within(self, part: &str) -> ConfigError {
        match self {
            ConfigError::Shape(mut misread) => {
                misread.path = format!("{part}.{}", misread.path);
                ConfigError::Shape(misread)
            }
            ConfigError::Value { path, value, right } => {
                wrong(format!("{part}.{path}"), value, right)
            }
            ConfigError::Plan { path, error } => ConfigError::Plan {
                path: format!("{part}.{path}"),
                error,
            },
        }
    }
}

pub(super) fn wrong(
    path: impl Into<Cow<'static, str>>,
    value: impl ToString,
    right: impl Into<String>,
) -> ConfigError {
    ConfigError::Value {
        path: path.into(),
        value: value.to_string(),
        right: right.into(),
    }
}
