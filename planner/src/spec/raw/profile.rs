//! References to a variant's profile, and the profile as written in the referenced file or ConfigMap.

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::duration::RawDuration;
use super::variant::{RawCapacity, RawLatency, RawParallelism, is_false, tail, utilisation};

/// Location of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawReference {
    /// ConfigMap in the resource's namespace. Resource only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub config_map: Option<String>,
    /// Key in the ConfigMap.
    #[serde(default = "key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// File, relative to the service file. Service file only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub file: Option<String>,
    /// Whether the variant may get cores and batches beyond those that the profile was measured on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub extrapolate: bool,
    /// Whether the profile has been read into the variant.
    #[serde(skip)]
    pub(crate) read: bool,
    /// Batch of the profile that has been read.
    #[serde(skip)]
    pub(crate) batch: Option<u32>,
}

impl RawReference {
    /// Returns the location for messages.
    pub(crate) fn label(&self) -> String {
        match (&self.config_map, &self.file) {
            (Some(map), _) => format!("ConfigMap {map}, key {}", self.key),
            (None, file) => format!("file {}", file.as_deref().unwrap_or_default()),
        }
    }
}

/// A profile: laws as in a variant, or measurements that they are fitted to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawProfile {
    /// Latency model; alternative to `measured.latencies`.
    #[serde(default)]
    pub(crate) latency: Option<RawLatency>,
    /// Sustained rate; alternative to `measured.rates`.
    #[serde(default)]
    pub(crate) capacity: Option<RawCapacity>,
    /// Measurements to fit.
    #[serde(default)]
    pub(crate) measured: Option<RawMeasured>,
    /// Time from loading to the first response. Defaults to the variant's own.
    #[serde(default)]
    pub(crate) readiness: Option<RawDuration>,
    /// Accuracy in percent, for a variant that names none.
    #[serde(default)]
    pub(crate) accuracy: Option<f64>,
    /// Number of requests that the server executes together, for a variant that does not say.
    #[serde(default)]
    pub(crate) batch: Option<u32>,
    /// Batch window of the server, for a variant that does not say.
    #[serde(default)]
    pub(crate) batch_delay: Option<RawDuration>,
    /// Cores and batches that were measured; a variant beyond them is refused unless its reference extrapolates.
    #[serde(default)]
    pub(crate) range: Option<RawRange>,
    /// Origin of the numbers, for people: `weir profile` writes date, host and measurements.
    #[serde(default, rename = "origin")]
    _origin: IgnoredAny,
}

/// Cores and batches that a profile was measured on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawRange {
    /// Cores of a server.
    pub cores: RawBounds<f64>,
    /// Requests in one batch.
    pub batch: RawBounds<u32>,
}

/// Smallest and largest value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawBounds<T> {
    /// Smallest value.
    pub min: T,
    /// Largest value.
    pub max: T,
}

impl RawRange {
    /// Range of one point.
    pub fn of(cores: f64, batch: u32) -> RawRange {
        RawRange {
            cores: RawBounds {
                min: cores,
                max: cores,
            },
            batch: RawBounds {
                min: batch,
                max: batch,
            },
        }
    }
}

/// Measurements of a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawMeasured {
    /// Batches executed at the same time.
    pub(crate) parallelism: RawParallelism,
    /// Ratio of a high latency percentile to the latency model.
    #[serde(default = "tail")]
    pub(crate) tail: f64,
    /// Mean latencies of one batch that has its cores to itself.
    #[serde(default)]
    pub(crate) latencies: Vec<RawCell>,
    /// Rates sustained within the SLO.
    #[serde(default)]
    pub(crate) rates: Vec<RawRate>,
    /// Fraction of the fitted rate that is planned with.
    #[serde(default = "utilisation")]
    pub(crate) utilisation: f64,
}

/// One measured latency.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawCell {
    /// Cores that the batch had to itself.
    pub(crate) cores: f64,
    /// Requests in the batch.
    pub(crate) batch: u32,
    /// Mean latency in ms.
    pub(crate) ms: f64,
}

/// One measured rate.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawRate {
    /// Cores of the replica.
    pub(crate) cores: f64,
    /// Sustained rate in requests/s.
    pub(crate) rps: f64,
}

fn key() -> String {
    "profile.yaml".to_owned()
}
