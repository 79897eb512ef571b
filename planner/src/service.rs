//! A service, parsed from its file or from the custom resource and validated once. The rest of the planner
//! relies on every value of [`Service`]. Nothing here reads the key or opens a connection.
//!
//! `service.example.yaml` beside this crate documents every key. Unknown, missing or wrong keys are refused
//! with the key's path, the value and the allowed values.

mod bounds;
mod check;
mod classes;
mod policy;
mod profile;
mod raw;
pub mod resource;
mod retune;
mod rule;
mod stages;
mod variant;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use weir_api::Cores;

use crate::capacity::{Allocation, Bounds};
use crate::key::KeySource;
use crate::profile::Profile;

pub use classes::Classes;
pub use profile::{PROFILE_BYTES_MAX, R_SQUARED_MIN};
pub use raw::from_yaml;
pub use raw::{RawReference, RetuneMethod, ServiceSpec, SloService, WorkloadKind};
pub use retune::{BATCH, Retune};

/// Maximum size of a service file, in bytes.
pub const FILE_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of proxies scraped. A service file lists no more; of more pods, the first by name are
/// scraped.
pub const STATS_MAX: usize = 256;
/// Maximum whole cores of one replica.
pub const CORES_MAX: u32 = 1024;
/// Maximum replicas of one variant.
pub const REPLICAS_MAX: u32 = 1000;
/// Maximum whole cores of one service.
pub const BUDGET_MAX: u32 = 65_536;
/// Maximum number of (cores, replicas) options, over all variants, that a solve chooses from.
pub const OPTIONS_MAX: u32 = 8192;
/// Maximum stages of a pipeline: each has its own plans and proxies.
pub const STAGES_MAX: usize = 16;
/// Longest demand window: with the shortest cycle it holds 6,000 intervals.
pub const WINDOW_MAX: Duration = Duration::from_secs(600);
/// Longest time for which bursts are remembered.
pub const BURSTS_MAX: Duration = Duration::from_secs(3600);
/// Shortest cycle.
pub const CYCLE_MIN: Duration = Duration::from_millis(100);
/// Longest cycle.
pub const CYCLE_MAX: Duration = Duration::from_secs(60);

/// Minimum interval between two scrapes.
pub const SCRAPE_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Scrapes per cycle, if the service does not set the interval.
pub const LOOKS: u64 = 4;

/// Default cycle: shares, slots and cores change every second.
pub const CYCLE: Duration = Duration::from_secs(1);
/// Default scrape timeout. A scrape on a local network takes a few ms; a proxy that needs three tenths of a
/// cycle is overloaded or unreachable.
pub const SCRAPE_TIMEOUT: Duration = Duration::from_millis(300);
/// Default resize timeout. A resize not confirmed by then is tried again in the next cycle.
pub const RESIZE_TIMEOUT: Duration = Duration::from_millis(200);
/// Default scale-down stabilization: a model takes seconds to load.
pub const SCALE_DOWN_AFTER: Duration = Duration::from_secs(30);
/// Default solver time limit. Typical instances take 10 ms; the rest of the cycle is left for resizing.
pub const SOLVER_LIMIT: Duration = Duration::from_millis(250);
/// Default maximum age of a plan: proxies run for a minute without a planner before they use their
/// fallback.
pub const PLAN_MAX_AGE: Duration = Duration::from_secs(60);

