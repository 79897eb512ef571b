//! Plugin configuration → checked [`Config`]. Unknown or missing keys and values out of range are
//! refused with the key's path; what gets through is true from then on.

use serde::Deserialize;
use weir_api::plan::PlanError;
use weir_api::{Plan, json};

use crate::board::Scope;
use crate::deadline;

mod raw;

/// Most requests one worker may be told to hold.
pub const HELD_MAX: u32 = 100_000;
/// Longest shared key.
pub const KEY_MAX: usize = 256;

/// What the filter was told, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The service whose plans it obeys.
    pub service: String,
    /// What clients may say of their deadlines.
    pub deadline: deadline::Policy,
    /// Most requests a worker holds.
    pub held_max: usize,
    /// Who queues together.
    pub scope: Scope,
    /// Where plans come from.
    pub planner: Option<Planner>,
    /// The plan to go by until a planner has spoken.
    pub static_plan: Option<Plan>,
    /// What holds when the last plan is too old, or there is none.
    pub on_stale: OnStale,
}

/// Where plans come from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planner {
    /// The Envoy cluster of the planner.
    pub cluster: String,
    /// The `:authority` of the poll.
    #[serde(default = "raw::authority")]
    pub authority: String,
    /// The shared key.
    pub key: String,
}

/// What holds when the last plan is older than it says it may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStale {
    /// Go on by the last plan; by Envoy's own routes where there never was one.
    #[default]
    Keep,
    /// Go by the static plan.
    Static,
    /// Refuse every request with `no-plan`.
    Refuse,
}

/// Why a plugin configuration is none.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ConfigError {
    #[error("plugin configuration: {0}")]
    Shape(#[from] json::Misread),
    #[error("plugin configuration: {path}: {value} must be {right}")]
    Value {
        path: &'static str,
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

impl Config {
    /// Reads the plugin configuration, which Envoy hands over as JSON.
    ///
    /// # Errors
    /// The first thing wrong, with its path and what would be right.
    pub fn parse(json: &[u8]) -> Result<Config, ConfigError> {
        let raw: raw::RawConfig = json::read(json)?;
        raw.check()
    }
}

#[cfg(test)]
mod tests;
