//! Scenario file as written: shape and defaults, without checks of values.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use weir_sim::server::BatchWindow;
use weir_solve::latency_model::LatencyOrSponge;

use super::{DivisionRule, IpaAccuracy, IpaPredictor, LoadBalancing, Plane};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScenario {
    pub(super) name: String,
    #[serde(default = "seed")]
    pub(super) seed: u64,
    pub(super) length_s: Option<u64>,
    /// Planner's service file; parsed after the keys that a replay does not need are filled in.
    pub(super) service: Value,
    #[serde(default)]
    pub(super) servers: BTreeMap<String, RawServer>,
    #[serde(default)]
    pub(super) proxies: RawProxies,
    pub(super) load: RawLoad,
    #[serde(default)]
    pub(super) network: RawNetwork,
    #[serde(default)]
    pub(super) payload_bytes: u64,
    #[serde(default)]
    pub(super) answer_bytes: u64,
    #[serde(default)]
    pub(super) clients: RawClients,
    #[serde(default)]
    pub(super) classes: Vec<RawClass>,
    pub(super) contenders: Option<Vec<RawContender>>,
    #[serde(default)]
    pub(super) faults: Vec<RawFault>,
}

/// Scenario of several services that share a budget.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawShared {
    pub(super) name: String,
    #[serde(default = "seed")]
    pub(super) seed: u64,
    pub(super) length_s: u64,
    pub(super) budget: RawBudget,
    pub(super) services: Vec<RawSharing>,
    pub(super) contenders: Option<Vec<RawSharedContender>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBudget {
    pub(super) cores: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSharing {
    pub(super) name: String,
    #[serde(default = "share")]
    pub(super) weight: f64,
    /// A [`RawScenario`] without the keys that all services have in common.
    pub(super) scenario: serde_json::Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSharedContender {
    pub(super) plane: Plane,
    pub(super) control: SharedControlName,
    /// Left out, the one that the control has by default.
    pub(super) division: Option<DivisionRule>,
}

/// Name of a control plane that keeps within its part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SharedControlName {
    Planner,
    Clairvoyant,
    Static,
    Hpa,
    SmPlus,
    InfaasPaper,
}

/// Server of one variant; missing keys default to the profile.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawServer {
    pub(super) latency: Option<LatencyOrSponge>,
    pub(super) throughput: Option<Vec<RawRate>>,
    /// `per-core` or a number.
    pub(super) parallelism: Option<Value>,
    pub(super) batch_max: Option<u32>,
    pub(super) batch_delay_ms: Option<f64>,
    #[serde(default)]
    pub(super) batch_window: BatchWindow,
    pub(super) noise_sigma: Option<f64>,
    pub(super) readiness_s: Option<f64>,
    pub(super) resize_delay_ms: Option<f64>,
    pub(super) round_trip_ms: Option<f64>,
}

/// Measured rate of the whole server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRate {
    pub(super) batch: u32,
    pub(super) rps: f64,
    /// Cores of the server; the variant's initial ones if missing.
    pub(super) cores: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawProxies {
    pub(super) count: u32,
    pub(super) workers: u32,
    pub(super) plugin: Value,
    pub(super) plan_delay_ms: f64,
    pub(super) notify_delay_ms: f64,
    pub(super) load_balancing: LoadBalancing,
}

/// Exactly one of `rates`, `generator`, `file` and `records`; each other key belongs to some of these.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLoad {
    pub(super) rates: Option<Vec<f64>>,
    pub(super) generator: Option<Generator>,
    pub(super) file: Option<String>,
    pub(super) records: Option<String>,

    pub(super) rps: Option<f64>,
    pub(super) low_rps: Option<f64>,
    pub(super) high_rps: Option<f64>,
    pub(super) period_s: Option<u64>,
    pub(super) at_s: Option<u64>,
    pub(super) low_s: Option<u64>,
    pub(super) high_s: Option<u64>,

    pub(super) key: Option<String>,
    pub(super) from_s: Option<u64>,
    #[serde(rename = "loop")]
    pub(super) again: Option<bool>,

    pub(super) ties: Option<bool>,
    pub(super) silence_s: Option<f64>,
    pub(super) budgets: Option<Budgets>,

    pub(super) scale: Option<f64>,
    pub(super) of_capacity: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Generator {
    Poisson,
    Diurnal,
    Burst,
    Ramp,
    Step,
    OnOff,
    Swell,
}

