//! Settings of policy ipa, and their checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::WEIGHT_MAX;
use crate::service::ConfigError;
use crate::service::rule::within;
use crate::solve::ipa;

/// Weights of policy ipa: alpha × accuracy in percent − beta × cores − delta × batches.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawIpa {
    /// Weight of one percent of the pipeline's accuracy.
    pub alpha: f64,
    /// Weight of a core.
    pub beta: f64,
    /// Weight of one more request in a batch.
    pub delta: f64,
    /// The actual allocation is kept while its objective is within this of the optimum. Defaults to beta, a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
}

/// Settings of policy ipa: α·PAS − β·cores − δ·batches, PAS in percent (its Eq. 10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ipa {
    /// α: weight of a percent of the pipeline's accuracy.
    pub alpha: f64,
    /// β: weight of a core.
    pub beta: f64,
    /// δ: weight of a request in a batch.
    pub delta: f64,
    /// Distance from the optimum within which the actual allocation is kept while it carries the demand.
    pub tolerance: f64,
}

impl Default for RawIpa {
    fn default() -> Self {
        let ipa::Weights { alpha, beta, delta } = ipa::Weights::default();
        RawIpa {
            alpha,
            beta,
            delta,
            tolerance: None,
        }
    }
}

impl RawIpa {
    /// Checks the settings.
    pub(in crate::policy) fn checked(self) -> Result<Ipa, ConfigError> {
        let weight = |name: &str, value| within(format!("ipa.{name}"), value, 0.0..=WEIGHT_MAX, "");
        Ok(Ipa {
            alpha: weight("alpha", self.alpha)?,
            beta: weight("beta", self.beta)?,
            delta: weight("delta", self.delta)?,
            // A core weighs `beta`: noise in the demand shall not move one.
            tolerance: weight("tolerance", self.tolerance.unwrap_or(self.beta))?,
        })
    }
}
