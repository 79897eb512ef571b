//! A variant's profile by reference, and as it is written where the reference leads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::variant::{RawCapacity, RawLatency, RawParallelism, tail, utilisation};

/// Where a profile is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawReference {
    /// A ConfigMap of the resource's namespace. Of a resource alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub config_map: Option<String>,
    /// Its key.
    #[serde(default = "key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// A file, relative to the service file. Of the file alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub file: Option<String>,
    /// Whether what is there stands in the variant now.
    #[serde(skip)]
    pub(crate) read: bool,
}

impl RawReference {
    /// Where it leads.
    pub(crate) fn label(&self) -> String {
        match (&self.config_map, &self.file) {
            (Some(map), _) => format!("ConfigMap {map}, key {}", self.key),
            (None, file) => format!("file {}", file.as_deref().unwrap_or_default()),
        }
    }
}

/// A profile: laws as in a variant, or measurements that they are fitted to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawProfile {
    /// The latency law, or `measured.latencies`.
    #[serde(default)]
    pub(crate) latency: Option<RawLatency>,
    /// The sustained rate, or `measured.rates`.
    #[serde(default)]
    pub(crate) capacity: Option<RawCapacity>,
    /// What was measured.
    #[serde(default)]
    pub(crate) measured: Option<RawMeasured>,
    /// From loading to the first answer; the variant's own if left out.
    #[serde(default)]
    pub(crate) readiness_s: Option<f64>,
}

/// Measurements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMeasured {
    /// Batches at once.
    pub(crate) parallelism: RawParallelism,
    /// The high percentile over the law.
    #[serde(default = "tail")]
    pub(crate) tail: f64,
    /// Mean latencies of one batch alone on the cores it has.
    #[serde(default)]
    pub(crate) latencies: Vec<RawCell>,
    /// Rates sustained within the SLO.
    #[serde(default)]
    pub(crate) rates: Vec<RawRate>,
    /// The part of the fitted rate that is planned with.
    #[serde(default = "utilisation")]
    pub(crate) utilisation: f64,
}

/// One measured latency.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCell {
    /// Cores that the batch had to itself.
    pub(crate) cores: f64,
    /// Requests in it.
    pub(crate) batch: u32,
    /// Their mean latency.
    pub(crate) ms: f64,
}

/// One measured rate.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRate {
    /// Cores of the replica.
    pub(crate) cores: f64,
    /// Requests/s.
    pub(crate) rps: f64,
}

fn key() -> String {
    "profile.yaml".to_owned()
}
