//! Settings of policy sponge, as written and as checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::WEIGHT_MAX;
use crate::service::ConfigError;
use crate::service::rule::within;

/// Parameters of policy sponge.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawSponge {
    /// Cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentile of the latest requests' network latencies that is planned for.
    pub percentile: f64,
}

/// Settings of policy sponge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sponge {
    /// δ of its Eq. 3: cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentage of requests that arrive with at least the time left that is planned for.
    pub percentile: f64,
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

impl RawSponge {
    /// Checks the settings.
    pub(in crate::policy) fn checked(self) -> Result<Sponge, ConfigError> {
        let RawSponge { delta, percentile } = self;
        Ok(Sponge {
            delta: within("sponge.delta", delta, 0.0..=WEIGHT_MAX, "cores")?,
            percentile: within("sponge.percentile", percentile, 1.0..=100.0, "percent")?,
        })
    }
}
