//! Sustained rates as a function of cores, th(n): InfAdapter's lines (EuroMLSys '23, §4), and tables
//! of measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CORES_MAX;
use crate::InputError;
use crate::input::{rule, within};

/// Maximum number of points of a table of rates.
pub const RATES_MAX: usize = 4096;
/// Maximum rate of a model, in requests/s.
pub const RPS_MAX: f64 = 1e9;

/// Throughput model th(n): the requests/s that `n` cores sustain within the SLO. In a document, `model`
/// selects the kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Throughput {
    /// slope·n + intercept, never below 0: InfAdapter's fit.
    Line(Line),
    /// Measurements: linear between the points, 0 below the first, constant beyond the last.
    Table {
        /// Points by rising cores; rates never fall.
        points: Vec<Point>,
    },
}

/// slope·n + intercept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Requests/s per core, 0 or more.
    pub slope_rps: f64,
    /// Requests/s at no cores; mostly negative.
    pub intercept_rps: f64,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// n, 0 or more.
    pub cores: f64,
    /// th(n) in requests/s, 0 or more.
    pub rps: f64,
}

impl Throughput {
    /// th(n) in requests/s: never negative, never falling with the cores (if the model passed
    /// [`Throughput::check`]), and 0 on no cores.
    pub fn rps(&self, cores: f64) -> f64 {
        if cores <= 0.0 || cores.is_nan() {
            return 0.0;
        }
        match self {
            Throughput::Line(line) => (line.slope_rps * cores + line.intercept_rps).max(0.0),
            Throughput::Table { points } => between(points, cores),
        }
    }

    /// Checks the values; errors have the path of the field.
    ///
    /// # Errors
    /// An invalid number, a table that is empty, too long or not by rising cores, or throughput that
    /// falls with more cores.
    pub fn check(&self, path: &str) -> Result<(), InputError> {
        match self {
            Throughput::Line(line) => line.check(path),
            Throughput::Table { points } => check(points, path),
        }
    }
}

impl Line {
    fn check(&self, path: &str) -> Result<(), InputError> {
        let Line {
            slope_rps,
            intercept_rps,
        } = *self;
        let unit = "requests/s";
        within(format!("{path}.slope_rps"), slope_rps, 0.0, RPS_MAX, unit)?;
        let field = format!("{path}.intercept_rps");
        within(field, intercept_rps, -RPS_MAX, RPS_MAX, unit)?;
        Ok(())
    }
}

fn between(points: &[Point], cores: f64) -> f64 {
    let next = points.partition_point(|point| point.cores <= cores);
    let Some(last) = next.checked_sub(1).and_then(|last| points.get(last)) else {
        return 0.0;
    };
    match points.get(next) {
        Some(next) if cores > last.cores => {
            let part = (cores - last.cores) / (next.cores - last.cores);
            last.rps + part * (next.rps - last.rps)
        }
        _ => last.rps,
    }
}

fn check(points: &[Point], path: &str) -> Result<(), InputError> {
    let count = points.len();
    let right = format!("1 to {RATES_MAX}");
    rule(
        (1..=RATES_MAX).contains(&count),
        format!("{path}.points"),
        count,
        right,
    )?;
    let mut before: Option<&Point> = None;
    for (index, point) in points.iter().enumerate() {
        let field = |name: &str| format!("{path}.points[{index}].{name}");
        within(field("cores"), point.cores, 0.0, CORES_MAX, "")?;
        within(field("rps"), point.rps, 0.0, RPS_MAX, "requests/s")?;
        if let Some(before) = before {
            let right = format!("more than the {} of the point before", before.cores);
            rule(
                point.cores > before.cores,
                field("cores"),
                point.cores,
                right,
            )?;
            let value = format!("{} requests/s on {} cores", point.rps, point.cores);
            let right = format!("no less than the {} on {} cores", before.rps, before.cores);
            rule(point.rps >= before.rps, field("rps"), value, right)?;
        }
        before = Some(point);
    }
    Ok(())
}
