//! The rules about whose problem is solved: `policy`, and the keys of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule::{rule, within};
use super::{ConfigError, InfaasRule, IpaRule, Policy, SpongeRule, ThemisRule};
use crate::solve::{ipa, themis};

/// Weights are relative to each other; more than a thousandfold is a slip of the pen.
pub(super) const WEIGHT_MAX: f64 = 1000.0;
/// A second of loading costs a whole replica at most.
const LOADING_WEIGHT_MAX: f64 = 1.0;

/// Whose problem is solved each cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RawPolicy {
    /// Which variants, with how many cores and what share of the traffic.
    #[default]
    Infadapter,
    /// Cores and batch of one variant, by demand and the requests' way from their clients.
    Sponge,
    /// A pipeline: one variant of each stage, its replicas and batch.
    Ipa,
    /// Replicas of each variant, as few as the demand and a least accuracy allow.
    Infaas,
    /// A pipeline of one variant a stage: a burst takes cores, what has lasted takes replicas.
    Themis,
}

/// What policy sponge weighs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawSponge {
    /// What a request more in a batch costs, in cores.
    pub delta: f64,
    /// Which of the latest requests' ways is planned for.
    pub percentile: f64,
}

/// What policy ipa weighs: alpha × accuracy in percent − beta × cores − delta × batches.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawIpa {
    /// Of a percent of the pipeline's accuracy.
    pub alpha: f64,
    /// Of a core.
    pub beta: f64,
    /// What a request more in a batch costs, in cores.
    pub delta: f64,
    /// What runs is kept within this of the best.
    pub tolerance: f64,
}

/// What policy infaas is to keep to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawInfaas {
    /// Percent.
    pub accuracy_least: f64,
    /// Requests/s on top of the demand.
    pub slack_rps: f64,
    /// A second of a replica's loading costs so much of a core.
    pub loading_weight_per_s: f64,
}

/// What policy themis goes by.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawThemis {
    /// Of a replica that starts because the load has lasted.
    pub horizontal_cores: u32,
    /// What runs is kept within this of the best.
    pub tolerance: f64,
}

impl Default for RawSponge {
    fn default() -> Self {
        // A batch never costs a core; one request in a hundred may come later than is planned for.
        RawSponge {
            delta: 0.001,
            percentile: 99.0,
        }
    }
}

impl Default for RawIpa {
    fn default() -> Self {
        let ipa::Weights { alpha, beta, delta } = ipa::Weights::default();
        // A core is worth `beta`: noise in the demand shall not move one.
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
        // By Amdahl's law the smallest replicas do most with a core.
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

/// The policy with its own keys, and those of no other.
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
