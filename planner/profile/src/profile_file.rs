//! Profile file: the model that the planner reads, and the measurements that it comes from.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_planner::spec::{RawCapacity, RawDuration, RawLatency, RawRange, from_yaml};
use weir_solve::latency_model::fit::Candidate;
use weir_solve::latency_model::{LatencyModel, Line, Parallelism};

use crate::ProfileError;
use crate::fitted::{CapacityFit, Fitted};
use crate::measurement::Measurement;
use crate::model::{Model, Point};

/// Profile, as the planner reads it (`profile: {file: NAME}` of a variant). `O` is the origin of its numbers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile<O = Origin> {
    /// Latency model; missing as long as the measurement is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<RawLatency>,
    /// Throughput by cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RawCapacity>,
    /// Time from its start to the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<RawDuration>,
    /// Accuracy in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Number of requests that the server executes together; missing if it executes each alone, or if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Time for which the server waits for a batch to fill; missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_delay: Option<RawDuration>,
    /// Cores and batches that were measured: the planner refuses others, unless told to extrapolate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<RawRange>,
    /// Origin of the numbers.
    pub origin: O,
}

/// Origin of a profile that comes from another program's measurements, or from a proxy's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportOrigin {
    /// Command and version that read the numbers.
    pub measured_by: String,
    /// Date and time in UTC.
    pub date: String,
    /// Name of the machine that read them.
    pub host: String,
    /// File or address.
    pub source: String,
    /// Form of the source.
    pub format: String,
    /// Service and variant, of a proxy's numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Quality of the latency model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitQuality>,
    /// Quality of the capacity.
    #[serde(flatten)]
    pub capacity: CapacityQuality,
    /// Facts that reduce the value of the numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Measurements.
    pub measurements: Vec<Measurement>,
}

/// Quality of a latency model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FitQuality {
    /// Kind of model.
    pub model: String,
    /// Part of the variance that it explains; missing with no more points than coefficients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// Mean error at points that were left out of the fit, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_percent: Option<f64>,
    /// Largest such error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_max_percent: Option<f64>,
    /// Predicted over measured latency of each point, in percent above or below.
    pub residuals_percent: Vec<f64>,
}

impl FitQuality {
    /// Returns the quality of a candidate.
    #[must_use]
    pub fn of(one: &Candidate) -> FitQuality {
        FitQuality {
            model: one.form.name().to_owned(),
            r_squared: one.overdetermined_r_squared().map(rounded),
            left_out_percent: one.left_out.as_ref().map(|it| rounded(it.mean_percent)),
            left_out_max_percent: one.left_out.as_ref().map(|it| rounded(it.max_percent)),
            residuals_percent: one.residuals_percent.iter().copied().map(rounded).collect(),
        }
    }
}

/// Quality of a capacity; nothing with no more points than coefficients, which any line meets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityQuality {
    /// Part of the throughputs' variance that the line explains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_r_squared: Option<f64>,
    /// Greatest distance of the line to a measured throughput, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_residual_percent: Option<f64>,
}

impl CapacityQuality {
    /// Returns the quality of a fitted capacity.
    #[must_use]
    pub fn of(fit: &CapacityFit) -> CapacityQuality {
        let is_known = fit.r_squared.is_some();
        let residual = fit.residuals_percent.iter().map(|one| one.abs());
        let residual = residual.fold(0.0, f64::max);
        CapacityQuality {
            capacity_r_squared: fit.r_squared.map(rounded),
            capacity_residual_percent: is_known.then(|| rounded(residual)),
        }
    }
}