/// Source of the latency objectives of recorded requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Budgets {
    /// The records, where they have one.
    Recorded,
    /// The class, the clients or the service, as without records.
    Service,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawNetwork {
    #[default]
    None,
    #[serde(rename = "4g")]
    FourG,
    Constant(RawLink),
    File(RawLog),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub(super) bytes_per_s: f64,
    pub(super) round_trip_ms: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLog {
    pub(super) path: String,
    #[serde(default, rename = "loop")]
    pub(super) again: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawClients {
    pub(super) slo_ms: Option<u64>,
    pub(super) skew_ms: RawSkew,
    pub(super) timeout_ms: Option<u64>,
    pub(super) retries: u8,
    pub(super) slow_uploads: Option<RawSlow>,
    pub(super) slow_readers: Option<RawSlow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSlow {
    pub(super) share: f64,
    pub(super) bytes_per_s: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSkew {
    pub(super) normal: Option<f64>,
    pub(super) uniform: Option<f64>,
    pub(super) far_off: Option<f64>,
    pub(super) far_off_share: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClass {
    pub(super) name: String,
    #[serde(default = "share")]
    pub(super) share: f64,
    pub(super) slo_ms: Option<u64>,
    #[serde(default)]
    pub(super) min_accuracy: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawContender {
    pub(super) plane: Plane,
    pub(super) control: ControlName,
    pub(super) variant: Option<String>,
    pub(super) cores: Option<f64>,
    pub(super) accuracy: Option<IpaAccuracy>,
    pub(super) predictor: Option<IpaPredictor>,
    pub(super) breaker: Option<u32>,
}

/// Name of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ControlName {
    Planner,
    Clairvoyant,
    Static,
    Hpa,
    Vpa,
    VpaPlus,
    MsPlus,
    InfadapterCode,
    SmPlus,
    InfaasPaper,
    Fa2,
    SpongePaper,
    SpongeCode,
    IpaPaper,
    IpaCode,
    Rim,
}

/// Either `random` alone, or `at_s` and `what` with the keys of that fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFault {
    pub(super) random: Option<u32>,
    pub(super) at_s: Option<f64>,
    pub(super) what: Option<What>,
    pub(super) variant: Option<String>,
    /// `random` or a number.
    pub(super) replica: Option<Value>,
    pub(super) proxy: Option<u32>,
    pub(super) worker: Option<u32>,
    pub(super) lasts_s: Option<f64>,
    pub(super) percent: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum What {
    ProxyRestart,
    WorkerTrap,
    PlannerOutage,
    ScrapeLoss,
    ServerCrash,
    ServerErrors,
    ServerSlow,
    LostNotification,
    LostPlan,
    ResizeRefused,
    ResizeInfeasible,
    ResizeDeferred,
    ResizeLate,
    ResizeInterrupted,
}

impl Default for RawProxies {
    /// Two workers as in the demo. A plan is pushed over an open poll: it takes a round trip plus the time
    /// until the other workers' next tick; 50 ms is an assumption.
    fn default() -> Self {
        RawProxies {
            count: 1,
            workers: 2,
            plugin: Value::Object(serde_json::Map::new()),
            plan_delay_ms: 50.0,
            notify_delay_ms: 0.1,
            load_balancing: LoadBalancing::default(),
        }
    }
}

const fn seed() -> u64 {
    1
}

const fn share() -> f64 {
    1.0
}
