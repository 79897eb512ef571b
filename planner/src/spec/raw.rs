//! A service as written in its file or in the spec of the custom resource `SloService`: structure and
//! defaults, without rules about values. The doc comments become the descriptions in the custom resource
//! definition.

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
mod demand;
mod duration;
mod profile;
mod proxies;
mod rules;
mod service_times;
mod variant;
mod yaml;

use std::collections::BTreeMap;

#[cfg(feature = "kubernetes")]
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::rules::{in_range, rules};
use super::renamed::renamed;
#[cfg(feature = "kubernetes")]
use super::resource::SloServiceStatus;
use crate::policy::{RawInfaas, RawIpa, RawPolicy, RawSponge, RawThemis, Sections};
use crate::quantity::cpu;
use crate::service::{
    CYCLE, ConfigError, Fallback, Mode, ON_TIME_TARGET, PLAN_MAX_AGE, RESIZE_TIMEOUT,
    SCALE_DOWN_AFTER, SOLVER_LIMIT,
};

pub use crate::quantity::cpu::RawCpu;
pub(crate) use amount::RawAmount;
pub use classes::RawClass;
pub use demand::RawDemand;
pub use duration::RawDuration;
pub use profile::{RawBounds, RawRange, RawReference};
pub(crate) use profile::{RawMeasured, RawProfile};
pub use proxies::{RawDns, RawPods, RawProxies};
pub use service_times::RawServiceTimes;
pub use variant::*;
pub use yaml::from_yaml;

