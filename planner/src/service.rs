//! A service, from its file or the custom resource: read once, checked wholly, then true. Nothing else in the planner doubts a
//! value of [`Service`]; nothing here reads the key or opens a connection.
//!
//! `service.example.yaml` beside this crate documents every key. Unknown, missing or wrong keys are
//! refused with the key's path, the value and what is allowed.

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
/// Longest demand window: with the shortest cycle it holds 6,000 intervals.
pub const WINDOW_MAX: Duration = Duration::from_secs(600);
/// Longest time for which bursts are remembered.
pub const BURSTS_MAX: Duration = Duration::from_secs(3600);
/// Shortest cycle.
pub const CYCLE_MIN: Duration = Duration::from_millis(100);
/// Longest cycle.
pub const CYCLE_MAX: Duration = Duration::from_secs(60);

/// Proxies are looked at no more often than this.
pub const SCRAPE_INTERVAL_MIN: Duration = Duration::from_millis(100);
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

const _: () = assert!(SCRAPE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(RESIZE_TIMEOUT.as_millis() < CYCLE.as_millis());
const _: () = assert!(SOLVER_LIMIT.as_millis() < CYCLE.as_millis());
const _: () = assert!(PLAN_MAX_AGE.as_millis() > 2 * CYCLE.as_millis());

/// A service file: the service, and how the planner is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceFile {
    /// The service.
    pub service: Service,
    /// Where to answer.
    pub listen: SocketAddr,
    /// Where the proxies' key is.
    pub key: KeySource,
}

/// A checked service: made by [`ServiceFile::from_yaml`] and [`Service::from_resource`] only.
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
    pub policy: Policy,
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

/// Whose problem is solved each cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    /// Which variants, with how many cores and what share of the traffic.
    Infadapter,
    /// One variant: how many cores, and how many requests in a batch.
    Sponge(SpongeRule),
    /// A pipeline: one variant of each stage, how many replicas, and how many requests in a batch.
    Ipa(IpaRule),
    /// Replicas of each variant, as cheap as the load and an accuracy allow.
    Infaas(InfaasRule),
    /// A pipeline of one variant a stage: more cores for its replicas first, then more replicas.
    Themis(ThemisRule),
}

/// What Sponge weighs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpongeRule {
    /// δ of its Eq. 3: what a request more in a batch costs, in cores.
    pub delta: f64,
    /// Percent of the requests that have at least the time that is planned for left when they come.
    pub percentile: f64,
}

/// What IPA weighs: α·PAS − β·cores − δ·batches, PAS in percent (its Eq. 10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IpaRule {
    /// α: of a percent of the pipeline's accuracy.
    pub alpha: f64,
    /// β: of a core.
    pub beta: f64,
    /// δ: of a request of a batch.
    pub delta: f64,
    /// What runs is kept while it carries the demand and is within this of the optimum.
    pub tolerance: f64,
}

/// What INFaaS is to keep to, and what loading costs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InfaasRule {
    /// Percent: variants below it get no replica.
    pub accuracy_least: f64,
    /// Requests/s to be ready for on top of the demand.
    pub slack_rps: f64,
    /// λ of its objective: a second of loading a replica counts as so much of its cost.
    pub loading_weight_per_s: f64,
}

/// What Themis goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThemisRule {
    /// Cores of a replica that is started because the load has lasted.
    pub horizontal_cores: u32,
    /// Cores by which what runs may exceed what is needed: noise in the demand shall not resize.
    pub tolerance: f64,
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

/// λ = headroom × the greater of a smoothed and a recent greatest rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DemandRule {
    /// Time constant of the exponential average.
    pub smoothing: Duration,
    /// How far back the greatest rate is looked for.
    pub window: Duration,
    /// The span over which that rate is a mean.
    pub moving: Duration,
    /// 1 or more.
    pub headroom: f64,
    /// Time for which bursts are remembered.
    pub bursts: Duration,
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

impl ServiceFile {
    /// Reads and checks a service file.
    ///
    /// # Errors
    /// The first thing that is wrong, with the key's path, the value and what is allowed.
    pub fn from_yaml(text: &str) -> Result<ServiceFile, ConfigError> {
        ServiceFile::shape(text)?.try_into()
    }

    /// The shape of a service file of no more than [`FILE_BYTES_MAX`].
    fn shape(text: &str) -> Result<ServiceSpec, ConfigError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge(text.len()));
        }
        ServiceSpec::from_yaml(text)
    }
}

impl Service {
    /// The service of a file.
    ///
    /// # Errors
    /// As [`ServiceFile::from_yaml`] has them.
    pub fn from_yaml(text: &str) -> Result<Service, ConfigError> {
        Ok(ServiceFile::from_yaml(text)?.service)
    }

    /// The service of a resource of that name.
    ///
    /// # Errors
    /// The first thing that is wrong, with the key's path, the value and what is allowed.
    pub fn from_resource(name: &str, spec: ServiceSpec) -> Result<Service, ConfigError> {
        check::of_resource(name, spec)
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

#[cfg(test)]
pub(crate) mod tests;