/// Origin of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Command and version that measured.
    pub measured_by: String,
    /// Date and time in UTC.
    pub date: String,
    /// Name of the machine that sent the requests.
    pub host: String,
    /// Server and requests.
    #[serde(flatten)]
    pub subject: Subject,
    /// Time of the first answer to a fresh connection, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_answer_ms: Option<f64>,
    /// R² of the latency's fit; missing with no more points than coefficients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// Mean error at points that were left out of the fit, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_percent: Option<f64>,
    /// Greatest distance of the latency's fit to a measured point, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residual_percent: Option<f64>,
    /// Quality of the capacity.
    #[serde(flatten)]
    pub capacity: CapacityQuality,
    /// Part of all requests that failed, in percent; missing if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_percent: Option<f64>,
    /// Number of labelled requests that the accuracy comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labelled: Option<usize>,
    /// All measured points.
    pub points: Vec<Point>,
}

/// Server and requests that points are of; only points of the same are put together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Address of the endpoint.
    pub url: String,
    /// CRC-32 of the request's body.
    pub request_crc32: u32,
    /// Whether batches are of single requests, not rows of one.
    pub batch_requests: bool,
}

impl fmt::Display for Subject {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batches = match self.batch_requests {
            true => "single requests",
            false => "rows of one",
        };
        let (url, crc32) = (&self.url, self.request_crc32);
        write!(
            to,
            "{url}, a request of CRC-32 {crc32:08x}, batches of {batches}"
        )
    }
}

/// Returns the latency and the capacity that the planner reads, rounded to what was measured.
#[must_use]
pub fn models(model: &Model) -> (RawLatency, RawCapacity) {
    let latency = raw_latency(&model.latency, model.parallelism, model.tail);
    (latency, raw_capacity(&model.capacity.line))
}

/// Returns the latency and the capacity of fitted measurements, as far as they were measured.
#[must_use]
pub fn fitted_models(fitted: &Fitted) -> (Option<RawLatency>, Option<RawCapacity>) {
    let latency = fitted.latency.as_ref();
    let latency = latency.map(|one| raw_latency(&one.model, fitted.parallelism, fitted.tail));
    let capacity = fitted.capacity.as_ref().map(|fit| raw_capacity(&fit.line));
    (latency, capacity)
}

fn raw_latency(model: &LatencyModel, parallelism: Parallelism, tail: f64) -> RawLatency {
    let model = LatencyModel {
        gamma_ms: rounded(model.gamma_ms),
        epsilon_ms: rounded(model.epsilon_ms),
        delta_ms: rounded(model.delta_ms),
        eta_ms: rounded(model.eta_ms),
    };
    RawLatency::new(&model, parallelism.into(), rounded(tail))
}

fn raw_capacity(line: &Line) -> RawCapacity {
    RawCapacity::new(&Line {
        slope_rps: rounded(line.slope_rps),
        intercept_rps: rounded(line.intercept_rps),
    })
}

impl<O: Serialize> Profile<O> {
    /// Returns the file's text.
    ///
    /// # Errors
    /// A value that YAML cannot express.
    pub fn text(&self) -> Result<String, ProfileError> {
        serde_saphyr::to_string(self).map_err(|error| ProfileError(format!("the profile: {error}")))
    }
}

impl Origin {
    /// Reads the origin of a profile that an earlier run has written.
    ///
    /// # Errors
    /// Not a profile with an origin.
    pub fn read(text: &str) -> Result<Origin, ProfileError> {
        #[derive(Deserialize)]
        struct Earlier {
            origin: Origin,
        }
        let earlier: Result<Earlier, _> = from_yaml(text, "profile");
        let earlier = earlier.map_err(|error| ProfileError(error.to_string()))?;
        Ok(earlier.origin)
    }
}

