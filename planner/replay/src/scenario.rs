//! Checked form of a scenario file: every value of a [`Scenario`] is valid.

mod contender;
mod control;
mod fault;
mod ipa;
mod load;
mod proxies;
mod raw;
mod read;
mod refused;
mod renamed;
mod replicated;
mod schema;
mod sending;
mod sent;
mod server;
mod shared;
mod throughput;

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_api::Cores;
use weir_sim::server::{BatchWindow, Latency, Parallelism};

use weir_planner::service::{Service, Stage};

pub use ipa::{IpaAccuracy, IpaPredictor, IpaRule};
pub use read::{
    FieldError, Overrides, SCENARIO_BYTES_MAX, ScenarioFile, first_error, read, read_any,
    read_any_text, read_sent, read_text,
};
pub use schema::schema;
pub use shared::{DivisionRule, SharedContender, SharedScenario, SharingService};

/// Checked scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Name in the report.
    pub name: String,
    /// Seed of all random numbers, unless the command line gives another.
    pub seed: u64,
    /// Duration of the load; the run ends when the last request has ended.
    pub length: Duration,
    /// Service as its planner knows it (the planner's service file, without addresses).
    pub service: Service,
    /// Servers as they really are, in the order of the service's variants.
    pub variants: Vec<Server>,
    /// Classes of requests, the default one first.
    pub classes: Vec<String>,
    /// The proxies.
    pub proxies: Proxies,
    /// Contenders to play.
    pub contenders: Vec<Contender>,
    /// Faults, by time.
    pub faults: Vec<Fault>,
}

impl Scenario {
    /// Variants of each stage of the pipeline, or of the only one.
    pub fn stages(&self) -> impl Iterator<Item = Range<usize>> {
        stages(&self.service)
    }

    /// Throughput of the servers with their initial cores, requests/s: the least of all stages.
    #[must_use]
    pub fn capacity_rps(&self) -> f64 {
        capacity_rps(&self.service, &self.variants)
    }
}

/// Variants of each stage.
fn stages(service: &Service) -> impl Iterator<Item = Range<usize>> {
    let (all, count) = (service.variants.len(), service.stages.len());
    let variants = move |stage: &Stage| match count {
        1 => 0..all,
        _ => stage.variants.clone(),
    };
    service.stages.iter().map(variants)
}

/// Throughput of the servers with their initial cores: the least of all stages.
fn capacity_rps(service: &Service, servers: &[Server]) -> f64 {
    let of_stage = |variants: Range<usize>| -> f64 {
        let servers = servers.get(variants).unwrap_or_default();
        servers.iter().map(Server::capacity_rps).sum()
    };
    stages(service).map(of_stage).fold(f64::INFINITY, f64::min)
}

/// Server of one variant, which the planner's profile may describe wrongly.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Name of the variant.
    pub name: String,
    /// Latency model.
    pub latency: Latency,
    /// Number of batches executed at once.
    pub parallelism: Parallelism,
    /// Maximum batch size.
    pub batch_max: u32,
    /// Batch window: maximum wait for a batch to fill.
    pub batch_delay: Duration,
    /// Begin of that window.
    pub batch_window: BatchWindow,
    /// Standard deviation of the service time's logarithm; 0 for constant times.
    pub noise_sigma: f64,
    /// Time from loading to the first answer, if it had no cores.
    pub readiness: Duration,
    /// Time from requesting other cores to having them.
    pub resize_delay: Duration,
    /// Round trip between proxy and server, without the execution: half of it each way.
    pub round_trip: Duration,
    /// Initial cores, of each replica.
    pub cores: f64,
    /// Initial replicas of a variant whose replicas start and end; `None` if it is one server.
    pub replicas: Option<u32>,
}

