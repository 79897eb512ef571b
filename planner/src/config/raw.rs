//! A service as written, in its file or as the spec of the custom resource `SloService`: the shape and the
//! defaults, no rule about values. Its doc comments are the resource's documentation.

#![allow(
    unreachable_pub,
    reason = "the derives' own types are public wherever they are"
)]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::policy::{RawInfaas, RawIpa, RawPolicy, RawSponge, RawThemis};
use super::{CYCLE, ConfigError, Mode, PLAN_MAX_AGE, RESIZE_TIMEOUT, SCRAPE_TIMEOUT, SOLVER_LIMIT};
use crate::resource::SloServiceStatus;

/// A service of one or more stages that keeps a latency promise: what there is to run, with what, and what
/// a good plan is.
#[derive(Debug, Clone, CustomResource, KubeSchema, Serialize, Deserialize)]
#[kube(
    group = "weir.dev",
    version = "v1alpha1",
    kind = "SloService",
    doc = "A service that keeps a latency promise: its variants, what they may have, and what a good plan is.",
    namespaced,
    shortname = "slo",
    status = "SloServiceStatus",
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Policy", type_ = "string", json_path = ".spec.policy"),
    printcolumn(
        name = "Demand",
        type_ = "number",
        description = "requests/s planned for",
        json_path = ".status.demandRps"
    ),
    printcolumn(
        name = "Cores",
        type_ = "number",
        description = "in force, of all variants",
        json_path = ".status.cores"
    ),
    printcolumn(
        name = "Planned",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Planned')].status"
    ),
    printcolumn(
        name = "Actuated",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Actuated')].status"
    ),
    printcolumn(
        name = "Why",
        type_ = "string",
        priority = 1,
        json_path = ".status.why"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.variants) != has(self.stages)").message("exactly one of the two: variants (of a service) or stages (of a pipeline)"),
    validation = Rule::new("!has(self.stages) || self.policy in ['ipa', 'themis']").message("stages are for policy ipa and themis: the others know one stage"),
    validation = Rule::new("!has(self.sponge) || self.policy == 'sponge'").message("sponge is for policy sponge"),
    validation = Rule::new("!has(self.ipa) || self.policy == 'ipa'").message("ipa is for policy ipa"),
    validation = Rule::new("!has(self.infaas) || self.policy == 'infaas'").message("infaas is for policy infaas"),
    validation = Rule::new("!has(self.themis) || self.policy == 'themis'").message("themis is for policy themis")
)]
pub struct ServiceSpec {
    /// The name that the filters carry. A resource's is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub service: Option<String>,
    /// Where to answer. Of the file alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub listen: Option<String>,
    /// Environment variable with the proxies' shared key. Of the file alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub key_env: Option<String>,
    /// File with the proxies' shared key. Of the file alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub key_file: Option<String>,
    /// The promise in ms: from the client's sending to its receiving.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub slo_ms: u64,
    /// The part of it that one execution may take; the rest is the network's and the queue's.
    #[serde(default = "latency_budget")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub latency_budget: f64,
    /// What the stages after this service still need, in ms; less than slo_ms.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub rest_ms: f64,
    /// Observe, forecast, solve, actuate and publish this often, in ms.
    #[serde(default = "cycle_ms")]
    #[schemars(range(min = 100, max = 60_000))]
    pub cycle_ms: u64,
    /// Proxies go by a plan this long without a newer one, in ms; more than two cycles.
    #[serde(default = "plan_max_age_ms")]
    #[schemars(range(max = 3_600_000))]
    pub plan_max_age_ms: u64,
    /// advisory: change no cores, only say which it would give. active: change them.
    #[serde(default = "mode")]
    pub mode: Mode,
    /// Whose problem is solved each cycle.
    #[serde(default)]
    pub policy: RawPolicy,
    /// Of policy sponge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sponge: Option<RawSponge>,
    /// Of policy ipa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipa: Option<RawIpa>,
    /// Of policy infaas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infaas: Option<RawInfaas>,
    /// Of policy themis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub themis: Option<RawThemis>,
    /// What a good plan is, by policy infadapter.
    #[serde(default)]
    pub objective: RawObjective,
    /// What all variants may have together, at any moment.
    pub budget: RawBudget,
    /// How the demand is made of arrivals.
    #[serde(default)]
    pub demand: RawDemand,
    /// How long a solve may take.
    #[serde(default)]
    pub solver: RawSolver,
    /// The proxies that carry the filter.
    pub proxies: RawProxies,
    /// How long a change may take before the cycle goes on.
    #[serde(default)]
    pub resize: RawResize,
    /// What there is to choose from; of a pipeline, `stages` instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub variants: Option<Vec<RawVariant>>,
    /// A pipeline's, in the order of a request's way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub stages: Option<Vec<RawStage>>,
}

