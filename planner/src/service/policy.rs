//! The seam of the policies: from the demand and the actual capacity to the target, with the reason. Values in, values
//! out. The policies themselves are in [`crate::policy`].

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_api::{Cores, Rps};

use super::{AccuracyMix, ConfigError, Replicas, Service};
use crate::capacity::{Actual, Allocation, Target};
use crate::forecast::Forecast;
use crate::profile::Profile;

/// A way to plan: the problem that is solved each cycle. One implementation a file in [`crate::policy`].
pub trait Policy: Any + Debug + Send + Sync {
    /// Name in service files.
    fn name(&self) -> &'static str;

    /// Most variants of a stage, and the words that a refusal adds to that number.
    fn variants_max(&self) -> (usize, &'static str);

    /// Whether it plans pipelines of several stages.
    fn plans_pipelines(&self) -> bool {
        false
    }

    /// Checks a variant, whose path in the file is `at`.
    ///
    /// # Errors
    /// A value that the policy cannot plan with.
    fn check(&self, at: &str, variant: &VariantShape<'_>) -> Result<(), ConfigError>;

    /// Whether it plans with times on other cores or of other batches than the present ones, so that every variant needs a
    /// profile, and an accuracy.
    fn needs_profiles(&self) -> bool {
        true
    }

    /// Fraction of the rate that it plans with, where that follows from latency and parallelism alone.
    fn derived_utilisation(&self) -> f64 {
        1.0
    }

    /// Minimum accuracy in percent: variants below it get no replica.
    fn accuracy_min(&self) -> f64 {
        0.0
    }

    /// Inputs that it decides by beside the demand; all others are left out.
    fn needs(&self, _service: &Service) -> Needs {
        Needs::default()
    }

    /// Returns the target for these inputs. The time serves only the solver's limit.
    fn decide(&self, service: &Service, actual: &[Actual], inputs: Inputs) -> Decision;

    /// Rate that capacity must carry at each step of a rollout: less than the forecast's demand where part of that can wait.
    fn to_carry(&self, service: &Service, inputs: Inputs) -> Rps {
        inputs.forecast.planned(service.utilisation_max())
    }

    /// Batch of each variant, by the allocations and the present demand; its profile's unless the policy chooses. A plan
    /// must hold for the actual capacity at each step of a rollout, so the batch follows from that, not from the target.
    fn batches(
        &self,
        service: &Service,
        _allocations: &[Allocation],
        _inputs: Option<Inputs>,
    ) -> Vec<u32> {
        let profiles = service.variants.iter().map(|variant| &variant.profile);
        profiles.map(|profile| profile.batch).collect()
    }

    /// Whether it chooses batches, of one request and more.
    fn chooses_batches(&self) -> bool {
        false
    }

    /// Rule by which replicas end when the target is fewer.
    fn scale_down(&self) -> ScaleDown {
        ScaleDown::Stabilized
    }

    /// Distance from the optimum, in its objective, within which the actual capacity is kept.
    fn tolerance(&self, _service: &Service) -> f64 {
        0.0
    }
}

/// The policy of a service. Two are equal when their names and settings are.
#[derive(Debug, Clone)]
pub struct SharedPolicy(Arc<dyn Policy>);

impl SharedPolicy {
    /// Shares a policy.
    pub fn new(policy: impl Policy) -> SharedPolicy {
        SharedPolicy(Arc::new(policy))
    }

    /// Returns the policy with its settings, if it is of that type.
    pub fn downcast<P: Policy>(&self) -> Option<&P> {
        let policy: &dyn Any = &*self.0;
        policy.downcast_ref()
    }
}

impl Deref for SharedPolicy {
    type Target = dyn Policy;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for SharedPolicy {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// The parts of a variant that policies have rules about.
#[derive(Debug)]
pub struct VariantShape<'a> {
    /// Its profile.
    pub profile: &'a Profile,
    /// Step in which its cores are given.
    pub step: Cores,
    /// Fewest cores of a replica, in steps.
    pub min: u32,
    /// Most cores of a replica, in steps.
    pub max: u32,
    /// Most cores that a replica could have, in steps: those of the budget, or of one pod.
    pub highest: u32,
    /// Replicas that it may have.
    pub replicas: Replicas,
}

/// Inputs of a decision beside the actual capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inputs {
    /// Demand.
    pub forecast: Forecast,
    /// Time that most requests have left at least when they arrive, in ms: the SLO less the network latency and the rest
    /// of the pipeline. `None` where too few clients said when they sent, or the policy does not ask.
    pub left_ms: Option<f64>,
    /// Accuracies that the demand requires. `None` where too few requests have come, or the policy does not ask.
    pub accuracies: Option<AccuracyMix>,
}

impl Inputs {
    /// A demand that is known for long and does not change.
    pub fn steady(demand: Rps) -> Inputs {
        Inputs {
            forecast: Forecast {
                demand,
                present: demand,
                mean: demand,
                average: demand,
                growth: Rps(0.0),
                extrapolated: Rps(0.0),
                arriving: demand,
                rises: false,
                window_full: true,
                lasted: None,
            },
            left_ms: None,
            accuracies: None,
        }
    }

    /// The same, as if the demand to plan for were there already.
    #[must_use]
    pub fn as_if_present(mut self) -> Inputs {
        self.forecast.present = self.forecast.demand;
        self
    }
}

/// Inputs that a policy asks for beside the demand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Needs {
    /// Time that requests have left.
    pub left: Option<TimeLeft>,
    /// Demand that has lasted ([`Forecast::lasted`]).
    pub lasted: bool,
    /// Accuracies that the demand requires.
    pub accuracies: bool,
    /// Growth of a rise, slow ([`Forecast::growth`]) or steep ([`Forecast::extrapolated`]).
    pub growth: bool,
}

/// Percentile of the time that requests have left.
#[derive(Debug, Clone, Copy)]
pub struct TimeLeft {
    /// Percent of the requests that have at least that time left.
    pub percentile: f64,
    /// Time below which no cores can serve a request, in ms: requests with less do not count.
    pub min_ms: f64,
}

/// Rule by which replicas end when the target is fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleDown {
    /// After the stabilization window.
    Stabilized,
    /// After the window, but at once where a variant is to have none: another one of its stage takes over, and would
    /// share the requests that fill its batches.
    StabilizedAboveZero,
    /// At once: the policy stabilizes by itself.
    Immediate,
}

