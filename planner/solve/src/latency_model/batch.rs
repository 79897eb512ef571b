//! Latency models with few coefficients: Amdahl's, and linear and quadratic ones in the batch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MS_MAX;
use crate::InputError;
use crate::input::{rule, within};

/// b·(serial + parallel/c).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Amdahl {
    /// Time per request, independent of the cores.
    pub serial_ms: f64,
    /// Time per request, divided by the cores.
    pub parallel_ms: f64,
}

/// item·b + fixed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Time per request.
    pub item_ms: f64,
    /// Time per batch.
    pub fixed_ms: f64,
}

/// square·b² + item·b + fixed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quadratic {
    /// Time per pair of requests.
    pub square_ms: f64,
    /// Time per request.
    pub item_ms: f64,
    /// Time per batch.
    pub fixed_ms: f64,
}

impl Amdahl {
    pub(super) fn ms(&self, batch: u32, cores: f64) -> f64 {
        if cores <= 0.0 {
            return f64::INFINITY;
        }
        f64::from(batch) * (self.serial_ms + self.parallel_ms / cores)
    }

    pub(super) fn check(&self, path: &str) -> Result<(), InputError> {
        within(
            format!("{path}.serial_ms"),
            self.serial_ms,
            0.0,
            MS_MAX,
            "ms",
        )?;
        within(
            format!("{path}.parallel_ms"),
            self.parallel_ms,
            0.0,
            MS_MAX,
            "ms",
        )?;
        takes_time(path, self.ms(1, 1.0))
    }
}

impl Linear {
    pub(super) fn ms(&self, batch: u32) -> f64 {
        self.item_ms * f64::from(batch) + self.fixed_ms
    }

    pub(super) fn check(&self, path: &str) -> Result<(), InputError> {
        within(format!("{path}.item_ms"), self.item_ms, 0.0, MS_MAX, "ms")?;
        within(format!("{path}.fixed_ms"), self.fixed_ms, 0.0, MS_MAX, "ms")?;
        takes_time(path, self.ms(1))
    }
}

impl Quadratic {
    pub(super) fn ms(&self, batch: u32) -> f64 {
        let batch = f64::from(batch);
        self.square_ms * batch * batch + self.item_ms * batch + self.fixed_ms
    }

    pub(super) fn check(&self, path: &str) -> Result<(), InputError> {
        within(
            format!("{path}.square_ms"),
            self.square_ms,
            0.0,
            MS_MAX,
            "ms",
        )?;
        // A fit may fall at first; its latency is checked at the batches of the problem.
        within(
            format!("{path}.item_ms"),
            self.item_ms,
            -MS_MAX,
            MS_MAX,
            "ms",
        )?;
        within(
            format!("{path}.fixed_ms"),
            self.fixed_ms,
            -MS_MAX,
            MS_MAX,
            "ms",
        )?;
        takes_time(path, self.ms(1))
    }
}

pub(super) fn takes_time(path: &str, one_ms: f64) -> Result<(), InputError> {
    let right = "more than 0 for one request on one core";
    rule(one_ms > 0.0, path, format!("{one_ms} ms"), right)
}
