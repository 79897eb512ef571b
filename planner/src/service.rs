//! A checked service: everything that the planner knows of it. [`crate::spec`] reads it from a file or a resource and
//! checks it wholly; nothing else in the planner doubts a value of [`Service`].

pub mod policy;
mod retune;
pub(crate) mod rule;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use weir_api::Cores;

use crate::capacity::{Allocation, Bounds};
use crate::forecast::{DemandRule, SAMPLE_INTERVAL_MIN};
use crate::profile::Profile;

pub use policy::{
    Decision, Inputs, Needs, Policy, ScaleDown, SharedPolicy, SolveStatus, TimeLeft, VariantShape,
};
pub use retune::{BATCH, Retune, RetuneMethod};

/// Largest service file, in bytes.
pub const FILE_BYTES_MAX: usize = 256 * 1024;
/// Most proxies scraped: a service file has no more, and of more pods the first by name are.
pub const STATS_MAX: usize = 256;
/// Most whole cores of one replica.
pub const CORES_MAX: u32 = 1024;
/// Most replicas of one variant.
pub const REPLICAS_MAX: u32 = 1000;
/// Most whole cores of one service.
pub const BUDGET_MAX: u32 = 65_536;
/// Most numbers of cores and replicas, over all variants, that a solve chooses from.
pub const OPTIONS_MAX: u32 = 8192;
/// Most stages of a pipeline: each has plans and proxies of its own.
pub const STAGES_MAX: usize = 16;
/// Shortest cycle.
pub const CYCLE_MIN: Duration = Duration::from_millis(100);
/// Longest cycle.
pub const CYCLE_MAX: Duration = Duration::from_secs(60);

/// Proxies are looked at no more often than this.
pub const SCRAPE_INTERVAL_MIN: Duration = SAMPLE_INTERVAL_MIN;
/// Looks in a cycle, where the service does not say how often.
pub const LOOKS: u64 = 4;

/// The fast loop of DESIGN: shares, slots and cores move every second.
pub const CYCLE: Duration = Duration::from_secs(1);
/// A scrape on a local network takes a few ms; three tenths of a cycle is a proxy in trouble.
pub const SCRAPE_TIMEOUT: Duration = Duration::from_millis(300);
/// A resize that is not confirmed by then is tried again in the next cycle.
pub const RESIZE_TIMEOUT: Duration = Duration::from_millis(200);
/// The slow loop of DESIGN: a model takes seconds to load.
pub const SCALE_DOWN_AFTER: Duration = Duration::from_secs(30);
/// Typical instances take 10 ms; the rest of the cycle is left to act.
pub const SOLVER_LIMIT: Duration = Duration::from_millis(250);
/// Proxies outlive a minute without a planner before their stated fallback holds.
pub const PLAN_MAX_AGE: Duration = Duration::from_secs(60);

/// Least time for a batch to fill and execute, in ms: a network latency of the whole SLO leaves nothing to solve for.
pub const TIME_LEFT_MIN_MS: f64 = 1.0;

const _: () = assert!(SCRAPE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(RESIZE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(SOLVER_LIMIT.as_millis() < CYCLE.as_millis());
const _: () = assert!(PLAN_MAX_AGE.as_millis() > 2 * CYCLE.as_millis());

/// A checked service: made by [`Service::from_yaml`] and [`Service::from_resource`] only.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Its name, which the proxies' filters carry too.
    pub name: String,
    /// The latency promised, client to client.
    pub slo: Duration,
    /// The longest a variant may take for one answer: of the SLO less the rest of the pipeline, the
    /// share that is not the network's and the queue's. L of InfAdapter's Eq. 1.
    pub latency_max_ms: f64,
    /// Predicted time that the stages of a pipeline after this service still need; 0 where nothing
    /// comes after. It goes into every plan.
    pub rest_ms: f64,
    /// The fast loop.
    pub cycle: Duration,
    /// How long proxies may go by a plan.
    pub plan_max_age: Duration,
    /// Whether cores are changed.
    pub mode: Mode,
    /// Whose problem is solved each cycle.
    pub policy: SharedPolicy,
    /// What a good plan is, by InfAdapter.
    pub objective: Objective,
    /// Cores of all variants together, never exceeded: B of InfAdapter's Eq. 1.
    pub budget: u32,
    /// What replicas hold besides, and how much of it there may be.
    pub bounds: Bounds,
    /// How demand is made of arrivals.
    pub demand: DemandRule,
    /// Longest solve.
    pub solver_limit: Duration,
    /// The proxies' statistics; none where they are found by their pods.
    pub stats: Vec<reqwest::Url>,
    /// Pods whose proxies are asked.
    pub proxy_pods: Option<ProxyPods>,
    /// How often is looked at what arrives.
    pub scrape_interval: Duration,
    /// Longest scrape.
    pub scrape_timeout: Duration,
    /// What happens where a node has no room.
    pub fallback: Fallback,
    /// How long so few replicas must have been wanted before any are taken away.
    pub scale_down_after: Duration,
    /// Longest resize.
    pub resize_timeout: Duration,
    /// Of requests; the filters' alone.
    pub classes: Classes,
    /// One or more, in the order of a request's way.
    pub stages: Vec<Stage>,
    /// Of all stages, in their order; names distinct.
    pub variants: Vec<Variant>,
}

/// Classes of requests. The planner does nothing with them but hand them to the filters' configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classes(pub(crate) serde_json::Map<String, serde_json::Value>);

impl Classes {
    /// Keys of the plugin configuration.
    pub fn plugin(&self) -> serde_json::Map<String, serde_json::Value> {
        self.0.clone()
    }
}

/// One stage of the pipeline; a service without any is one stage with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The service that this stage's filters carry.
    pub name: String,
    /// Its part of [`Service::variants`].
    pub variants: Range<usize>,
}