/// Rounds to five digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use weir_solve::latency_model::Cell;

    use super::*;

    #[test]
    fn text_has_the_models_and_its_origin_is_read_again() {
        let model = Model {
            latency: LatencyModel::constant(43.812_345),
            parallelism: Parallelism::Fixed(NonZeroU32::new(2).unwrap()),
            tail: 1.361_234,
            fit: crate::fitted::latency(&[Cell {
                batch: 1,
                cores: 0.5,
                latency_ms: 43.812_345,
            }])
            .unwrap(),
            capacity: CapacityFit {
                line: Line {
                    slope_rps: 91.234_56,
                    intercept_rps: 0.0,
                },
                r_squared: Some(0.987_654_3),
                residuals_percent: vec![2.0, -18.0],
            },
        };
        let point = Point {
            cores: 0.5,
            batch: 1,
            concurrency: 2,
            batches_per_s: 45.6,
            half_width_percent: 2.5,
            mean_ms: 43.8,
            p50_ms: 43.0,
            p95_ms: Some(55.0),
            p99_ms: 59.0,
            answered: 100,
            failed: 3,
            settled: true,
        };
        let (latency, capacity) = models(&model);
        let profile = Profile {
            latency: Some(latency),
            capacity: Some(capacity),
            readiness: Some(RawDuration(Duration::from_millis(4200))),
            accuracy: Some(97.78),
            batch: None,
            batch_delay: None,
            range: Some(RawRange::of(0.5, 1)),
            origin: Origin {
                measured_by: "weir profile 0.1.0".to_owned(),
                date: "2026-11-25T20:00:00Z".to_owned(),
                host: "a".to_owned(),
                subject: Subject {
                    url: "http://127.0.0.1:1/".to_owned(),
                    request_crc32: 7,
                    batch_requests: false,
                },
                first_answer_ms: Some(50.0),
                r_squared: None,
                left_out_percent: None,
                residual_percent: Some(0.0),
                capacity: CapacityQuality::of(&model.capacity),
                failed_percent: Some(2.9),
                labelled: None,
                points: vec![point],
            },
        };
        let text = profile.text().unwrap();
        let latency = "latency:\n  meanMs: 43.812\n  parallelism: 2\n  tail: 1.3612\n";
        let capacity = "capacity:\n  slopeRps: 91.235\n  interceptRps: 0.0\n";
        assert!(
            text.starts_with(latency) && text.contains(capacity),
            "{text}"
        );
        let quality = "  capacityRSquared: 0.98765\n  capacityResidualPercent: 18.0\n";
        assert!(text.contains(quality), "{text}");
        assert_eq!(Origin::read(&text).unwrap(), profile.origin);
    }

    #[test]
    fn wrong_number_of_an_earlier_run_is_refused_with_field_and_line() {
        let point = "\
origin:
  measuredBy: weir profile 0.1.0
  date: 2026-11-25T20:00:00Z
  host: a
  url: http://127.0.0.1:1/
  requestCrc32: 7
  batchRequests: false
  points:
  - {cores: 1, batch: 1, concurrency: 2, batchesPerS: 45.6, halfWidthPercent: 2.5,
     meanMs: 43.8, p50Ms: 43.0, p99Ms: 59.0, answered: 100, settled: true}
";
        assert_eq!(Origin::read(point).unwrap().points.len(), 1);
        for (right, wrong, expected) in [
            (
                "meanMs: 43.8",
                "meanMs: .nan",
                "meanMs: NaN; it must be a number above 0 at line 10",
            ),
            (
                "p99Ms: 59.0",
                "p99Ms: -1",
                "p99Ms: -1; it must be a number above 0 at line 10",
            ),
            (
                "batch: 1",
                "batch: 0",
                "batch: 0; it must be a number above 0 at line 9",
            ),
            (
                "Percent: 2.5",
                "Percent: .inf",
                "halfWidthPercent: inf; it must be a number, 0 or more at line 9",
            ),
        ] {
            let error = Origin::read(&point.replace(right, wrong)).unwrap_err();
            let expected = format!("origin.points[0].{expected}");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn numbers_have_five_digits() {
        for (value, expected) in [
            (0.0, 0.0),
            (43.812_345, 43.812),
            (0.001_234_567, 0.001_234_6),
            (123_456.0, 123_460.0),
        ] {
            assert_eq!(rounded(value), expected);
        }
    }
}
