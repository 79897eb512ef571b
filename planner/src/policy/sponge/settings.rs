//! Settings of policy sponge, as written and as checked.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::WEIGHT_MAX;
use crate::service::ConfigError;
use crate::service::rule::within;

/// Percent of requests that may be late by chance: fewer cannot be told from none.
const LATE: RangeInclusive<f64> = 0.001..=100.0;

/// Parameters of policy sponge.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawSponge {
    /// Cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentile of the latest requests' network latencies that is planned for.
    pub percentile: f64,
    /// Percent of the next cycle's requests that may be late because others wait by chance. Below
    /// 100 it replaces `demand.headroom`; with 100 no such queue is counted.
    pub late_percent: f64,
}

/// Settings of policy sponge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sponge {
    /// δ of its Eq. 3: cost of one more request in a batch, in cores.
    pub delta: f64,
    /// Percentage of requests that arrive with at least the time left that is planned for.
    pub percentile: f64,
    /// Percentage of requests that may be late because others wait by chance; 100 for no such limit.
    pub late_percent: f64,
}

impl Default for RawSponge {
    fn default() -> Self {
        // A batch never costs a core. One request in a hundred may have more network latency than planned
        // for.
        RawSponge {
            delta: 0.001,
            percentile: 99.0,
            late_percent: 100.0,
        }
    }
}

impl RawSponge {
    /// Checks the settings.
    pub(in crate::policy) fn checked(self) -> Result<Sponge, ConfigError> {
        let RawSponge {
            delta,
            percentile,
            late_percent,
        } = self;
        Ok(Sponge {
            delta: within("sponge.delta", delta, 0.0..=WEIGHT_MAX, "cores")?,
            percentile: within("sponge.percentile", percentile, 1.0..=100.0, "percent")?,
            late_percent: within("sponge.latePercent", late_percent, LATE, "percent")?,
        })
    }
}
