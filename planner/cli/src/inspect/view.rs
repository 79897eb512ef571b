//! Status of a service, as the REST API gives it. Unknown keys are ignored, so that another version's status is readable.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Status of a service.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StatusView {
    pub(crate) service: String,
    pub(crate) mode: String,
    pub(crate) slo_ms: f64,
    pub(crate) budget_cores: f64,
    pub(crate) revision: Option<u64>,
    pub(crate) plan: Option<PlanView>,
    pub(crate) leader: LeaderView,
    pub(crate) proxies: BTreeMap<String, ProxyView>,
    #[serde(default)]
    pub(crate) stages: BTreeMap<String, StageView>,
    /// Missing from planners before this version.
    #[serde(default)]
    pub(crate) requests: Option<RequestsView>,
    pub(crate) latest: Option<CycleView>,
    #[serde(default)]
    pub(crate) cycles: Vec<CycleView>,
}

/// Requests by outcome.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RequestsView {
    pub(crate) on_time_target: f64,
    pub(crate) waiting: Option<u64>,
    #[serde(default)]
    pub(crate) windows: Vec<WindowView>,
}

/// Requests of one window.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WindowView {
    pub(crate) window_s: f64,
    pub(crate) arrivals: u64,
    pub(crate) ended: u64,
    pub(crate) on_time: u64,
    pub(crate) late: u64,
    pub(crate) failed: u64,
    pub(crate) client_disconnects: u64,
    #[serde(default)]
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) on_time_share: Option<f64>,
    pub(crate) error_budget_left: Option<f64>,
    pub(crate) accuracy_percent: Option<f64>,
    pub(crate) wait_ms: Option<DistributionView>,
    pub(crate) dispatch_slack_ms: Option<DistributionView>,
    /// Missing from planners before this version.
    #[serde(default)]
    pub(crate) latency_ms: Option<DistributionView>,
}

/// Percentiles of a time.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct DistributionView {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
}

/// Leadership.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LeaderView {
    pub(crate) leads: bool,
    pub(crate) address: Option<String>,
    pub(crate) refuses: Option<String>,
}

/// Plan.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PlanView {
    pub(crate) revision: u64,
    pub(crate) max_age_ms: f64,
    pub(crate) variants: Vec<PlanVariant>,
}

/// Variant of a plan.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PlanVariant {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) grpc_cluster: Option<String>,
}

/// Stage of a pipeline.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StageView {
    pub(crate) plan: Option<PlanView>,
    pub(crate) proxies: BTreeMap<String, ProxyView>,
}

/// Proxy that polls.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ProxyView {
    pub(crate) role: String,
    pub(crate) variant: Option<String>,
    /// Missing from planners, and `null` from filters, before this version.
    #[serde(default)]
    pub(crate) version: Option<String>,
    pub(crate) revision: u64,
    pub(crate) age_ms: f64,
    #[serde(default)]
    pub(crate) waiting: bool,
    #[serde(default)]
    pub(crate) slots: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) confirmed: bool,
    pub(crate) refused: Option<String>,
}

/// One cycle.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CycleView {
    pub(crate) at_ms: u64,
    pub(crate) measured_rps: Option<f64>,
    pub(crate) demand_rps: Option<f64>,
    #[serde(default)]
    pub(crate) scrapes_answered: u64,
    #[serde(default)]
    pub(crate) scrapes_failed: u64,
    #[serde(default)]
    pub(crate) proxies_without_weir: u64,
    pub(crate) outcome: String,
    #[serde(default)]
    pub(crate) kept: bool,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) resources: BTreeMap<String, ResourceView>,
    pub(crate) variants: BTreeMap<String, VariantView>,
}

/// Limited resource other than cores.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct ResourceView {
    pub(crate) used: f64,
    pub(crate) budget: f64,
}

/// Variant of a cycle.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct VariantView {
    pub(crate) cores_target: f64,
    pub(crate) cores_actual: f64,
    pub(crate) replicas_target: u64,
    pub(crate) replicas_ready: u64,
    pub(crate) share: f64,
    pub(crate) slots: u64,
    pub(crate) batch: u64,
    pub(crate) capacity_rps: f64,
    pub(crate) blocker: Option<BlockerView>,
    pub(crate) failing_ms: Option<f64>,
    pub(crate) service_time: ServiceTimeView,
}

/// Reason why a variant's actual state is not its target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct BlockerView {
    pub(crate) reason: String,
    pub(crate) why: String,
}

/// Measured service time.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ServiceTimeView {
    pub(crate) state: String,
    pub(crate) measured_ratio: Option<f64>,
    pub(crate) correction: f64,
    pub(crate) drift_ms: Option<f64>,
    /// Missing from planners before this version, where every variant has one.
    #[serde(default = "has_profile")]
    pub(crate) has_profile: bool,
    #[serde(default)]
    pub(crate) executions: u64,
    #[serde(default)]
    pub(crate) profile_ms: Option<f64>,
}

const fn has_profile() -> bool {
    true
}

impl ServiceTimeView {
    /// Time measured of a variant without a profile, in ms.
    pub(crate) fn measured_ms(&self) -> Option<f64> {
        let measured = self.measured_ratio.zip(self.profile_ms);
        measured.map(|(ratio, start_ms)| ratio * start_ms)
    }

    /// Words about a variant without a profile.
    pub(crate) fn without_profile(&self) -> Option<String> {
        let measured = match self.measured_ms() {
            Some(ms) => format!("measured {ms:.0} ms over {} executions", self.executions),
            None if (self.correction - 1.0).abs() < 0.005 => "nothing measured yet".to_owned(),
            None => "nothing measured of late".to_owned(),
        };
        (!self.has_profile).then(|| format!("no profile; {measured}"))
    }
}

impl StatusView {
    /// Plans and proxies by the name that proxies poll for: the service's, or each stage's of a pipeline.
    pub(crate) fn polled(&self) -> Vec<(&str, Option<&PlanView>, &BTreeMap<String, ProxyView>)> {
        if self.stages.is_empty() {
            return vec![(&self.service, self.plan.as_ref(), &self.proxies)];
        }
        let stages = self.stages.iter();
        stages
            .map(|(name, stage)| (name.as_str(), stage.plan.as_ref(), &stage.proxies))
            .collect()
    }
}

impl CycleView {
    /// Whether what it decided, and what is in its way, are the same; numbers of its reason may differ.
    pub(crate) fn is_same_decision(&self, other: &CycleView) -> bool {
        let of = |cycle: &CycleView| -> Vec<(String, f64, u64, Option<BlockerView>)> {
            let variants = cycle.variants.iter();
            let decision = variants.map(|(name, variant)| {
                let blocker = variant.blocker.clone();
                let target = (variant.cores_target, variant.replicas_target);
                (name.clone(), target.0, target.1, blocker)
            });
            decision.collect()
        };
        self.outcome == other.outcome && of(self) == of(other)
    }
}
