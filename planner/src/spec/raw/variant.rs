//! A variant as written: its accuracy, its profile and its servers.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::amount::RawAmount;
use super::duration::RawDuration;
use super::profile::RawReference;
use super::rules::{in_range, rules};
use crate::profile::UTILISATION;
use crate::quantity::cpu::RawCpu;
use crate::service::{ReconfigureMethod, WorkloadKind};
use crate::solve::latency_model::{LatencyModel, Line, Parallelism};

/// A variant of the model, with its servers.
#[derive(Debug, Clone, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("!has(self.latency) || !has(self.profile)", "at most one of the two: latency (its model) or profile (where that is)"),
    ("!has(self.capacity) || has(self.latency)", "capacity goes with latency; a profile has its own, and without either it is measured in production"),
    ("has(self.cores) || !(has(self.latency) || has(self.profile))", "cores, where there is a latency or a profile: these are by cores"),
    ("!has(self.grpcCluster) || self.grpcCluster != self.cluster", "another grpcCluster than cluster, or none"),
    ("!has(self.model) || !(self.model in ['.', '..'])", "a model's name that is no step to another folder"),
    ("!has(self.resize) || !has(self.workload)", "at most one of the two: resize (an address) or workload (of this cluster)"),
])))]
pub struct RawVariant {
    /// Unique public name: a-z, 0-9 and single dashes.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Name of the Envoy cluster that serves this variant, as in the proxies' configuration.
    #[schemars(length(min = 1, max = 256))]
    pub cluster: String,
    /// Name of the Envoy cluster of the same servers' gRPC port: gRPC requests go there. The requests of both ports share
    /// the variant's slots. Defaults to cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub grpc_cluster: Option<String>,
    /// Name that the variant's servers give the model, such as resnet18. It replaces the client's in a path such as
    /// /v2/models/digits/infer or /v1/models/digits:predict, and in the messages of the Open Inference Protocol over gRPC.
    /// Defaults to the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9._~-]+$"))]
    pub model: Option<String>,
    /// Path at which the variant's servers take requests, such as /small: it replaces the path of a request, but for its
    /// query. gRPC and bypassed requests keep theirs. Defaults to the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^/[!-~]*$"))]
    pub path: Option<String>,
    /// Accuracy in percent. Defaults to the profile's. With policy infadapter all variants may leave it out: none is
    /// preferred then, and a request that demands a minimum is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub accuracy: Option<f64>,
    /// Cores of each replica. A variant without latency and profile may leave them out: nobody resizes it, and it counts
    /// as one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<RawCores>,
    /// Number of replicas, each with these cores.
    #[serde(default)]
    pub replicas: RawReplicas,
    /// Other resources that each replica uses as long as it exists, whatever its cores, by Kubernetes name
    /// (memory, nvidia.com/gpu). Each must be limited in budget.resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4))]
    pub resources: BTreeMap<String, RawAmount>,
    /// Price of a core of this variant's replicas, with the hardware that comes with it, in any currency for any time: a
    /// GPU instance of 8 cores at 3.06 an hour has 0.3825. Only with policy infaas, which plans for the lowest price.
    /// Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.000001, max = 1000000.0))]
    pub price: Option<f64>,
    /// Measured rate that the variant sustains within the SLO. Defaults to what follows from latency and parallelism, of
    /// which policy infadapter plans with 0.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RawCapacity>,
    /// Latency model: ms for a batch b on c cores = gamma·b/c + epsilon/c + delta·b + eta. In mode advisory with policy
    /// infadapter it may be left out, as the profile: times and rate are measured in production then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<RawLatency>,
    /// Reference to a profile with latency and capacity, or with measurements that they are fitted to;
    /// instead of latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<RawReference>,
    /// Time from loading to the first response.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = in_range("0s", "1h")))]
    pub readiness: RawDuration,
    /// Override that hardly anybody needs: number of requests that the server executes together; the maximum if the policy
    /// chooses the batch size. Defaults to the largest batch of the profile that meets latencyBudget on cores.max, and to
    /// 1 without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub batch: Option<u32>,
    /// Override, as batch. Batch window of the server: time for which it waits for a batch to fill. Set it for servers
    /// that form batches by themselves; the proxies then form none. Leave it out for servers that execute
    /// at once the requests that arrive together. Defaults to the profile's.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("x-kubernetes-validations" = in_range("0s", "1s")))]
    pub batch_delay: RawDuration,
    /// Whether the server stops executing requests that were cancelled or timed out.
    #[serde(default)]
    pub cancels: bool,
    /// Address at which cores are read and changed over HTTP, with GET and PUT {"cores": 4}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<String>,
    /// Control group whose CPU quota is the cores, by its name below /sys/fs/cgroup, such as
    /// system.slice/mlserver.service. The planner runs on the same host. Service file only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub cgroup: Option<String>,
    /// Unit of systemd whose CPU quota is the cores, such as mlserver.service; short for its control group below
    /// system.slice. Service file only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub systemd: Option<String>,
    /// Whether the maximum batch size is sent to the resize address as well, with PUT {"batch": 4}.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tell_batch: bool,
    /// Deployment or StatefulSet whose pods run this variant and are resized in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<RawWorkload>,
}

/// A Kubernetes workload in the service's namespace.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawWorkload {
    /// Deployment (default) or StatefulSet.
    #[serde(default)]
    pub kind: WorkloadKind,
    /// Name of the workload.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Container of the model server. Not needed if the pod template has only one container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// HTTP request that reconfigures the server of a pod after its cores or its batch size changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconfigure: Option<RawReconfigure>,
}