/// One stage of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawStage {
    /// The service that this stage's filters carry.
    pub name: String,
    /// What there is to choose from.
    #[schemars(length(min = 1, max = 64))]
    pub variants: Vec<RawVariant>,
}

/// alpha × mean accuracy − beta × part of the budget in use − gamma × longest loading, each term 0 to 1.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawObjective {
    /// Of the mean accuracy.
    pub alpha: f64,
    /// Of the part of the budget in use.
    pub beta: f64,
    /// Of the longest loading.
    pub gamma: f64,
    /// Cores that carry the demand stay while they are within this of the optimum.
    pub tolerance: f64,
}

/// What all variants may have together.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawBudget {
    /// Whole cores, never exceeded.
    #[schemars(range(min = 1, max = 65_536))]
    pub cores: u32,
}

/// headroom × the greater of the arrivals' exponential average and, over the last window, their greatest mean.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawDemand {
    /// Time constant of the average.
    pub smoothing_s: f64,
    /// How far back the greatest mean is looked for.
    pub window_s: f64,
    /// The span of these means.
    pub moving_s: f64,
    /// 1 or more.
    pub headroom: f64,
}

/// The solver's limit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawSolver {
    /// Less than cycle_ms.
    pub time_limit_ms: u64,
}

/// Where the proxies' statistics are: at addresses, or at pods.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawProxies {
    /// Of every Envoy that carries the filter: its Prometheus output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub stats: Vec<String>,
    /// Pods whose Envoys carry it. Of a resource alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<RawPods>,
    /// Longest scrape, less than cycle_ms.
    #[serde(default = "scrape_timeout_ms")]
    pub timeout_ms: u64,
}

/// Pods of the resource's namespace, or another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawPods {
    /// Those that have all these labels.
    pub labels: BTreeMap<String, String>,
    /// Where they are; the resource's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Where Envoy's statistics are; Istio's port if left out.
    #[serde(default = "stats_port")]
    pub port: u16,
    /// And under which path.
    #[serde(default = "stats_path")]
    pub path: String,
}

/// How long a change may take.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawResize {
    /// Less than cycle_ms.
    pub timeout_ms: u64,
}

/// A variant of the model, and what runs it.
#[derive(Debug, Clone, KubeSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[x_kube(
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
    /// What it sustains within the SLO, where that was measured; needed with policy infadapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RawCapacity>,
    /// ms for a batch b on c cores: gamma·b/c + epsilon/c + delta·b + eta.
    pub latency: RawLatency,
    /// From loading to the first answer.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub readiness_s: f64,
    /// Requests that the server executes together; the greatest where the policy chooses.
    #[serde(default = "batch")]
    #[schemars(range(min = 1, max = 1024))]
    pub batch: u32,
    /// Whether the server stops executing what its client or a timeout has abandoned.
    #[serde(default)]
    pub cancels: bool,
    /// Where its cores are read and changed over HTTP: GET and PUT {"cores": 4}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<String>,
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
    /// The container that is the model server; may be left out where pods have but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// What keeps the pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkloadKind {
    /// apps/v1 Deployment.
    #[default]
    Deployment,
    /// apps/v1 StatefulSet.
    StatefulSet,
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

