//! Requests of a replay and their outcomes. All times count from the scenario's start.

use std::time::Duration;

use serde::Serialize;
use weir_planner::telemetry::status::ServiceTimeReport;

/// Default time a client waits for an answer.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Request with everything that is fixed before the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Index in sending order, from 0; also the stream id.
    pub id: u32,
    /// Time at which the client sends it.
    pub sent: Duration,
    /// Time at which its head is at the proxy.
    pub head: Duration,
    /// Time at which all of it is at the proxy: sending time plus uplink latency. The body arrives at an even
    /// rate between `head` and `arrives`.
    pub arrives: Duration,
    /// Size of its body, bytes.
    pub bytes: u64,
    /// Latency objective: from sending to the answer's arrival at the client.
    pub budget: Duration,
    /// Network latency of the answer, from the proxy to the client.
    pub way_back: Duration,
    /// Speed at which the client reads the answer.
    pub reading: Reading,
    /// Offset of the client's clock from the proxy's, ms; positive if it is ahead.
    pub skew_ms: i32,
    /// Minimum accuracy, percent; 0 for no minimum.
    pub min_accuracy: f64,
    /// Index of its class in [`super::scenario::Scenario::classes`].
    pub class: u16,
    /// Time the client waits for an answer before it disconnects.
    pub timeout: Duration,
    /// Number of retries of the client after a 429 or 503.
    pub retries: u8,
}

impl Request {
    /// Creates a request without body and without network latency, from a client with a long timeout.
    #[must_use]
    pub fn new(id: u32, sent: Duration, budget: Duration) -> Request {
        Request {
            id,
            sent,
            head: sent,
            arrives: sent,
            bytes: 0,
            budget,
            way_back: Duration::ZERO,
            reading: Reading::default(),
            skew_ms: 0,
            min_accuracy: 0.0,
            class: 0,
            timeout: TIMEOUT_DEFAULT,
            retries: 0,
        }
    }

    /// Time by which the answer must be at the client.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.sent + self.budget
    }

    /// Time by which the answer must leave the proxy to reach the client on time.
    #[must_use]
    pub fn due(&self) -> Duration {
        self.deadline()
            .saturating_sub(self.way_back + self.reading.longer)
    }
}

/// Extra time of a client that reads its answer slowly. Zero for a client that reads at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Time from which a fast client would have all of the answer until this one has.
    pub longer: Duration,
    /// Time from the answer's first byte at the proxy until the proxy has all of it. Unread bytes fill the
    /// proxy's buffer; the rest stays at the server.
    pub at_proxy: Duration,
}

/// Result of a request. Every request has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Answered by a variant; its index in [`super::scenario::Scenario::variants`].
    Answered(u16),
    /// Rejected by the proxy; the label of the reason (`timeout` for a route's timeout).
    Refused(&'static str),
    /// Client disconnected at its timeout.
    Disconnected,
    /// Lost in a crash or restart.
    Lost,
}

/// Outcome of a request as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// [`Request::id`].
    pub request: u32,
    /// Result.
    pub fate: Fate,
    /// Time at which the client sees the end.
    pub ended: Duration,
    /// Time at which it was sent upstream, if it was.
    pub dispatched: Option<Duration>,
}

/// Passage of a request through one stage of a pipeline, in its client's last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// Index of the variant it was sent to; means nothing unless it was dispatched.
    pub variant: u16,
    /// Time at which it was at a proxy of the stage.
    pub arrived: Option<Duration>,
    /// Time at which it was sent upstream.
    pub dispatched: Option<Duration>,
    /// Start and end of its execution.
    pub executed: Option<(Duration, Duration)>,
}

impl Passage {
    /// Passage of a request that has not reached the stage.
    pub const NONE: Passage = Passage {
        variant: 0,
        arrived: None,
        dispatched: None,
        executed: None,
    };
}

/// Results of one contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Play {
    /// Name of the contender.
    pub contender: String,
    /// One for each request, in request order.
    pub outcomes: Vec<Outcome>,
    /// Passages of each request through all stages of a pipeline, in request order; empty if there is one stage.
    pub passages: Vec<Passage>,
    /// One for each second, in time order.
    pub seconds: Vec<Second>,
    /// Cores of a replica of each variant at the start; empty if they are the scenario's.
    pub initial: Vec<f64>,
    /// Every change of the actual cores, in time order, until the last request has ended.
    pub resizes: Vec<Resize>,
    /// Actual cores × seconds, over all variants.
    pub core_seconds: f64,
    /// Actual cores × seconds of each variant.
    pub variant_core_seconds: Vec<f64>,
    /// Times at which a plan was published that differs from the one before.
    pub plans: Vec<Duration>,
    /// Number of simulated events, the unit of throughput.
    pub events: u64,
}

/// Results of one contender with several services.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedPlay {
    /// Name of the contender.
    pub contender: String,
    /// One for each service, in their order.
    pub plays: Vec<Play>,
    /// Parts of the budget from the start on, and each change of them, in time order.
    pub parts: Vec<Parts>,
    /// Most cores that all services together had reserved at a division, in steps.
    pub reserved_max: u32,
}

/// Parts of a shared budget from a time on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Time.
    pub at: Duration,
    /// Part of each service, in steps.
    pub steps: Vec<u32>,
}

/// Change of a variant's actual cores, or of its replicas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resize {
    /// Time of the change.
    pub at: Duration,
    /// Index of the variant in [`super::scenario::Scenario::variants`].
    pub variant: u16,
    /// Actual cores of all its replicas from then on.
    pub cores: f64,
    /// Number of executions at once, over its replicas that serve.
    pub slots: u32,
    /// Cores of the largest of these.
    pub each: f64,
}

/// State of the control plane at the end of one second; lists are in variant order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Second {
    /// Demand with headroom, as the planner forecast it, requests/s; `None` for a contender without planner.
    pub demand_rps: Option<f64>,
    /// Target cores.
    pub cores_target: Vec<f64>,
    /// Actual cores.
    pub cores_actual: Vec<f64>,
    /// Quotas of the current plan.
    pub shares: Vec<f64>,
    /// Measured service times, with a planner; no part of the report's file.
    #[serde(skip)]
    pub service_times: Vec<ServiceTimeReport>,
}
