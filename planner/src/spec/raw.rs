//! A service as written, in its file or as the spec of the custom resource `SloService`: the shape and the
//! defaults, no rule about values. Its doc comments are the resource's documentation.

#![allow(
    unreachable_pub,
    reason = "the derives' own types are public wherever they are"
)]
#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column has its own"
)]

mod amount;
mod classes;
mod profile;
mod variant;
mod yaml;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resource::SloServiceStatus;
use crate::policy::{RawInfaas, RawIpa, RawPolicy, RawSponge, RawThemis};
use crate::service::{
    CYCLE, ConfigError, Fallback, Mode, PLAN_MAX_AGE, RESIZE_TIMEOUT, SCALE_DOWN_AFTER,
    SCRAPE_TIMEOUT, SOLVER_LIMIT,
};

pub(crate) use amount::RawAmount;
pub use classes::RawClass;
pub use profile::RawReference;
pub(crate) use profile::{RawMeasured, RawProfile};
pub use variant::*;
pub use yaml::from_yaml;

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
    validation = Rule::new("has(self.default_class) == (has(self.classes) && self.classes.size() > 0)").message("default_class is to be one of classes, and left out without any"),
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
    /// Classes of requests, for the filters' configuration; none: all are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub classes: Vec<RawClass>,
    /// The class of those that ask for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_class: Option<String>,
    /// A class that waits is let through once in so many slots at least, whatever its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub starvation: Option<u32>,
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
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawBudget {
    /// Whole cores, never exceeded.
    #[schemars(range(min = 1, max = 65_536))]
    pub cores: u32,
    /// So much of what replicas hold besides (`holds`), by its name in Kubernetes (memory, nvidia.com/gpu); never
    /// exceeded either, by replicas that start or end included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4))]
    pub held: BTreeMap<String, RawAmount>,
}

/// headroom × the greater of the arrivals' exponential average and, over the last window, their greatest mean; more
/// where bursts come again.
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
    /// Seconds for which a burst is remembered. Where one comes again within them, cores are kept for the next. 0: none is.
    pub bursts_s: f64,
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
    /// How often is looked at what arrives, in ms, at most cycle_ms: a demand that rises is planned for at once. A
    /// quarter of cycle_ms if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 60_000))]
    pub interval_ms: Option<u64>,
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
    /// Where the nodes have no room. keep: the variant stays as it is and is asked for again each cycle.
    /// move: for a minute the others are planned with more instead. replace: a pod is evicted, as PodDisruptionBudgets
    /// allow, and the next one is resized where it comes to be: at once where its node can never hold what it is to
    /// have, after five minutes where the kubelet puts it off.
    pub fallback: Fallback,
    /// Replicas are taken away once so few have been wanted for so long, in s: cores follow at once, a replica takes
    /// long to start.
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub scale_down_after_s: f64,
}

impl ServiceSpec {
    /// Reads the shape of a service file; its values are not looked at.
    ///
    /// # Errors
    /// An unknown, missing or misshapen key.
    pub fn from_yaml(text: &str) -> Result<ServiceSpec, ConfigError> {
        from_yaml(text, "service file")
    }
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

impl Default for RawDemand {
    /// 1.1 is InfAdapter's. See [`crate::forecast`] for the three spans.
    fn default() -> Self {
        RawDemand {
            smoothing_s: 5.0,
            window_s: 10.0,
            moving_s: 3.0,
            headroom: 1.1,
            bursts_s: 300.0,
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
            fallback: Fallback::Keep,
            scale_down_after_s: SCALE_DOWN_AFTER.as_secs_f64(),
        }
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