/// A service with a latency objective, of one or more stages: its variants, its budget and its objective.
#[derive(Debug, Clone, JsonSchema, Serialize, Deserialize)]
#[cfg_attr(
    feature = "kubernetes",
    derive(CustomResource),
    kube(
        group = "weir.dev",
        version = "v1alpha1",
        kind = "SloService",
        doc = "A service with a latency objective: its variants, its budget and its objective.",
        namespaced,
        shortname = "slo",
        status = "SloServiceStatus",
        printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
        printcolumn(name = "Policy", type_ = "string", json_path = ".spec.policy"),
        printcolumn(
            name = "Demand",
            type_ = "number",
            description = "forecast of the requests/s, with headroom",
            json_path = ".status.demandRps"
        ),
        printcolumn(
            name = "Cores",
            type_ = "number",
            description = "actual cores of all variants",
            json_path = ".status.cores"
        ),
        printcolumn(
            name = "Accepted",
            type_ = "string",
            json_path = ".status.conditions[?(@.type=='Accepted')].status"
        ),
        printcolumn(
            name = "Ready",
            type_ = "string",
            json_path = ".status.conditions[?(@.type=='Ready')].status"
        ),
        printcolumn(
            name = "Planned",
            type_ = "string",
            priority = 1,
            json_path = ".status.conditions[?(@.type=='Planned')].status"
        ),
        printcolumn(
            name = "Actuated",
            type_ = "string",
            priority = 1,
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
    )
)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("has(self.variants) != has(self.stages)", "exactly one of the two: variants (of a service) or stages (of a pipeline)"),
    ("has(self.budget) || self.mode == 'advisory'", "budget, in mode active: the cores that all variants may use together"),
    ("!has(self.stages) || self.policy in ['ipa', 'themis']", "stages are for policy ipa and themis: the others know one stage"),
    ("has(self.defaultClass) == (has(self.classes) && self.classes.size() > 0)", "defaultClass is to be one of classes, and left out without any"),
    ("!has(self.sponge) || self.policy == 'sponge'", "sponge is for policy sponge"),
    ("!has(self.ipa) || self.policy == 'ipa'", "ipa is for policy ipa"),
    ("!has(self.infaas) || self.policy == 'infaas'", "infaas is for policy infaas"),
    ("!has(self.themis) || self.policy == 'themis'", "themis is for policy themis"),
])))]
pub struct ServiceSpec {
    /// Name that the filters carry. A resource uses its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub service: Option<String>,
    /// Address to listen on. Service file only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub listen: Option<String>,
    /// Environment variable that holds the keys of the proxies, one in each line. Service file only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub key_env: Option<String>,
    /// File that holds the keys of the proxies, one in each line. Service file only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub key_file: Option<String>,
    /// Latency objective, from the client's send to its receive.
    #[schemars(extend("x-kubernetes-validations" = in_range("1ms", "1h")))]
    pub slo: RawDuration,
    /// Fraction of the demand that must be answered within the objective. The remainder is the error budget, which
    /// the status, the metrics and the alerts report. Nothing is planned by it.
    #[serde(default = "on_time_target")]
    #[schemars(range(min = 0.000_001, max = 0.999_999))]
    pub on_time_target: f64,
    /// Fraction of the objective that one execution may take. The remainder is for network and queueing.
    #[serde(default = "latency_budget")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub latency_budget: f64,
    /// Downstream time: time that the stages after this service need. Must be less than slo.
    #[serde(default)]
    pub downstream_time: RawDuration,
    /// Length of a control cycle: observe, forecast, solve, resize, publish.
    #[serde(default = "cycle")]
    #[schemars(extend("x-kubernetes-validations" = in_range("100ms", "1m")))]
    pub cycle: RawDuration,
    /// Time for which proxies use a plan without a newer one. Must be more than two cycles.
    #[serde(default = "plan_max_age")]
    #[schemars(extend("x-kubernetes-validations" = in_range("0s", "1h")))]
    pub plan_max_age: RawDuration,
    /// advisory: publish shares for the actual cores and report the target cores, but change none. active:
    /// also change the cores.
    #[serde(default = "mode")]
    pub mode: Mode,
    /// Optimization problem that is solved each cycle.
    #[serde(default)]
    pub policy: RawPolicy,
    /// Parameters of policy sponge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sponge: Option<RawSponge>,
    /// Parameters of policy ipa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipa: Option<RawIpa>,
    /// Parameters of policy infaas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infaas: Option<RawInfaas>,
    /// Parameters of policy themis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub themis: Option<RawThemis>,
    /// Weights of the objective of policy infadapter.
    #[serde(default)]
    pub objective: RawObjective,
    /// Maximum that all variants may use together at any moment. In mode advisory it defaults to the initial cores of all
    /// replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<RawBudget>,
    /// Rule that turns arrivals into the demand to plan for.
    #[serde(default)]
    pub demand: RawDemand,
    /// Limits of the solver.
    #[serde(default)]
    pub solver: RawSolver,
    /// Proxies that carry the filter.
    pub proxies: RawProxies,
    /// Resizing: timeout, fallback and scale-down stabilization.
    #[serde(default)]
    pub resize: RawResize,
    /// Measured service times: correction of the profiles, and states of the variants.
    #[serde(default)]
    pub service_times: RawServiceTimes,
    /// Request classes, for the configuration of the filters. Without any, all requests are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub classes: Vec<RawClass>,
    /// Class of requests that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_class: Option<String>,
    /// A waiting class is passed over at most this many times in a row, whatever its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_skips: Option<u32>,
    /// Further settings of the filters, in the keys of the plugin configuration (docs/reference/plugin-configuration.md):
    /// deadline, skew, bypass, streams, body, queue, health, failover, max_retries, on_stale. Their own parser checks them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "free_form")]
    pub filter: Map<String, Value>,
    /// Variants to choose from. A pipeline has stages instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub variants: Option<Vec<RawVariant>>,
    /// Stages of a pipeline, in the order in which a request passes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stages: Option<Vec<RawStage>>,
}

/// Returns the schema of an object with any keys, which the API server keeps.
fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// One stage of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RawStage {
    /// Service name that this stage's filters carry.
    pub name: String,
    /// Variants to choose from.
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub variants: Vec<RawVariant>,
}

/// alpha × mean accuracy − beta × used fraction of the budget − gamma × longest loading time. Each term is
/// between 0 and 1.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawObjective {
    /// Weight of the mean accuracy.
    pub alpha: f64,
    /// Weight of the used fraction of the budget.
    pub beta: f64,
    /// Weight of the longest loading time.
    pub gamma: f64,
    /// Cores that carry the demand are kept while their objective is within this of the optimum.
    pub tolerance: f64,
}

