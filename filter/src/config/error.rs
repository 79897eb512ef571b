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
    #[error("plugin configuration: plan: {0}")]
    Plan(#[from] PlanError),
    #[error(
        "plugin configuration: it needs a `planner` (cluster, key), a static `plan` (variants), or both"
    )]
    NoPlan,
    #[error("plugin configuration: on_stale: 'static' needs a static `plan`")]
    NothingStatic,
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
