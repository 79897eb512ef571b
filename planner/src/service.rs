//! A checked service: everything that the planner knows of it. [`crate::spec`] reads it from a file or a resource and
//! checks it wholly; nothing else in the planner doubts a value of [`Service`].

mod accuracy_mix;
mod filter_settings;
mod limits;
pub mod policy;
mod reconfigure;
pub(crate) mod rule;
mod service_times;
mod variant_state;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use weir_api::Cores;

use crate::capacity::{Allocation, ResourceLimits};
use crate::forecast::DemandRule;
use crate::profile::{Origin, Profile};

pub use accuracy_mix::AccuracyMix;
pub use filter_settings::{Classes, FilterSettings};
pub use limits::{
    BUDGET_MAX, CORES_MAX, CYCLE, CYCLE_MAX, CYCLE_MIN, DNS_INTERVAL, DNS_INTERVAL_MAX,
    DNS_INTERVAL_MIN, FILE_BYTES_MAX, ON_TIME_TARGET, ON_TIME_TARGET_MAX, ON_TIME_TARGET_MIN,
    OPTIONS_MAX, PLAN_MAX_AGE, REPLICAS_MAX, RESIZE_TIMEOUT, SCALE_DOWN_AFTER, SCRAPE_INTERVAL_MIN,
    SCRAPE_TIMEOUT, SCRAPES_PER_CYCLE, SHARE_WEIGHT_MAX, SHARE_WEIGHT_MIN, SOLVER_LIMIT,
    STAGES_MAX, STATS_MAX, STEP_MIN, TIME_LEFT_MIN_MS,
};
pub use policy::{
    Decision, Inputs, Needs, Policy, ScaleDown, SharedPolicy, SolveStatus, TimeLeft, VariantShape,
};
pub use reconfigure::{BATCH, Reconfigure, ReconfigureMethod};
pub use service_times::{
    CORRECTION_LIMIT, CORRECTION_MIN, FAR_OFF_AFTER, FAR_OFF_MAX, FAR_OFF_MIN, ServiceTimeRule,
};
pub use variant_state::{Reading, StateMachine, VariantState, slow_above};

/// A validated service, made by [`Service::from_yaml`] and [`Service::from_resource`] only.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Name of the service; the proxies' filters carry it too.
    pub name: String,
    /// Latency objective, from the client's send to its receive.
    pub slo: Duration,
    /// Part of the demand that must be answered on time. Nothing is planned by it: it is reported, with the
    /// error budget that it leaves.
    pub on_time_target: f64,
    /// Maximum latency of one execution: the SLO minus the downstream time, times the share that is not
    /// reserved for network and queue. L of InfAdapter's Eq. 1.
    pub latency_max_ms: f64,
    /// Downstream time: predicted time that the later stages of the pipeline need, 0 for the last one. Part
    /// of every plan.
    pub downstream_ms: f64,
    /// Length of a control cycle.
    pub cycle: Duration,
    /// Maximum age of a plan in the proxies.
    pub plan_max_age: Duration,
    /// Whether cores are changed.
    pub mode: Mode,
    /// Policy that plans each cycle.
    pub policy: SharedPolicy,
    /// Weights of InfAdapter's objective.
    pub objective: Objective,
    /// Maximum cores of all variants together, in steps, never exceeded: B of InfAdapter's Eq. 1.
    pub budget: u32,
    /// Step in which cores are given; one core unless the service says less.
    pub step: Cores,
    /// Budget that it shares with other services; `None` for a budget of its own.
    pub shared: Option<Membership>,
    /// Resources of the replicas other than cores, and their limits.
    pub limits: ResourceLimits,
    /// Rule that turns arrivals into demand.
    pub demand: DemandRule,
    /// Time limit of one solve.
    pub solver_limit: Duration,
    /// Addresses of the proxies' statistics; empty if the proxies are found by their pods or a name.
    pub stats: Vec<url::Url>,
    /// Pods whose proxies are scraped.
    pub proxy_pods: Option<ProxyPods>,
    /// DNS name whose addresses are scraped.
    pub proxy_dns: Option<ProxyDns>,
    /// Interval between two scrapes.
    pub scrape_interval: Duration,
    /// Timeout of one scrape.
    pub scrape_timeout: Duration,
    /// Behaviour when a node has no capacity for a resize.
    pub fallback: Fallback,
    /// Scale-down stabilization: replicas are removed only after fewer have sufficed for this long.
    pub scale_down_after: Duration,
    /// Timeout of one resize.
    pub resize_timeout: Duration,
    /// Rule for measured service times.
    pub service_times: ServiceTimeRule,
    /// Request classes; used by the filters only.
    pub classes: Classes,
    /// Settings of the filters that do not follow from the rest; used by the filters only.
    pub filter: FilterSettings,
    /// One or more stages, in the order in which a request passes them.
    pub stages: Vec<Stage>,
    /// Variants of all stages, in stage order; names are unique.
    pub variants: Vec<Variant>,
}

