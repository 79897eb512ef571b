//! Measurement of one batch on a number of cores, from any source, and the range that measurements cover. Pure.

use serde::{Deserialize, Serialize};
use weir_planner::spec::RawRange;
use weir_solve::latency_model::{BATCH_MAX, CORES_MAX, MS_MAX, RPS_MAX};

use crate::ProfileError;

/// Measurement of one batch; what a source does not know is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Measurement {
    /// Cores of the server.
    pub cores: f64,
    /// Requests in one batch.
    pub batch: u32,
    /// Mean time of a batch, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// Half width of the mean's 95 % interval, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width_percent: Option<f64>,
    /// 80th percentile of the time, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p80_ms: Option<f64>,
    /// 95th percentile of the time, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    /// 99th percentile of the time, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Requests per second that the server sustains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rps: Option<f64>,
    /// Number of executions that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executions: Option<u64>,
}

/// Percentile that `tail` is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// 80th.
    P80,
    /// 95th.
    P95,
    /// 99th.
    P99,
}

impl Percentile {
    /// Every percentile.
    pub const ALL: [Percentile; 3] = [Percentile::P80, Percentile::P95, Percentile::P99];

    /// Percentage, such as 99.
    #[must_use]
    pub const fn percent(self) -> u32 {
        match self {
            Percentile::P80 => 80,
            Percentile::P95 => 95,
            Percentile::P99 => 99,
        }
    }

    /// Minimum number of executions for this percentile: ten above it.
    #[must_use]
    pub const fn executions_min(self) -> u64 {
        1000 / (100 - self.percent() as u64)
    }
}

impl Measurement {
    /// Time at a percentile in ms, if the source knows it.
    #[must_use]
    pub fn at(&self, percentile: Percentile) -> Option<f64> {
        match percentile {
            Percentile::P80 => self.p80_ms,
            Percentile::P95 => self.p95_ms,
            Percentile::P99 => self.p99_ms,
        }
    }

    /// Checks the values; `at` is the place in the source.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self, at: &str) -> Result<(), ProfileError> {
        let within = |name: &str, value: Option<f64>, max: f64| match value {
            Some(value) if !(value.is_finite() && value > 0.0 && value <= max) => {
                Err(ProfileError(format!(
                    "{at}, {name}: {value}; it must be a number above 0, at most {max}"
                )))
            }
            _ => Ok(()),
        };
        within("cores", Some(self.cores), CORES_MAX)?;
        within("batch", Some(self.batch.into()), BATCH_MAX.into())?;
        within("mean_ms", self.mean_ms, MS_MAX)?;
        within("rps", self.rps, RPS_MAX)?;
        for percentile in Percentile::ALL {
            let name = format!("p{}_ms", percentile.percent());
            within(&name, self.at(percentile), MS_MAX)?;
        }
        Ok(())
    }
}

/// Returns the cores and batches that measurements cover; `None` without any.
#[must_use]
pub fn range(cells: impl Iterator<Item = (f64, u32)>) -> Option<RawRange> {
    let mut range: Option<RawRange> = None;
    for (cores, batch) in cells {
        let range = range.get_or_insert(RawRange::of(cores, batch));
        range.cores.min = range.cores.min.min(cores);
        range.cores.max = range.cores.max.max(cores);
        range.batch.min = range.batch.min.min(batch);
        range.batch.max = range.batch.max.max(batch);
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_covers_all_measurements() {
        assert_eq!(range(std::iter::empty()), None);
        let found = range([(2.0, 4), (0.5, 8), (1.0, 1)].into_iter()).unwrap();
        assert_eq!((found.cores.min, found.cores.max), (0.5, 2.0));
        assert_eq!((found.batch.min, found.batch.max), (1, 8));
    }

    #[test]
    fn percentile_needs_ten_executions_above_it() {
        let needed = Percentile::ALL.map(Percentile::executions_min);
        assert_eq!(needed, [50, 200, 1000]);
    }

    #[test]
    fn values_out_of_range_are_refused_with_their_place() {
        let good = Measurement {
            cores: 1.0,
            batch: 1,
            mean_ms: Some(5.0),
            ..Measurement::default()
        };
        good.check("line 2").unwrap();
        for (wrong, expected) in [
            (
                Measurement { cores: 0.0, ..good },
                "line 2, cores: 0; it must be",
            ),
            (
                Measurement { batch: 0, ..good },
                "line 2, batch: 0; it must be",
            ),
            (
                Measurement {
                    mean_ms: Some(f64::NAN),
                    ..good
                },
                "line 2, mean_ms: NaN;",
            ),
            (
                Measurement {
                    p95_ms: Some(-1.0),
                    ..good
                },
                "line 2, p95_ms: -1;",
            ),
            (
                Measurement {
                    rps: Some(f64::INFINITY),
                    ..good
                },
                "line 2, rps: inf;",
            ),
        ] {
            let error = wrong.check("line 2").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