/// Maximum that all variants may use together.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("!has(self.weight) || has(self.shared)", "weight is for a shared budget: name it in shared"),
])))]
pub struct RawBudget {
    /// Cores, never exceeded. With shared, the maximum of this service's part.
    #[schemars(range(min = 0.01, max = 65_536))]
    pub cores: RawCpu,
    /// Step in which cores are given: all numbers of cores are multiples of it. It goes into one core without a
    /// remainder, such as 0.5 or 0.05. Defaults to 1.
    #[serde(default = "cpu::step", skip_serializing_if = "cpu::is_step")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub step: RawCpu,
    /// Maximum of each other resource that replicas use (variants[].resources), by its Kubernetes name (memory,
    /// nvidia.com/gpu). Never exceeded; replicas that are starting or terminating count too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4))]
    pub resources: BTreeMap<String, RawAmount>,
    /// Name of a budget of cores that several services share, whose size the planner has (--shared-budget). The
    /// service gets a part of it that follows its demand. Without it, the budget is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub shared: Option<String>,
    /// Weight in the shared budget by which needs that exceed it are met. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub weight: Option<f64>,
}

/// Limits of the solver.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawSolver {
    /// Time limit of one solve. Must be less than cycle.
    pub time_limit: RawDuration,
}

/// Timeout of a resize, fallback and scale-down stabilization.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawResize {
    /// Timeout of one resize. Must be less than cycle.
    pub timeout: RawDuration,
    /// Behaviour when a node has no capacity for a resize.
    /// keep: the variant keeps its actual allocation, and the resize is retried each cycle.
    /// move: for a minute the other variants are planned with more instead.
    /// replace: a pod is evicted, as far as PodDisruptionBudgets allow, and its replacement is resized on
    /// the node it is scheduled on. The eviction is immediate if the node can never fit the target, and
    /// after five minutes if the kubelet defers the resize.
    pub fallback: Fallback,
    /// Scale-down stabilization: replicas are removed only after fewer have sufficed for this long.
    /// Cores are reduced at once, because only a replica takes long to start.
    #[schemars(extend("x-kubernetes-validations" = in_range("0s", "1h")))]
    pub scale_down_stabilization: RawDuration,
}

impl ServiceSpec {
    /// Settings of the policies.
    pub(super) fn sections(&self) -> Sections {
        Sections {
            sponge: self.sponge,
            ipa: self.ipa,
            infaas: self.infaas,
            themis: self.themis,
        }
    }

    /// Parses a service file without validating its values.
    ///
    /// # Errors
    /// Fails on an unknown, missing or malformed key.
    pub fn from_yaml(text: &str) -> Result<ServiceSpec, ConfigError> {
        from_yaml(text, "service file").map_err(renamed)
    }
}

impl Default for RawObjective {
    /// InfAdapter's published β (the middle of its three) and γ. 0.005 is half a point of accuracy.
    fn default() -> Self {
        RawObjective {
            alpha: 1.0,
            beta: 0.05,
            gamma: 0.001,
            tolerance: 0.005,
        }
    }
}

impl Default for RawSolver {
    fn default() -> Self {
        RawSolver {
            time_limit: RawDuration(SOLVER_LIMIT),
        }
    }
}

impl Default for RawResize {
    fn default() -> Self {
        RawResize {
            timeout: RawDuration(RESIZE_TIMEOUT),
            fallback: Fallback::Keep,
            scale_down_stabilization: RawDuration(SCALE_DOWN_AFTER),
        }
    }
}

const fn cycle() -> RawDuration {
    RawDuration(CYCLE)
}

const fn plan_max_age() -> RawDuration {
    RawDuration(PLAN_MAX_AGE)
}

const fn on_time_target() -> f64 {
    ON_TIME_TARGET
}

/// Half of the objective for executing, half for network and queue.
const fn latency_budget() -> f64 {
    0.5
}

const fn mode() -> Mode {
    Mode::Advisory
}