/// Identical proxies.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxies {
    /// Number of proxies of each stage; requests are spread evenly over them.
    pub count: u32,
    /// Workers of each proxy.
    pub workers: u32,
    /// Configuration of the filter as JSON, as in Envoy; the static plan is added if missing.
    pub plugin: serde_json::Value,
    /// The same for each stage of a pipeline after the first.
    pub later_plugins: Vec<serde_json::Value>,
    /// Time from publishing a plan until a worker obeys it.
    pub plan_delay: Duration,
    /// Time from a worker's notification until the other worker wakes.
    pub notify_delay: Duration,
    /// Choice among the replicas of a variant.
    pub load_balancing: LoadBalancing,
}

impl Proxies {
    /// Configuration of the filter at a stage.
    pub(crate) fn plugin_of(&self, stage: usize) -> &serde_json::Value {
        let later = stage
            .checked_sub(1)
            .and_then(|index| self.later_plugins.get(index));
        later.unwrap_or(&self.plugin)
    }
}

/// Envoy's choice among the ready replicas of a variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadBalancing {
    /// Fewest requests in flight from this proxy, of all servers (Envoy's `FULL_SCAN`), if they execute one request at a
    /// time; as [`LoadBalancing::LeastRequest`] if they make batches, which would fill less. As
    /// `envoy/weir.yaml` and the manifests for Istio have it.
    #[default]
    FullScan,
    /// The one of two at random, which may be the same twice, with fewer requests in flight from this proxy: Envoy's
    /// default, and all that Envoy Gateway can express.
    LeastRequest,
    /// In turn, by each worker.
    RoundRobin,
}

impl LoadBalancing {
    /// Choice among servers that execute at most `batch` requests together.
    #[must_use]
    pub fn of_batches(self, batch: u32) -> LoadBalancing {
        match self {
            LoadBalancing::FullScan if batch > 1 => LoadBalancing::LeastRequest,
            other => other,
        }
    }
}

/// Data plane with a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// Decides about requests.
    pub plane: Plane,
    /// Decides about cores and shares.
    pub control: Control,
    /// Circuit breaker in requests, in place of that by capacity and objective; of `fifo-timeout` alone.
    pub breaker: Option<u32>,
}

/// Data plane of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plane {
    /// The filter's engine, one for each worker of each proxy; a proxy's workers share a queue.
    Weir,
    /// A single engine for everything: the upper bound of any sharing.
    WeirGlobal,
    /// The engine with a separate queue, and a part of the slots, for each worker.
    EdfPerWorker,
    /// The engine with service times of 0: EDF without feasibility check.
    EdfWithoutFeasibility,
    /// The engine with deadlines counted from the request's arrival at the proxy.
    GatewayReceipt,
    /// Forwards at once, round robin over the variants; the servers queue.
    FifoRoundRobin,
    /// Forwards at once by static weights, proportional to capacity.
    FifoWeights,
    /// Forwards at once by the quotas of the current plan: InfAdapter's dispatcher.
    FifoQuotas,
    /// Forwards at once by weighted least request, with the objective as route timeout: the demo's *careful*.
    FifoTimeout,
}

