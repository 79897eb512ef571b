//! What a replay is made of: requests before, and their fates after. All times count from the
//! scenario's start.

use std::time::Duration;

use serde::Serialize;

/// As long as a patient client waits.
const PATIENT: Duration = Duration::from_secs(30);

/// One request with everything about it that is fixed before the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Its place in the order of sending, from 0; also its stream's number.
    pub id: u32,
    /// When the client sends it.
    pub sent: Duration,
    /// Moment at which its head is at the proxy.
    pub head: Duration,
    /// Moment at which all of it is at the proxy: sending plus the network's way up. Between its head and then its
    /// body comes at an even rate.
    pub arrives: Duration,
    /// Bytes of its body.
    pub bytes: u64,
    /// From sending to the answer's arrival at the client: its latency objective.
    pub budget: Duration,
    /// The answer's way back to the client.
    pub way_back: Duration,
    /// How the client reads the answer.
    pub reading: Reading,
    /// How far the client's clock is ahead of the proxy's, in ms (behind: negative).
    pub skew_ms: i32,
    /// Least accuracy it asks for, percent; 0 where it asks for none.
    pub min_accuracy: f64,
    /// Index of its class in [`super::scenario::Scenario::classes`].
    pub class: u16,
    /// How long the client waits for an answer before it leaves.
    pub patience: Duration,
    /// How often the client asks again after a 429 or 503.
    pub retries: u8,
}

impl Request {
    /// One without a body from a patient client beside the proxy.
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
            patience: PATIENT,
            retries: 0,
        }
    }

    /// When the answer must be at the client.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.sent + self.budget
    }

    /// When the answer must leave the proxy to be with the client in time.
    #[must_use]
    pub fn due(&self) -> Duration {
        self.deadline()
            .saturating_sub(self.way_back + self.reading.longer)
    }
}

/// How a client reads its answer. As it comes where both are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// From the moment at which a quick client would have all of it until this one has.
    pub longer: Duration,
    /// From the answer's beginning at the proxy until the proxy has all of it: what a client that reads slowly
    /// leaves unread fills the proxy's buffer, and then stays at the server.
    pub at_proxy: Duration,
}

/// How a request ended. Every request ends exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// A variant answered; its index in [`super::scenario::Scenario::variants`].
    Answered(u16),
    /// The proxy refused it: the label of the reason (`timeout` for a route's timeout).
    Refused(&'static str),
    /// The client's patience ran out first.
    Gone,
    /// A crash or restart took it.
    Lost,
}

/// A request's end, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// [`Request::id`].
    pub request: u32,
    /// How it ended.
    pub fate: Fate,
    /// When, for the client.
    pub ended: Duration,
    /// When it was sent upstream, if it was.
    pub dispatched: Option<Duration>,
}

/// What one contender made of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Play {
    /// The contender's name.
    pub contender: String,
    /// One for each request, in the requests' order.
    pub outcomes: Vec<Outcome>,
    /// One for each second, in order.
    pub seconds: Vec<Second>,
    /// Every change of the cores in force, in order, until the last request has ended.
    pub resizes: Vec<Resize>,
    /// Cores × seconds in force, over all variants.
    pub core_seconds: f64,
    /// Moments at which a plan was published that says something else than the one before it.
    pub plans: Vec<Duration>,
    /// Events played: what throughput is counted in.
    pub events: u64,
}

/// A variant has other cores in force than before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resize {
    /// When.
    pub at: Duration,
    /// Index of the variant in [`super::scenario::Scenario::variants`].
    pub variant: u16,
    /// What is in force from then on.
    pub cores: f64,
}

/// The control plane at the end of one second of the scenario; lists are in the variants' order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Second {
    /// Demand the planner planned for, requests/s; `None` for a contender without a planner.
    pub demand_rps: Option<f64>,
    /// Cores the planner wants.
    pub cores_asked: Vec<f64>,
    /// Cores in force.
    pub cores_actuated: Vec<f64>,
    /// Quotas of the plan in force.
    pub shares: Vec<f64>,
}
