//! Request classes as written; the filter defines their meaning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawClass {
    /// Unique name, matched against the header x-slo-class: a-z, 0-9 and single dashes.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Minimum fraction of the slots that the class gets while it has enough requests. The shares of one
    /// priority add up to at most 1.
    #[schemars(range(min = 0.001, max = 1.0))]
    pub share: f64,
    /// Priority; classes with higher numbers are served first.
    #[serde(default)]
    pub priority: u8,
    /// Maximum number of its requests that a worker holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_requests: Option<u32>,
    /// Whether answers to this class stream on every path: their deadline is for the first byte.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streams: bool,
    /// Requirement on requests of this class. Without one, every client may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<RawClaim>,
}

/// Requirement on requests of a class: a request header or an Envoy property that has one of these values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawClaim {
    /// Name of a request header, in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub header: Option<String>,
    /// Path of an Envoy property, in its parts; instead of header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8))]
    pub property: Option<Vec<String>>,
    /// Allowed values; one that ends with * is a prefix.
    #[schemars(length(min = 1, max = 32))]
    pub values: Vec<String>,
}
