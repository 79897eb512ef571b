//! Settings of policy themis, and their checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::WEIGHT_MAX;
use crate::service::ConfigError;
use crate::service::rule::within;
use crate::solve::themis;

/// Parameters of policy themis.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawThemis {
    /// Cores of a replica that is started because high load has persisted.
    pub horizontal_cores: u32,
    /// Cores by which the actual allocation may exceed the needed one before it is reduced.
    pub tolerance: f64,
}

/// Settings of policy themis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Themis {
    /// Cores of a replica that is started because the load has lasted.
    pub horizontal_cores: u32,
    /// Cores by which the actual allocation may exceed the optimum: noise in the demand shall not resize.
    pub tolerance: f64,
}

impl Default for RawThemis {
    fn default() -> Self {
        // By Amdahl's law the smallest replicas carry the most per core.
        RawThemis {
            horizontal_cores: 1,
            tolerance: 1.0,
        }
    }
}

impl RawThemis {
    /// Checks the settings.
    pub(in crate::policy) fn checked(self) -> Result<Themis, ConfigError> {
        let cores = ("themis.horizontalCores", self.horizontal_cores);
        Ok(Themis {
            horizontal_cores: within(cores.0, cores.1, 1..=themis::CORES_MAX, "whole cores")?,
            tolerance: within(
                "themis.tolerance",
                self.tolerance,
                0.0..=WEIGHT_MAX,
                "cores",
            )?,
        })
    }
}