const _: () = assert!(SCRAPE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(RESIZE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(SOLVER_LIMIT.as_millis() < CYCLE.as_millis());
const _: () = assert!(PLAN_MAX_AGE.as_millis() > 2 * CYCLE.as_millis());

/// A service file: the service, and the planner's own address and key.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceFile {
    /// The validated service.
    pub service: Service,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Source of the key shared with the proxies.
    pub key: KeySource,
}

/// A validated service, made only by [`ServiceFile::from_yaml`] and [`Service::from_resource`].
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Name of the service; the proxies' filters carry it too.
    pub name: String,
    /// Latency objective, from the client's send to its receive.
    pub slo: Duration,
    /// Maximum latency of one execution: the SLO minus the downstream time, times the share that is not
    /// reserved for network and queue. L of InfAdapter's Eq. 1.
    pub latency_max_ms: f64,
    /// Downstream time: predicted time that the later stages of the pipeline need, 0 for the last one. Part
    /// of every plan.
    pub rest_ms: f64,
    /// Length of a control cycle.
    pub cycle: Duration,
    /// Maximum age of a plan in the proxies.
    pub plan_max_age: Duration,
    /// Whether cores are changed.
    pub mode: Mode,
    /// Optimization problem solved each cycle.
    pub policy: Policy,
    /// Weights of InfAdapter's objective.
    pub objective: Objective,
    /// Maximum cores of all variants together, never exceeded: B of InfAdapter's Eq. 1.
    pub budget: u32,
    /// Resources of the replicas other than cores, and their limits.
    pub bounds: Bounds,
    /// Rule that turns arrivals into demand.
    pub demand: DemandRule,
    /// Time limit of one solve.
    pub solver_limit: Duration,
    /// Addresses of the proxies' statistics; empty if the proxies are discovered by their pods.
    pub stats: Vec<reqwest::Url>,
    /// Pods whose proxies are scraped.
    pub proxy_pods: Option<ProxyPods>,
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
    /// Request classes; used by the filters only.
    pub classes: Classes,
    /// One or more stages, in the order in which a request passes them.
    pub stages: Vec<Stage>,
    /// Variants of all stages, in stage order; names are unique.
    pub variants: Vec<Variant>,
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
    /// For [`crate::control_loop::ROOM_AGAIN`], the other variants are planned with more instead.
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

/// Optimization problem solved each cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    /// Variants, cores of each, and shares of the traffic.
    Infadapter,
    /// One variant: its cores and its batch size.
    Sponge(SpongeRule),
    /// A pipeline: one variant of each stage, its replicas and its batch size.
    Ipa(IpaRule),
    /// Replicas of each variant, at minimum cost for the demand and a minimum accuracy.
    Infaas(InfaasRule),
    /// A pipeline with one variant a stage: more cores for its replicas first, then more replicas.
    Themis(ThemisRule),
}

/// Parameters of Sponge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpongeRule {
    /// δ of its Eq. 3: cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentage of requests that arrive with at least the remaining time that is planned for.
    pub percentile: f64,
}

/// Weights of IPA: α·PAS − β·cores − δ·batches, PAS in percent (its Eq. 10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IpaRule {
    /// α: weight of one percent of the pipeline's accuracy.
    pub alpha: f64,
    /// β: weight of a core.
    pub beta: f64,
    /// δ: weight of one request of a batch.
    pub delta: f64,
    /// The actual allocation is kept while it carries the demand and its objective is within this of the
    /// optimum.
    pub tolerance: f64,
}

/// Parameters of INFaaS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InfaasRule {
    /// Minimum accuracy in percent; variants below it get no replica.
    pub accuracy_least: f64,
    /// Reserve on top of the demand, in requests/s.
    pub slack_rps: f64,
    /// λ of its objective: cost of one second of loading, as a fraction of the replica's cost.
    pub loading_weight_per_s: f64,
}

/// Parameters of Themis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThemisRule {
    /// Cores of a replica that is started because high load has persisted.
    pub horizontal_cores: u32,
    /// Cores by which the actual allocation may exceed the needed one; keeps noise in the demand from
    /// causing resizes.
    pub tolerance: f64,
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
    /// The actual cores are kept while they carry the demand and their objective is within this of the
    /// optimum; keeps noise in the demand from causing resizes.
    pub tolerance: f64,
}

/// λ = headroom × max(smoothed rate, recent peak rate).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DemandRule {
    /// Time constant of the exponential average.
    pub smoothing: Duration,
    /// Window over which the peak is taken.
    pub window: Duration,
    /// Span over which each rate of the window is averaged.
    pub moving: Duration,
    /// Factor on the rate, at least 1.
    pub headroom: f64,
    /// Time for which bursts are remembered.
    pub bursts: Duration,
}

