//! Profile file: the model that the planner reads, and the measurements that it comes from.

use serde::{Deserialize, Serialize};
use weir_solve::latency_model::Parallelism;

use crate::ProfileError;
use crate::model::{Model, Point};

/// Profile, as the planner reads it (`profile: {file: NAME}` of a variant).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Latency model; missing as long as the measurement is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Throughput by cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Time from its start to the first answer, such as `4.2s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<String>,
    /// Accuracy in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Origin of the numbers.
    pub origin: Origin,
}

/// Latency model: `meanMs` alone, or coefficients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Mean of a batch, where nothing else was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// γ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gamma_ms: Option<f64>,
    /// ε.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon_ms: Option<f64>,
    /// δ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_ms: Option<f64>,
    /// η.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_ms: Option<f64>,
    /// Batches executed at once: a number, or `per-core`.
    pub parallelism: serde_json::Value,
    /// 99th percentile over the mean.
    pub tail: f64,
}

/// Throughput: requests/s = slope · cores + intercept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// Requests per second and core.
    pub slope_rps: f64,
    /// Requests per second at zero cores.
    pub intercept_rps: f64,
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
    /// Address of the endpoint.
    pub url: String,
    /// Time of the first answer to a fresh connection, in ms.
    pub first_answer_ms: f64,
    /// R² of the fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// Greatest distance of the fit to a measured point, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residual_percent: Option<f64>,
    /// Number of labelled requests that the accuracy comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labelled: Option<usize>,
    /// All measured points.
    pub points: Vec<Point>,
}

impl Latency {
    /// Latency as the planner reads it, rounded to what was measured.
    #[must_use]
    pub fn new(model: &Model) -> Latency {
        let ms = |value: f64| Some(rounded(value));
        let latency = model.latency;
        let constant =
            latency.gamma_ms == 0.0 && latency.epsilon_ms == 0.0 && latency.delta_ms == 0.0;
        let parallelism = match model.parallelism {
            Parallelism::PerCore => "per-core".into(),
            Parallelism::Fixed(at_once) => at_once.get().into(),
        };
        let (mean_ms, all) = match constant {
            true => (ms(latency.eta_ms), None),
            false => (None, Some(latency)),
        };
        Latency {
            mean_ms,
            gamma_ms: all.and_then(|all| ms(all.gamma_ms)),
            epsilon_ms: all.and_then(|all| ms(all.epsilon_ms)),
            delta_ms: all.and_then(|all| ms(all.delta_ms)),
            eta_ms: all.and_then(|all| ms(all.eta_ms)),
            parallelism,
            tail: rounded(model.tail),
        }
    }
}

impl Capacity {
    /// Capacity as the planner reads it, rounded to what was measured.
    #[must_use]
    pub fn new(model: &Model) -> Capacity {
        Capacity {
            slope_rps: rounded(model.capacity.slope_rps),
            intercept_rps: rounded(model.capacity.intercept_rps),
        }
    }
}

impl Profile {
    /// Returns the file's text.
    ///
    /// # Errors
    /// A value that YAML cannot express.
    pub fn text(&self) -> Result<String, ProfileError> {
        serde_saphyr::to_string(self).map_err(|error| ProfileError(format!("the profile: {error}")))
    }

    /// Reads a profile that an earlier run has written.
    ///
    /// # Errors
    /// Not a profile with an origin.
    pub fn read(text: &str) -> Result<Profile, ProfileError> {
        serde_saphyr::from_str(text).map_err(|error| ProfileError(error.to_string()))
    }
}

/// Rounds to five digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use weir_solve::latency_model::{LatencyModel, Line};

    use super::*;

    #[test]
    fn text_is_read_again() {
        let model = Model {
            latency: LatencyModel::constant(43.812_345),
            parallelism: Parallelism::Fixed(NonZeroU32::new(2).unwrap()),
            tail: 1.361_234,
            r_squared: 1.0,
            residuals_percent: vec![0.0],
            capacity: Line {
                slope_rps: 91.234_56,
                intercept_rps: 0.0,
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
            p99_ms: 59.0,
            answered: 100,
            settled: true,
        };
        let profile = Profile {
            latency: Some(Latency::new(&model)),
            capacity: Some(Capacity::new(&model)),
            readiness: Some("4.2s".to_owned()),
            accuracy: Some(97.78),
            origin: Origin {
                measured_by: "weir profile 0.1.0".to_owned(),
                date: "2026-11-25T20:00:00Z".to_owned(),
                host: "a".to_owned(),
                url: "http://127.0.0.1:1/".to_owned(),
                first_answer_ms: 50.0,
                r_squared: Some(1.0),
                residual_percent: Some(0.0),
                labelled: None,
                points: vec![point],
            },
        };
        let text = profile.text().unwrap();
        assert!(
            text.starts_with("latency:\n  meanMs: 43.812\n  parallelism: 2\n  tail: 1.3612\n"),
            "{text}"
        );
        assert_eq!(Profile::read(&text).unwrap(), profile);
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