impl ServiceSpec {
    /// Reads the shape.
    pub(super) fn from_yaml(text: &str) -> Result<ServiceSpec, ConfigError> {
        from_yaml(text, "service file")
    }
}

/// Reads any shape; `whole` is what the file is called where a refusal is about all of it.
pub(crate) fn from_yaml<T: DeserializeOwned>(text: &str, whole: &str) -> Result<T, ConfigError> {
    let mut options = serde_saphyr::options::Options::default();
    options.with_snippet = false;
    let mut at = None;
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            at = Some(error.path().to_string());
            error.into_inner()
        })
    });
    read.map_err(|error| {
        let path = at
            .filter(|path| path != ".")
            .unwrap_or_else(|| whole.to_owned());
        refusal(text, path, &error)
    })
}

/// The reader's complaint in our words: it names neither the value nor, in plain words, its type.
fn refusal(text: &str, path: String, error: &serde_saphyr::Error) -> ConfigError {
    let serde_saphyr::Error::InvalidScalar { ty, .. } = error else {
        return ConfigError::Form {
            path,
            message: error.to_string(),
        };
    };
    let right = match *ty {
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f32" | "f64" | "floating point" => "a number",
        other => other,
    };
    let value = error
        .location()
        .and_then(|place| written_at(text, place.line(), place.column()));
    ConfigError::Value {
        path,
        value: value.unwrap_or_default(),
        right: right.to_owned(),
    }
}

/// The scalar that begins there; line and column count from 1.
fn written_at(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text
        .lines()
        .nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let rest = line
        .chars()
        .skip(usize::try_from(column.checked_sub(1)?).ok()?);
    let scalar: String = rest
        .take_while(|c| !matches!(c, ',' | '}' | ']' | '#'))
        .take(80)
        .collect();
    Some(scalar.trim_end().to_owned())
}

impl Default for RawObjective {
    /// InfAdapter's published β (its middle one) and γ. 0.005 is half a point of accuracy.
    fn default() -> Self {
        RawObjective {
            alpha: 1.0,
            beta: 0.05,
            gamma: 0.001,
            tolerance: 0.005,
        }
    }
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

impl Default for RawDemand {
    /// 1.1 is InfAdapter's. See [`crate::forecast`] for the three spans.
    fn default() -> Self {
        RawDemand {
            smoothing_s: 5.0,
            window_s: 10.0,
            moving_s: 3.0,
            headroom: 1.1,
        }
    }
}

impl Default for RawSolver {
    fn default() -> Self {
        RawSolver {
            time_limit_ms: millis(SOLVER_LIMIT),
        }
    }
}

impl Default for RawResize {
    fn default() -> Self {
        RawResize {
            timeout_ms: millis(RESIZE_TIMEOUT),
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

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn cycle_ms() -> u64 {
    millis(CYCLE)
}

fn plan_max_age_ms() -> u64 {
    millis(PLAN_MAX_AGE)
}

/// Where Istio's proxies show their statistics.
const fn stats_port() -> u16 {
    15_090
}

/// Ours alone.
fn stats_path() -> String {
    "/stats/prometheus?filter=weir_".to_owned()
}

fn scrape_timeout_ms() -> u64 {
    millis(SCRAPE_TIMEOUT)
}

/// Half of the promise for executing, half for network and queue.
const fn latency_budget() -> f64 {
    0.5
}

const fn mode() -> Mode {
    Mode::Advisory
}

const fn batch() -> u32 {
    1
}

const fn least() -> u32 {
    1
}

/// InfAdapter's published code plans with 0.8 of the fit.
const fn utilisation() -> f64 {
    0.8
}

/// The law as given.
const fn tail() -> f64 {
    1.0
}