/// Control plane of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The planner's cycle.
    Planner,
    /// The planner's cycle with the load known in advance, and the same delays: a plan of somebody who knows the
    /// future.
    Clairvoyant,
    /// Cores keep their initial values.
    Static,
    /// One variant has that many cores, the others none.
    StaticAt {
        /// Index of the variant.
        variant: usize,
        /// Its cores.
        cores: Cores,
    },
    /// Kubernetes' HorizontalPodAutoscaler with its documented defaults; a pod is a replica, or has one step of cores.
    Hpa,
    /// Kubernetes' VerticalPodAutoscaler with its recommender's defaults, resizing in place.
    Vpa,
    /// InfAdapter's VPA+: one variant, on the cores that the VPA's recommender gives it.
    VpaPlus {
        /// Index of the variant.
        variant: usize,
    },
    /// InfAdapter's MS+: one variant at a time.
    MsPlus,
    /// InfAdapter as its published program is.
    InfadapterCode,
    /// SM+ as INFaaS' published program has it: each running variant is a group of replicas by itself.
    SmPlus,
    /// INFaaS' heuristic as its paper has it, with the program's reserve and delays.
    InfaasPaper,
    /// FA2 as Sponge's published program has it: instances of one core of one variant.
    Fa2 {
        /// Index of the variant.
        variant: usize,
    },
    /// Sponge's Algorithm 1, as the paper means it, for one variant.
    SpongePaper {
        /// Index of the variant.
        variant: usize,
    },
    /// Sponge as its published program is, for one variant.
    SpongeCode {
        /// Index of the variant.
        variant: usize,
    },
    /// IPA, or RIM, the baseline of its paper. FA2 is IPA with one variant in each stage.
    Ipa {
        /// Rule of the decisions.
        rule: IpaRule,
        /// Accuracy that they weigh.
        accuracy: IpaAccuracy,
        /// Predictor of the load.
        predictor: IpaPredictor,
    },
}

/// Fault at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Time of the fault.
    pub at: Duration,
    /// Kind of the fault.
    pub what: FaultKind,
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A proxy restarts; its queued and in-flight requests are lost.
    ProxyRestart {
        /// Index of the proxy.
        proxy: u32,
    },
    /// A worker's VM traps; its queued requests are lost, its in-flight requests are answered 503.
    WorkerTrap {
        /// Index of the proxy.
        proxy: u32,
        /// Index of the worker.
        worker: u32,
    },
    /// The planner runs no cycle.
    PlannerOutage {
        /// Duration.
        lasts: Duration,
    },
    /// Scrapes of all proxies fail.
    ScrapeLoss {
        /// Duration.
        lasts: Duration,
    },
    /// A variant's server crashes and comes back.
    ServerCrash {
        /// Index of the variant.
        variant: usize,
        /// Duration.
        lasts: Duration,
    },
    /// One replica of a variant crashes and comes back.
    ReplicaCrash {
        /// Index of the variant.
        variant: usize,
        /// The replica.
        replica: ReplicaChoice,
        /// Duration, without the time until it is ready again.
        lasts: Duration,
    },
    /// A variant's server answers 404, as a server does that has not loaded its model.
    ServerErrors {
        /// Index of the variant.
        variant: usize,
        /// Duration.
        lasts: Duration,
    },
    /// A variant's server executes more slowly.
    ServerSlow {
        /// Index of the variant.
        variant: usize,
        /// Execution time in percent of the normal one (300: three times as long).
        percent: u32,
        /// Duration.
        lasts: Duration,
    },
    /// A worker's next wake-up is lost.
    LostNotification {
        /// Index of the proxy.
        proxy: u32,
        /// Index of the worker.
        worker: u32,
    },
    /// The next plan does not reach a proxy.
    LostPlan {
        /// Index of the proxy.
        proxy: u32,
    },
    /// Resizes that are requested meanwhile fail, or take longer.
    Resize {
        /// Fault.
        fault: ResizeFault,
        /// Index of the variant; `None` for all.
        variant: Option<usize>,
        /// Duration.
        lasts: Duration,
    },
    /// Resizes under way have no effect.
    ResizeInterrupted {
        /// Index of the variant; `None` for all.
        variant: Option<usize>,
    },
}

/// Fault of a resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResizeFault {
    /// It is refused.
    Refused,
    /// It is refused, if it grows: the nodes can never hold it.
    Infeasible,
    /// It takes effect when the fault ends.
    Deferred,
    /// It takes longer.
    Late {
        /// Its time in percent of the usual one (300: three times as long).
        percent: u32,
    },
}

/// Choice among the replicas of a variant that serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaChoice {
    /// Place in the order of their start, from 0; the last if there are fewer.
    Place(u32),
    /// Any: this number modulo their count.
    Random(u32),
}

#[cfg(test)]
mod tests;