/// Membership in a budget that several services share.
#[derive(Debug, Clone, PartialEq)]
pub struct Membership {
    /// Name of the shared budget.
    pub budget: String,
    /// Weight by which needs above the budget are met.
    pub weight: f64,
}

/// One stage of the pipeline. A service without stages has one, which carries its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Service name that this stage's filters carry.
    pub name: String,
    /// Index range in [`Service::variants`].
    pub variants: Range<usize>,
}

/// Behaviour when the nodes have no capacity for a variant's target.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// The variant keeps its actual allocation; the resize is retried each cycle.
    Keep,
    /// For [`crate::control_loop::FULL_NODES_RETRY_AFTER`], the other variants are planned with more instead.
    Move,
    /// A pod is evicted, and its replacement may be scheduled on another node
    /// ([`crate::backends::kubernetes::replace`]).
    Replace,
}

/// Whether the planner changes cores.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Observes, solves, publishes shares for the actual cores and exports the target cores; changes none.
    Advisory,
    /// Changes the cores too.
    Active,
}

impl Mode {
    /// Returns the value of the key `mode`.
    pub const fn label(self) -> &'static str {
        match self {
            Mode::Advisory => "advisory",
            Mode::Active => "active",
        }
    }
}

/// InfAdapter's objective, α·AA − (β·RC + γ·LC); each term is between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// Weight of the mean accuracy of the responses.
    pub alpha: f64,
    /// Weight of the used fraction of the budget.
    pub beta: f64,
    /// Weight of the longest loading time, relative to the longest of all variants.
    pub gamma: f64,
    /// Distance to the optimum within which cores that carry the demand stay: noise in it causes no resizes.
    pub tolerance: f64,
}

/// A validated variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Public name.
    pub name: String,
    /// Name of the Envoy cluster.
    pub cluster: String,
    /// Name of the Envoy cluster of the same servers' gRPC port, if that is another one.
    pub grpc_cluster: Option<String>,
    /// Name that its servers give the model, if it replaces the one in the path of a request.
    pub model: Option<String>,
    /// Path at which its servers take requests other than those of gRPC, if it replaces that of a request.
    pub path: Option<String>,
    /// Accuracy in percent.
    pub accuracy: f64,
    /// Allocation assumed until the backend reports the actual one.
    pub initial: Allocation,
    /// Step in which cores are given, as of the service.
    pub step: Cores,
    /// Minimum cores of a replica, in steps, kept without any share; 0 unloads the variant.
    pub min: u32,
    /// Maximum cores of a replica, in steps.
    pub max: u32,
    /// Minimum and maximum number of replicas.
    pub replicas: Replicas,
    /// Latency and capacity for each number of cores.
    pub profile: Profile,
    /// Largest batch that the server is known to execute.
    pub batch_max: u32,
    /// Batch window of the server; zero if it does not form batches by itself.
    pub batch_delay: Duration,
    /// Source of the profile, if it is not part of the service.
    pub profile_from: Option<String>,
    /// Price of a core of its replicas, in any currency for any time.
    pub price: f64,
    /// Whether the server stops executing abandoned requests.
    pub cancels: bool,
    /// Time from loading to the first response: rt_m of InfAdapter's Eq. 1.
    pub readiness: Duration,
    /// Address at which cores are read and changed; `None` if there is none.
    pub resize: Option<url::Url>,
    /// Control group of this host whose CPU quota is the cores, by its name below `/sys/fs/cgroup`.
    pub cgroup: Option<String>,
    /// Whether the batch size is also sent to that address.
    pub tell_batch: bool,
    /// Kubernetes workload whose pods run the variant and are resized in place; `None` outside Kubernetes.
    pub workload: Option<Workload>,
}

/// Kubernetes workload that owns a variant's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Deployment or StatefulSet.
    pub kind: WorkloadKind,
    /// Name of the workload.
    pub name: String,
    /// Container of the model server; `None` if the pod template has only one.
    pub container: Option<String>,
    /// Reconfigure request: tells a pod's server its cores or its batch size.
    pub reconfigure: Option<Reconfigure>,
}

