//! The rules about whose problem is solved: `policy`, and the keys of each.

use serde::Deserialize;

use super::rule::{rule, within};
use super::{ConfigError, InfaasRule, IpaRule, Policy, SpongeRule, ThemisRule};
use crate::solve::{ipa, themis};

/// Weights are relative to each other; more than a thousandfold is a slip of the pen.
pub(super) const WEIGHT_MAX: f64 = 1000.0;
/// A second of loading costs a whole replica at most.
const LOADING_WEIGHT_MAX: f64 = 1.0;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawPolicy {
    #[default]
    Infadapter,
    Sponge,
    Ipa,
    Infaas,
    Themis,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSponge {
    pub(super) delta: f64,
    pub(super) percentile: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawIpa {
    pub(super) alpha: f64,
    pub(super) beta: f64,
    pub(super) delta: f64,
    pub(super) tolerance: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawInfaas {
    pub(super) accuracy_least: f64,
    pub(super) slack_rps: f64,
    pub(super) loading_weight_per_s: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawThemis {
    pub(super) horizontal_cores: u32,
    pub(super) tolerance: f64,
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