/// Reconfigure request to the server of a pod. In path and body, {cores}, {millicores} and {batch} (the
/// maximum batch size) are replaced by their values.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawReconfigure {
    /// Port that the server listens on.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Path of the request, such as /v2/repository/models/resnet/load.
    #[schemars(length(max = 1024))]
    pub path: String,
    /// POST (default) or PUT.
    #[serde(default)]
    pub method: ReconfigureMethod,
    /// Body of the request, such as {"threads": {cores}}.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub body: String,
}

/// Cores of a replica, multiples of budget.step.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("self.initial >= self.min", "initial must be at least min"),
    ("!has(self.max) || self.initial <= self.max", "initial must be at most max"),
])))]
pub struct RawCores {
    /// Cores assumed until the backend reports the actual ones.
    #[schemars(range(max = 1024))]
    pub initial: RawCpu,
    /// Minimum, kept without any share of the traffic. 0 unloads the variant.
    #[serde(default = "min_cores")]
    #[schemars(range(max = 1024))]
    pub min: RawCpu,
    /// Maximum. Defaults to the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 1024))]
    pub max: Option<RawCpu>,
}

/// Number of replicas.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("self.initial >= self.min", "initial must be at least min"),
    ("!has(self.max) || self.initial <= self.max", "initial must be at most max"),
])))]
pub struct RawReplicas {
    /// Replicas assumed until the backend reports the actual ones.
    #[schemars(range(max = 1000))]
    pub initial: u32,
    /// Minimum, kept without any share of the traffic. 0 unloads the variant.
    #[serde(default = "min")]
    #[schemars(range(max = 1000))]
    pub min: u32,
    /// Maximum. Defaults to initial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max: Option<u32>,
}

/// Sustained requests/s = slope × cores + intercept.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawCapacity {
    /// Requests/s for each core.
    pub slope_rps: f64,
    /// Requests/s at zero cores; usually negative.
    pub intercept_rps: f64,
    /// Fraction of the sustained rate that is planned with.
    #[serde(default = "utilisation")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub utilisation: f64,
}

/// Latency model. Either the mean ms of a batch, for a server whose cores nobody changes, or ms for a batch b on c
/// cores = gamma·b/c + epsilon/c + delta·b + eta (Sponge, Eq. 2), where a coefficient that is left out is 0.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("has(self.meanMs) != (has(self.gammaMs) || has(self.epsilonMs) || has(self.deltaMs) || has(self.etaMs))",
     "either meanMs or coefficients of the model"),
])))]
pub struct RawLatency {
    /// Mean ms of a batch of any size on any number of cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub mean_ms: Option<f64>,
    /// γ: ms per request, divided by the cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub gamma_ms: Option<f64>,
    /// ε: ms per batch, divided by the cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub epsilon_ms: Option<f64>,
    /// δ: ms per request, independent of the cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub delta_ms: Option<f64>,
    /// η: ms per batch, independent of the cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub eta_ms: Option<f64>,
    /// Batches executed at the same time: per-core, or a number that the cores are divided among.
    #[serde(default)]
    pub parallelism: RawParallelism,
    /// Ratio of a high latency percentile to this model.
    #[serde(default = "tail")]
    #[schemars(range(min = 1.0, max = 100.0))]
    pub tail: f64,
}

impl RawCapacity {
    /// Capacity on that line, planned with to the default part.
    pub fn new(line: &Line) -> RawCapacity {
        RawCapacity {
            slope_rps: line.slope_rps,
            intercept_rps: line.intercept_rps,
            utilisation: utilisation(),
        }
    }
}

impl RawLatency {
    /// Latency of that model: its mean alone if that is the same for all batches and cores.
    pub fn new(model: &LatencyModel, parallelism: RawParallelism, tail: f64) -> RawLatency {
        let is_constant = *model == LatencyModel::constant(model.eta_ms);
        let coefficient = |ms: f64| (!is_constant).then_some(ms);
        RawLatency {
            mean_ms: is_constant.then_some(model.eta_ms),
            gamma_ms: coefficient(model.gamma_ms),
            epsilon_ms: coefficient(model.epsilon_ms),
            delta_ms: coefficient(model.delta_ms),
            eta_ms: coefficient(model.eta_ms),
            parallelism,
            tail,
        }
    }
}

/// Batches executed at the same time.
#[derive(Debug, Clone, Copy)]
pub enum RawParallelism {
    /// One batch on each core.
    PerCore,
    /// A fixed number of batches, which divide the cores among them.
    Fixed(u32),
}

impl Default for RawReplicas {
    fn default() -> Self {
        RawReplicas {
            initial: 1,
            min: 1,
            max: None,
        }
    }
}

/// One batch at a time, on all cores.
impl Default for RawParallelism {
    fn default() -> RawParallelism {
        RawParallelism::Fixed(1)
    }
}

impl From<Parallelism> for RawParallelism {
    fn from(parallelism: Parallelism) -> RawParallelism {
        match parallelism {
            Parallelism::PerCore => RawParallelism::PerCore,
            Parallelism::Fixed(at_once) => RawParallelism::Fixed(at_once.get()),
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

/// The only union of number and string that a structural schema allows.
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
pub(super) fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(value: &RawDuration) -> bool {
    value.0.is_zero()
}

const fn min() -> u32 {
    1
}

const fn min_cores() -> RawCpu {
    RawCpu::whole(1)
}

pub(super) const fn utilisation() -> f64 {
    UTILISATION
}

/// No surcharge on the latency model.
pub(super) const fn tail() -> f64 {
    1.0
}
