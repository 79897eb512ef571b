//! What is replayed: the checked form of a scenario file. What gets here is true.

mod contender;
mod fault;
mod load;
mod place;
mod proxies;
mod raw;
mod read;
mod refused;
mod sending;
mod server;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_sim::server::{Law, Parallelism};

use weir_planner::service::Service;

pub use read::{Overrides, SCENARIO_BYTES_MAX, read};
pub use refused::{Refused, VALUE_MAX};
pub use sending::BYTES_MAX;

/// A scenario, checked.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it is called in the report.
    pub name: String,
    /// Seed of everything random, unless the command line names another.
    pub seed: u64,
    /// How long requests are sent; the run ends when the last of them has ended.
    pub length: Duration,
    /// The service as its planner knows it (the planner's own service file, without addresses).
    pub service: Service,
    /// The servers as they really are, in the order of the service's variants.
    pub variants: Vec<Server>,
    /// Classes of requests, the default one first.
    pub classes: Vec<String>,
    /// The proxies.
    pub proxies: Proxies,
    /// Which contenders play.
    pub contenders: Vec<Contender>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// One variant's server, which the planner's profile may or may not describe rightly.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// The variant's name.
    pub name: String,
    /// Its latency law.
    pub law: Law,
    /// How many batches at once.
    pub parallelism: Parallelism,
    /// Largest batch.
    pub batch_max: u32,
    /// How long a batch that is not full waits.
    pub batch_delay: Duration,
    /// Standard deviation of the service time's logarithm; 0 for none.
    pub noise_sigma: f64,
    /// From loading to the first answer, when it had no cores.
    pub readiness: Duration,
    /// From asking for other cores to having them.
    pub resize_delay: Duration,
    /// From the proxy to it and back, without the execution: half of it each way.
    pub round_trip: Duration,
    /// Cores at the start.
    pub cores: f64,
}

/// The proxies, all alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxies {
    /// How many; requests are spread over them evenly.
    pub count: u32,
    /// Workers of each.
    pub workers: u32,
    /// The filter's configuration as JSON, as in Envoy; the static plan is filled in.
    pub plugin: serde_json::Value,
    /// From publishing a plan to a worker obeying it.
    pub plan_delay: Duration,
    /// From one worker's ringing to the rung one's waking.
    pub ring_delay: Duration,
}

/// A data plane with a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// Who decides about a request.
    pub plane: Plane,
    /// Who decides about cores and shares.
    pub control: Control,
}

/// Who decides about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plane {
    /// The filter's engine, one for each worker of each proxy; a proxy's workers share a queue.
    Weir,
    /// One engine for everything: what no sharing can beat.
    WeirGlobal,
    /// The engine with a queue, and a part of the slots, for each worker.
    EdfPerWorker,
    /// The engine told that service takes no time: EDF without feasibility.
    EdfWithoutFeasibility,
    /// The engine with deadlines counted from the request's arrival at the proxy.
    GatewayReceipt,
    /// Forwards at once, to each variant in turn; the servers queue.
    FifoRoundRobin,
    /// Forwards at once by static weights, proportional to capacity.
    FifoWeights,
    /// The same by weighted least request, with the route's timeout at the objective: the demo's *careful*.
    FifoTimeout,
}

/// Who decides about cores and shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// The planner's cycle.
    Planner,
    /// The cores stay as they are at the start.
    Static,
    /// Cores follow utilisation as an HPA's replicas would: every 15 s, towards 70 %, down only
    /// after five minutes.
    HpaLike,
    /// Cores follow the 90th percentile of use with a margin of 15 %, as VPA's recommender would.
    VpaLike,
}

/// Something that goes wrong at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at: Duration,
    /// What.
    pub what: FaultKind,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A proxy starts anew: what it held and had in flight is lost.
    ProxyRestart {
        /// Which.
        proxy: u32,
    },
    /// A worker's VM traps: what it held is lost, what it had in flight is answered 503.
    WorkerTrap {
        /// Its proxy.
        proxy: u32,
        /// Which.
        worker: u32,
    },
    /// The planner takes no turn for so long.
    PlannerOutage {
        /// How long.
        lasts: Duration,
    },
    /// Scrapes of all proxies fail for so long.
    ScrapeLoss {
        /// How long.
        lasts: Duration,
    },
    /// A variant's server crashes and is back after so long.
    ServerCrash {
        /// Index of the variant.
        variant: usize,
        /// How long it is away.
        lasts: Duration,
    },
    /// A variant's server answers 404 for so long, as one does that has not loaded its model.
    ServerErrors {
        /// Index of the variant.
        variant: usize,
        /// How long.
        lasts: Duration,
    },
    /// A variant's server takes longer for so long.
    ServerSlow {
        /// Index of the variant.
        variant: usize,
        /// How many times as long its executions take, in percent (300: three times).
        percent: u32,
        /// How long.
        lasts: Duration,
    },
    /// The next wake-up of a worker is lost.
    LostWake {
        /// Its proxy.
        proxy: u32,
        /// Which.
        worker: u32,
    },
    /// The next plan does not reach a proxy.
    LostPlan {
        /// Which.
        proxy: u32,
    },
    /// Resizes are refused for so long.
    ResizeRefused {
        /// How long.
        lasts: Duration,
    },
    /// Resizes are deferred for so long: they take effect when it is over.
    ResizeDeferred {
        /// How long.
        lasts: Duration,
    },
}

#[cfg(test)]
mod tests;