/// Target of a cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// In the variants' order.
    pub targets: Vec<Target>,
    /// Result of the solve.
    pub status: SolveStatus,
    /// Whether the actual capacity was preferred to an optimum within the tolerance.
    pub kept: bool,
    /// Why, in a sentence.
    pub why: String,
    /// Objective of the target: by InfAdapter α·AA − (β·RC + γ·LC), by Sponge −(c + δ·b), by IPA
    /// α·PAS − β·Σ n·R − δ·Σ b, by INFaaS −Σ C·(δ + λ·T_load·max(δ, 0)), by Themis −Σ n·c.
    pub objective: Option<f64>,
    /// Objective of the optimum, or of the best found.
    pub optimum: Option<f64>,
}

/// Result of a solve; a closed list, for labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SolveStatus {
    /// There was nothing to solve for.
    NoDemand,
    /// A variant has no profile: cores are not planned.
    NoProfile,
    /// Proven.
    Optimal,
    /// Time ran out; the gap is in the why.
    Good,
    /// Demand above all capacity.
    Infeasible,
    /// Time ran out with nothing in hand.
    OutOfTime,
}

impl SolveStatus {
    /// All of them.
    pub const ALL: [SolveStatus; 6] = [
        SolveStatus::NoDemand,
        SolveStatus::NoProfile,
        SolveStatus::Optimal,
        SolveStatus::Good,
        SolveStatus::Infeasible,
        SolveStatus::OutOfTime,
    ];

    /// The name in metrics and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            SolveStatus::NoDemand => "no-demand",
            SolveStatus::NoProfile => "no-profile",
            SolveStatus::Optimal => "optimal",
            SolveStatus::Good => "good",
            SolveStatus::Infeasible => "infeasible",
            SolveStatus::OutOfTime => "out-of-time",
        }
    }
}
