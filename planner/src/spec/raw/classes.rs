//! Classes as written; what they mean is the filter's to say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A class of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawClass {
    /// What x-slo-class asks for: a-z, 0-9, single dashes; no other has it.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// What it has of the slots at least while it has enough to do; those of one priority have 1 together at most.
    #[schemars(range(min = 0.001, max = 1.0))]
    pub share: f64,
    /// The greater goes first.
    #[serde(default)]
    pub priority: u8,
    /// Most requests of it that a worker holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub held_max: Option<u32>,
    /// Who may ask for it; everybody if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<RawClaim>,
}

/// What proves that a request may be of a class: a header, or a property of Envoy's, that has one of these values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawClaim {
    /// A header's name in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub header: Option<String>,
    /// Instead: the parts of a property's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8))]
    pub property: Option<Vec<String>>,
    /// With a * at the end: those that begin so.
    #[schemars(length(min = 1, max = 32))]
    pub values: Vec<String>,
}