/// A validated variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Public name.
    pub name: String,
    /// Name of the Envoy cluster.
    pub cluster: String,
    /// Accuracy in percent.
    pub accuracy: f64,
    /// Allocation assumed until the backend reports the actual one.
    pub initial: Allocation,
    /// Minimum cores of a replica, kept without any share; 0 unloads the variant.
    pub least: u32,
    /// Maximum cores of a replica.
    pub greatest: u32,
    /// Minimum and maximum number of replicas.
    pub replicas: Replicas,
    /// Latency and capacity for each number of cores.
    pub profile: Profile,
    /// Batch window of the server; zero if it does not form batches by itself.
    pub batch_delay: Duration,
    /// Source of the profile, if it is not part of the service.
    pub profile_from: Option<String>,
    /// Whether the server stops executing abandoned requests.
    pub cancels: bool,
    /// Time from loading to the first response: rt_m of InfAdapter's Eq. 1.
    pub readiness: Duration,
    /// Address at which cores are read and changed; `None` if there is none.
    pub resize: Option<reqwest::Url>,
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
    pub retune: Option<Retune>,
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

/// Minimum and maximum number of replicas of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// Minimum, kept without any share.
    pub least: u32,
    /// Maximum.
    pub greatest: u32,
}

impl Replicas {
    /// One fixed replica.
    pub const ONE: Replicas = Replicas {
        least: 1,
        greatest: 1,
    };
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

impl ServiceFile {
    /// Parses and validates a service file.
    ///
    /// # Errors
    /// Returns the first violation, with the key's path, the value and the allowed values.
    pub fn from_yaml(text: &str) -> Result<ServiceFile, ConfigError> {
        ServiceFile::parse(text)?.try_into()
    }

    /// Parses a service file of at most [`FILE_BYTES_MAX`], without validating values.
    fn parse(text: &str) -> Result<ServiceSpec, ConfigError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge(text.len()));
        }
        ServiceSpec::from_yaml(text)
    }
}

impl Service {
    /// Parses and validates the service of a file.
    ///
    /// # Errors
    /// See [`ServiceFile::from_yaml`].
    pub fn from_yaml(text: &str) -> Result<Service, ConfigError> {
        Ok(ServiceFile::from_yaml(text)?.service)
    }

    /// Validates the spec of the resource called `name`.
    ///
    /// # Errors
    /// Returns the first violation, with the key's path, the value and the allowed values.
    pub fn from_resource(name: &str, spec: ServiceSpec) -> Result<Service, ConfigError> {
        check::from_resource(name, spec)
    }
}

impl Variant {
    /// Returns the number of replicas kept without any share.
    pub fn fewest(&self) -> u32 {
        match self.least {
            0 => 0,
            _ => self.replicas.least,
        }
    }

    /// Whether its servers form batches by themselves on more than one lane, so that several dispatched
    /// batches may be executed as one. On a single lane at most one batch is dispatched at a time.
    pub fn makes_batches(&self) -> bool {
        let each = Cores::whole(self.greatest).as_f64();
        let lanes = self.profile.parallelism.at_once(each) * self.replicas.greatest;
        !self.batch_delay.is_zero() && self.profile.batch > 1 && lanes > 1
    }

    /// Whether its servers are told the maximum batch size.
    pub fn is_told_batch(&self) -> bool {
        let retune = self.workload.as_ref().and_then(|one| one.retune.as_ref());
        self.tell_batch || retune.is_some_and(Retune::says_batch)
    }

    /// Returns the rate that a replica with `cores` sustains if one execution may take `latency_max_ms`.
    pub fn capacity(&self, cores: Cores, latency_max_ms: f64) -> f64 {
        self.profile.capacity(cores, latency_max_ms).0
    }
}

#[cfg(test)]
pub(crate) mod tests;
