//! Settings of policy themis, and their checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_api::Cores;

use crate::policy::WEIGHT_MAX;
use crate::quantity::cpu::RawCpu;
use crate::service::rule::within;
use crate::service::{ConfigError, STEP_MIN};
use crate::solve::themis;

/// Parameters of policy themis.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RawThemis {
    /// Cores of a replica that is started because high load has persisted, a multiple of budget.step.
    #[schemars(range(min = 0.01, max = 256))]
    pub horizontal_cores: RawCpu,
    /// Cores by which the actual allocation may exceed the needed one before it is reduced.
    pub tolerance: f64,
}

/// Settings of policy themis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Themis {
    /// Cores of a replica that is started because the load has lasted.
    pub horizontal_cores: Cores,
    /// Cores by which the actual allocation may exceed the optimum: noise in the demand shall not resize.
    pub tolerance: f64,
}

impl Default for RawThemis {
    fn default() -> Self {
        // By Amdahl's law the smallest replicas carry the most per core.
        RawThemis {
            horizontal_cores: RawCpu::whole(1),
            tolerance: 1.0,
        }
    }
}

impl RawThemis {
    /// Checks the settings.
    pub(in crate::policy) fn checked(self) -> Result<Themis, ConfigError> {
        let cores = ("themis.horizontalCores", self.horizontal_cores.0);
        let range = STEP_MIN..=Cores::whole(themis::CORES_MAX);
        Ok(Themis {
            horizontal_cores: within(cores.0, cores.1, range, "cores")?,
            tolerance: within(
                "themis.tolerance",
                self.tolerance,
                0.0..=WEIGHT_MAX,
                "cores",
            )?,
        })
    }
}