/// Kind of the workload that owns the pods.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub enum WorkloadKind {
    /// A Deployment (apps/v1).
    #[default]
    Deployment,
    /// A StatefulSet (apps/v1).
    StatefulSet,
}

impl WorkloadKind {
    /// Returns the kind as written in manifests.
    pub fn label(self) -> &'static str {
        match self {
            WorkloadKind::Deployment => "Deployment",
            WorkloadKind::StatefulSet => "StatefulSet",
        }
    }
}

/// Pods whose Envoys carry the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyPods {
    /// Labels that a pod must have, all of them.
    pub labels: BTreeMap<String, String>,
    /// Namespace; `None` is the resource's own.
    pub namespace: Option<String>,
    /// Port of the statistics.
    pub port: u16,
    /// Path and query of the statistics.
    pub path: String,
}

/// DNS name of all Envoys that carry the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyDns {
    /// The name, without a port.
    pub name: String,
    /// Port of the statistics.
    pub port: u16,
    /// Path and query of the statistics.
    pub path: String,
    /// Interval at which it is resolved.
    pub interval: Duration,
}

/// Minimum and maximum number of replicas of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// Minimum, kept without any share.
    pub min: u32,
    /// Maximum.
    pub max: u32,
}

impl Replicas {
    /// One fixed replica.
    pub const ONE: Replicas = Replicas { min: 1, max: 1 };
}

/// Reason why a service file is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ConfigError {
    #[error("{0} bytes; a service file has at most {FILE_BYTES_MAX}")]
    TooLarge(usize),
    #[error("{path}: {message}")]
    Form { path: String, message: String },
    #[error("{path}: {value}; it must be {right}")]
    Value {
        path: String,
        value: String,
        right: String,
    },
}

impl Service {
    /// Maximum cores of all variants together.
    pub fn budget_cores(&self) -> Cores {
        self.step.times(self.budget)
    }

    /// Largest part of its rate that any variant is planned with.
    pub fn utilisation_max(&self) -> f64 {
        let each = self.variants.iter();
        each.map(|variant| variant.profile.utilisation)
            .fold(0.0, f64::max)
    }

    /// The SLO less the downstream time, in ms.
    pub fn own_slo_ms(&self) -> f64 {
        (self.slo.as_secs_f64() * 1e3 - self.downstream_ms).max(TIME_LEFT_MIN_MS)
    }
}

impl Variant {
    /// Cores of that many steps.
    pub fn cores(&self, steps: u32) -> Cores {
        self.step.times(steps)
    }

    /// Whether its times and its rate were known before it served.
    pub fn has_profile(&self) -> bool {
        self.profile.origin == Origin::Given
    }

    /// Returns the number of replicas kept without any share.
    pub fn fewest(&self) -> u32 {
        match self.min {
            0 => 0,
            _ => self.replicas.min,
        }
    }

    /// Whether its servers are pods, which take long to start: those of a workload, and in a replay those of a variant
    /// that may have several. Nothing is known about a server behind an address.
    pub fn has_pods(&self) -> bool {
        self.workload.is_some() || self.replicas.max > 1
    }

    /// Whether its servers form batches by themselves on more than one lane, so that several dispatched
    /// batches may be executed as one. On a single lane at most one batch is dispatched at a time.
    pub fn makes_batches(&self) -> bool {
        let each = self.cores(self.max).as_f64();
        let lanes = self.profile.parallelism.at_once(each) * self.replicas.max;
        !self.batch_delay.is_zero() && self.profile.batch > 1 && lanes > 1
    }

    /// Whether its servers are sent the maximum batch size.
    pub fn receives_batch(&self) -> bool {
        let workload = self.workload.as_ref();
        let request = workload.and_then(|one| one.reconfigure.as_ref());
        self.tell_batch || request.is_some_and(Reconfigure::contains_batch)
    }

    /// Returns the rate for which a policy may choose a replica with `cores`: 0 beyond the latency budget, or if the mean
    /// measured time is beyond the objective, with which nothing would be in time. Cores that serve already keep their
    /// rate in a plan ([`Profile::capacity`]).
    pub fn capacity(&self, cores: Cores, service: &Service) -> f64 {
        match self.profile.mean_ms(cores) > service.own_slo_ms() {
            true => 0.0,
            false => self.profile.capacity(cores, service.latency_max_ms).0,
        }
    }
}
