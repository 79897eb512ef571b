//! Validation of the policy and of its parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule::{rule, within};
use super::{ConfigError, InfaasRule, IpaRule, Policy, SpongeRule, ThemisRule};
use crate::solve::{ipa, themis};

/// Weights are relative to each other; more than a thousandfold is a typing error.
pub(super) const WEIGHT_MAX: f64 = 1000.0;
/// One second of loading costs at most a whole replica.
const LOADING_WEIGHT_MAX: f64 = 1.0;

/// Optimization problem that is solved each cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RawPolicy {
    /// Variants, cores of each, and shares of the traffic.
    #[default]
    Infadapter,
    /// Cores and batch size of one variant, for the demand and the network latencies of the clients.
    Sponge,
    /// A pipeline: one variant of each stage, its replicas and its batch size.
    Ipa,
    /// Replicas of each variant, at minimum cost for the demand and a minimum accuracy.
    Infaas,
    /// A pipeline with one variant a stage: cores follow a burst, replicas follow persistent load.
    Themis,
}

/// Parameters of policy sponge.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawSponge {
    /// Cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentile of the latest requests' network latencies that is planned for.
    pub percentile: f64,
}

/// Weights of policy ipa: alpha × accuracy in percent − beta × cores − delta × batches.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawIpa {
    /// Weight of one percent of the pipeline's accuracy.
    pub alpha: f64,
    /// Weight of a core.
    pub beta: f64,
    /// Weight of one more request in a batch.
    pub delta: f64,
    /// The actual allocation is kept while its objective is within this of the optimum.
    pub tolerance: f64,
}

/// Parameters of policy infaas.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawInfaas {
    /// Minimum accuracy in percent; variants below it get no replica.
    pub accuracy_least: f64,
    /// Reserve on top of the demand, in requests/s.
    pub slack_rps: f64,
    /// Cost of one second of loading a replica, as a fraction of the replica's cost.
    pub loading_weight_per_s: f64,
}

/// Parameters of policy themis.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawThemis {
    /// Cores of a replica that is started because high load has persisted.
    pub horizontal_cores: u32,
    /// Cores by which the actual allocation may exceed the needed one before it is reduced.
    pub tolerance: f64,
}

impl Default for RawSponge {
    fn default() -> Self {
        // A batch never costs a core. One request in a hundred may have more network latency than planned
        // for.
        RawSponge {
            delta: 0.001,
            percentile: 99.0,
        }
    }
}

impl Default for RawIpa {
    fn default() -> Self {
        let ipa::Weights { alpha, beta, delta } = ipa::Weights::default();
        // A core is worth `beta`: noise in the demand must not move one.
        RawIpa {
            alpha,
            beta,
            delta,
            tolerance: beta,
        }
    }
}

impl Default for RawInfaas {
    fn default() -> Self {
        RawInfaas {
            accuracy_least: 0.0,
            slack_rps: 0.0,
            loading_weight_per_s: 0.01,
        }
    }
}

impl Default for RawThemis {
    fn default() -> Self {
        // By Amdahl's law the smallest replicas use a core best.
        RawThemis {
            horizontal_cores: 1,
            tolerance: 1.0,
        }
    }
}

impl RawPolicy {
    fn name(self) -> &'static str {
        match self {
            RawPolicy::Infadapter => "infadapter",
            RawPolicy::Sponge => "sponge",
            RawPolicy::Ipa => "ipa",
            RawPolicy::Infaas => "infaas",
            RawPolicy::Themis => "themis",
        }
    }
}

/// Returns the policy with its own parameters; refuses those of other policies.
pub(super) fn policy(
    raw: RawPolicy,
    sponge: Option<RawSponge>,
    ipa: Option<RawIpa>,
    infaas: Option<RawInfaas>,
    themis: Option<RawThemis>,
) -> Result<Policy, ConfigError> {
    for (given, of) in [
        (sponge.is_some(), RawPolicy::Sponge),
        (ipa.is_some(), RawPolicy::Ipa),
        (infaas.is_some(), RawPolicy::Infaas),
        (themis.is_some(), RawPolicy::Themis),
    ] {
        let right = format!("left out, unless policy is {}", of.name());
        rule(!given || raw == of, of.name(), "given", &right)?;
    }
    Ok(match raw {
        RawPolicy::Infadapter => Policy::Infadapter,
        RawPolicy::Sponge => {
            let RawSponge { delta, percentile } = sponge.unwrap_or_default();
            Policy::Sponge(SpongeRule {
                delta: within("sponge.delta", delta, 0.0..=WEIGHT_MAX, "cores")?,
                percentile: within("sponge.percentile", percentile, 1.0..=100.0, "percent")?,
            })
        }
        RawPolicy::Ipa => {
            let raw = ipa.unwrap_or_default();
            let weight =
                |name: &str, value| within(format!("ipa.{name}"), value, 0.0..=WEIGHT_MAX, "");
            Policy::Ipa(IpaRule {
                alpha: weight("alpha", raw.alpha)?,
                beta: weight("beta", raw.beta)?,
                delta: weight("delta", raw.delta)?,
                tolerance: weight("tolerance", raw.tolerance)?,
            })
        }
        RawPolicy::Infaas => {
            let raw = infaas.unwrap_or_default();
            let least = ("infaas.accuracy_least", raw.accuracy_least);
            let loading = ("infaas.loading_weight_per_s", raw.loading_weight_per_s);
            Policy::Infaas(InfaasRule {
                accuracy_least: within(least.0, least.1, 0.0..=100.0, "percent")?,
                slack_rps: within("infaas.slack_rps", raw.slack_rps, 0.0..=1e6, "requests/s")?,
                loading_weight_per_s: within(loading.0, loading.1, 0.0..=LOADING_WEIGHT_MAX, "")?,
            })
        }
        RawPolicy::Themis => {
            let raw = themis.unwrap_or_default();
            let cores = ("themis.horizontal_cores", raw.horizontal_cores);
            Policy::Themis(ThemisRule {
                horizontal_cores: within(cores.0, cores.1, 1..=themis::CORES_MAX, "whole cores")?,
                tolerance: within("themis.tolerance", raw.tolerance, 0.0..=WEIGHT_MAX, "cores")?,
            })
        }
    })
}
