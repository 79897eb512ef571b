//! A variant as written: what there is of it, how fast it is, and what runs it.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::amount::RawAmount;
use super::profile::RawReference;
use crate::service::{RetuneMethod, WorkloadKind};

/// A variant of the model, and what runs it.
#[derive(Debug, Clone, KubeSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.latency) != has(self.profile)").message("exactly one of the two: latency (its law) or profile (where that is)"),
    validation = Rule::new("!has(self.profile) || !has(self.capacity)").message("capacity is the profile's, where there is one"),
    validation = Rule::new("!has(self.resize) || !has(self.workload)").message("at most one of the two: resize (an address) or workload (of this cluster)")
)]
pub struct RawVariant {
    /// Public name: a-z, 0-9, single dashes; no other has it.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The Envoy cluster that serves it, as the proxies name it.
    #[schemars(length(min = 1, max = 256))]
    pub cluster: String,
    /// Percent.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub accuracy: f64,
    /// Whole cores of each replica.
    pub cores: RawCores,
    /// How many instances, each with `cores`.
    #[serde(default)]
    pub replicas: RawReplicas,
    /// What each replica holds as long as it is there, whatever its cores; each of it bounded by budget.held.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4))]
    pub holds: BTreeMap<String, RawAmount>,
    /// What it sustains within the SLO, where that was measured; needed with policy infadapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RawCapacity>,
    /// ms for a batch b on c cores: gamma·b/c + epsilon/c + delta·b + eta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<RawLatency>,
    /// Where latency and capacity are, or the measurements that they follow from, instead of standing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<RawReference>,
    /// From loading to the first answer.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub readiness_s: f64,
    /// Requests that the server executes together; the greatest where the policy chooses.
    #[serde(default = "batch")]
    #[schemars(range(min = 1, max = 1024))]
    pub batch: u32,
    /// Time for which the server waits for a batch to fill, in ms: it makes batches of what is there by itself, so
    /// none is made before it. Left out where it executes at once what comes together.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub batch_delay_ms: f64,
    /// Whether the server stops executing what its client or a timeout has abandoned.
    #[serde(default)]
    pub cancels: bool,
    /// Where its cores are read and changed over HTTP: GET and PUT {"cores": 4}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<String>,
    /// Whether its servers are told there the greatest batch that they are to make: PUT {"batch": 4}.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tell_batch: bool,
    /// The Deployment or StatefulSet whose pods run it and are resized in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<RawWorkload>,
}

/// A workload of the service's namespace.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawWorkload {
    /// Deployment (default) or StatefulSet.
    #[serde(default)]
    pub kind: WorkloadKind,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The container that is the model server; may be left out where the template has but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// A request to each pod whose cores have changed, so that its server uses them, or that is to make other batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retune: Option<RawRetune>,
}

/// A request to a pod's server; {cores}, {millicores} and {batch}, the greatest that it is to make, in path and body are
/// replaced.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawRetune {
    /// Where the server listens.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Such as /v2/repository/models/resnet/load.
    #[schemars(length(max = 1024))]
    pub path: String,
    /// POST (default) or PUT.
    #[serde(default)]
    pub method: RetuneMethod,
    /// Such as {"threads": {cores}}.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub body: String,
}

/// Whole cores of a replica.
#[derive(Debug, Clone, Copy, KubeSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.initial >= self.least").message("initial must be at least least"),
    validation = Rule::new("!has(self.greatest) || self.initial <= self.greatest").message("initial must be at most greatest")
)]
pub struct RawCores {
    /// What it has until its backend says otherwise.
    #[schemars(range(max = 1024))]
    pub initial: u32,
    /// Kept without any share; 0 unloads it.
    #[serde(default = "least")]
    #[schemars(range(max = 1024))]
    pub least: u32,
    /// Most of them; the budget if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub greatest: Option<u32>,
}

/// How many replicas.
#[derive(Debug, Clone, Copy, KubeSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.initial >= self.least").message("initial must be at least least"),
    validation = Rule::new("!has(self.greatest) || self.initial <= self.greatest").message("initial must be at most greatest")
)]
pub struct RawReplicas {
    /// What there are until the backend says otherwise.
    #[schemars(range(max = 1000))]
    pub initial: u32,
    /// Kept without any share; 0 unloads the variant.
    #[serde(default = "least")]
    #[schemars(range(max = 1000))]
    pub least: u32,
    /// Most of them; initial if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub greatest: Option<u32>,
}

/// Sustained requests/s = slope × cores + intercept.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawCapacity {
    /// Requests/s for each core.
    pub slope_rps: f64,
    /// Requests/s at no cores; mostly negative.
    pub intercept_rps: f64,
    /// The part of it that is planned with.
    #[serde(default = "utilisation")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub utilisation: f64,
}

/// ms for a batch b on c cores: gamma·b/c + epsilon/c + delta·b + eta (Sponge, Eq. 2).
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawLatency {
    /// γ: per request, shrinks with cores.
    #[schemars(range(min = 0.0))]
    pub gamma_ms: f64,
    /// ε: per batch, shrinks with cores.
    #[schemars(range(min = 0.0))]
    pub epsilon_ms: f64,
    /// δ: per request, cores do not help.
    #[schemars(range(min = 0.0))]
    pub delta_ms: f64,
    /// η: per batch, cores do not help.
    #[schemars(range(min = 0.0))]
    pub eta_ms: f64,
    /// Batches at once: per-core, or a number that divide the cores.
    pub parallelism: RawParallelism,
    /// The high percentile over that law.
    #[serde(default = "tail")]
    #[schemars(range(min = 1.0, max = 100.0))]
    pub tail: f64,
}

/// Batches executed at once.
#[derive(Debug, Clone, Copy)]
pub enum RawParallelism {
    /// One on each core.
    PerCore,
    /// So many, which divide the cores.
    Fixed(u32),
}

impl Default for RawReplicas {
    fn default() -> Self {
        RawReplicas {
            initial: 1,
            least: 1,
            greatest: None,
        }
    }
}

impl Serialize for RawParallelism {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            RawParallelism::PerCore => to.serialize_str("per-core"),
            RawParallelism::Fixed(batches) => to.serialize_u32(*batches),
        }
    }
}

/// Kubernetes' only union of the two.
impl JsonSchema for RawParallelism {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Parallelism".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

impl<'de> Deserialize<'de> for RawParallelism {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = RawParallelism;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("per-core or the number of batches executed at once")
            }
            fn visit_u64<E: Error>(self, batches: u64) -> Result<Self::Value, E> {
                let batches = u32::try_from(batches).unwrap_or(u32::MAX);
                Ok(RawParallelism::Fixed(batches))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match (text, text.parse()) {
                    ("per-core", _) => Ok(RawParallelism::PerCore),
                    (_, Ok(batches)) => Ok(RawParallelism::Fixed(batches)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        from.deserialize_any(Either)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

const fn batch() -> u32 {
    1
}

const fn least() -> u32 {
    1
}

/// InfAdapter's published code plans with 0.8 of the fit.
pub(super) const fn utilisation() -> f64 {
    0.8
}

/// The law as given.
pub(super) const fn tail() -> f64 {
    1.0
}