/// What happens where the nodes have no room for what a variant is to have.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// It stays as it is, and is asked for again each cycle.
    Keep,
    /// For [`crate::control_loop::ROOM_AGAIN`] the others are planned with more instead.
    Move,
    /// A pod is evicted, and another one takes its place, perhaps on another node ([`crate::backends::kubernetes::replace`]).
    Replace,
}

/// Whether the planner acts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Observes, solves, publishes shares for the cores that are there and exports the cores it
    /// would give; changes none.
    Advisory,
    /// Changes the cores too.
    Active,
}

/// InfAdapter's objective, α·AA − (β·RC + γ·LC), all three terms 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// Weight of the answers' mean accuracy.
    pub alpha: f64,
    /// Weight of the fraction of the budget in use.
    pub beta: f64,
    /// Weight of the longest loading, over the longest there is.
    pub gamma: f64,
    /// The cores in force are kept while they carry the demand and their objective is within this
    /// of the optimum: noise in the demand shall not resize.
    pub tolerance: f64,
}

/// A checked variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Public name.
    pub name: String,
    /// Envoy cluster.
    pub cluster: String,
    /// Percent.
    pub accuracy: f64,
    /// What it has until its backend says otherwise.
    pub initial: Allocation,
    /// Cores a replica keeps without any share; 0 unloads it.
    pub least: u32,
    /// Most cores of a replica.
    pub greatest: u32,
    /// How many replicas it may have.
    pub replicas: Replicas,
    /// What it does with them.
    pub profile: Profile,
    /// Time for which its server waits for a batch to fill; zero where it does not make batches by itself.
    pub batch_delay: Duration,
    /// Where that is, where it does not stand in the service.
    pub profile_from: Option<String>,
    /// Whether its server stops executing what was abandoned.
    pub cancels: bool,
    /// Time from loading to the first answer: rt_m of InfAdapter's Eq. 1.
    pub readiness: Duration,
    /// Where its cores are read and changed; `None` where they cannot be.
    pub resize: Option<reqwest::Url>,
    /// Whether its servers are told there the batch they are to make.
    pub tell_batch: bool,
    /// Whose pods run it and are resized in place; `None` where Kubernetes has no part in it.
    pub workload: Option<Workload>,
}

/// What keeps a variant's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// A Deployment or a StatefulSet.
    pub kind: WorkloadKind,
    /// Its name.
    pub name: String,
    /// The model server's container; `None` where the template has but one.
    pub container: Option<String>,
    /// Request by which its servers are told the cores they have or the batch they are to make, where they are.
    pub retune: Option<Retune>,
}

/// What keeps the pods.
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
    /// apps/v1 Deployment.
    #[default]
    Deployment,
    /// apps/v1 StatefulSet.
    StatefulSet,
}

impl WorkloadKind {
    /// Its name as people write it.
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
    /// All of these.
    pub labels: BTreeMap<String, String>,
    /// `None`: the resource's own.
    pub namespace: Option<String>,
    /// Where their statistics are.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// How many replicas a variant may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// It keeps so many without any share.
    pub least: u32,
    /// Most of them.
    pub greatest: u32,
}

impl Replicas {
    /// The one that cannot be changed.
    pub const ONE: Replicas = Replicas {
        least: 1,
        greatest: 1,
    };
}

/// Why a service file is refused.
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
    /// The SLO less the downstream time, in ms.
    pub fn own_slo_ms(&self) -> f64 {
        (self.slo.as_secs_f64() * 1e3 - self.rest_ms).max(TIME_LEFT_MIN_MS)
    }
}

impl Variant {
    /// Replicas it keeps without any share.
    pub fn fewest(&self) -> u32 {
        match self.least {
            0 => 0,
            _ => self.replicas.least,
        }
    }

    /// Whether its servers make batches of what is there by themselves, on more than one lane: several batches that
    /// were sent may be executed as one. On a single lane there is no more than one that was sent.
    pub fn makes_batches(&self) -> bool {
        let each = Cores::whole(self.greatest).as_f64();
        let lanes = self.profile.parallelism.at_once(each) * self.replicas.greatest;
        !self.batch_delay.is_zero() && self.profile.batch > 1 && lanes > 1
    }

    /// Whether its servers are told the greatest batch that they are to make.
    pub fn is_told_batch(&self) -> bool {
        let retune = self.workload.as_ref().and_then(|one| one.retune.as_ref());
        self.tell_batch || retune.is_some_and(Retune::says_batch)
    }

    /// What a replica sustains with `cores` where one answer may take `latency_max_ms`.
    pub fn capacity(&self, cores: Cores, latency_max_ms: f64) -> f64 {
        self.profile.capacity(cores, latency_max_ms).0
    }
}
