//! The service file as written: the shape and the defaults, no rule about values.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};

use super::policy::{RawInfaas, RawIpa, RawPolicy, RawSponge, RawThemis};
use super::{CYCLE, ConfigError, Mode, PLAN_MAX_AGE, RESIZE_TIMEOUT, SCRAPE_TIMEOUT, SOLVER_LIMIT};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawService {
    pub(super) service: String,
    pub(super) listen: String,
    pub(super) key_env: Option<String>,
    pub(super) key_file: Option<String>,
    pub(super) slo_ms: u64,
    #[serde(default = "latency_budget")]
    pub(super) latency_budget: f64,
    #[serde(default)]
    pub(super) rest_ms: f64,
    #[serde(default = "cycle_ms")]
    pub(super) cycle_ms: u64,
    #[serde(default = "plan_max_age_ms")]
    pub(super) plan_max_age_ms: u64,
    #[serde(default = "mode")]
    pub(super) mode: Mode,
    #[serde(default)]
    pub(super) policy: RawPolicy,
    pub(super) sponge: Option<RawSponge>,
    pub(super) ipa: Option<RawIpa>,
    pub(super) infaas: Option<RawInfaas>,
    pub(super) themis: Option<RawThemis>,
    #[serde(default)]
    pub(super) objective: RawObjective,
    pub(super) budget: RawBudget,
    #[serde(default)]
    pub(super) demand: RawDemand,
    #[serde(default)]
    pub(super) solver: RawSolver,
    pub(super) proxies: RawProxies,
    #[serde(default)]
    pub(super) resize: RawResize,
    pub(super) variants: Option<Vec<RawVariant>>,
    pub(super) stages: Option<Vec<RawStage>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStage {
    pub(super) name: String,
    pub(super) variants: Vec<RawVariant>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawObjective {
    pub(super) alpha: f64,
    pub(super) beta: f64,
    pub(super) gamma: f64,
    pub(super) tolerance: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBudget {
    pub(super) cores: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawDemand {
    pub(super) smoothing_s: f64,
    pub(super) window_s: f64,
    pub(super) moving_s: f64,
    pub(super) headroom: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSolver {
    pub(super) time_limit_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProxies {
    pub(super) stats: Vec<String>,
    #[serde(default = "scrape_timeout_ms")]
    pub(super) timeout_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawResize {
    pub(super) timeout_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVariant {
    pub(super) name: String,
    pub(super) cluster: String,
    pub(super) accuracy: f64,
    pub(super) cores: RawCores,
    #[serde(default)]
    pub(super) replicas: RawReplicas,
    pub(super) capacity: Option<RawCapacity>,
    pub(super) latency: RawLatency,
    #[serde(default)]
    pub(super) readiness_s: f64,
    #[serde(default = "batch")]
    pub(super) batch: u32,
    #[serde(default)]
    pub(super) cancels: bool,
    pub(super) resize: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCores {
    pub(super) initial: u32,
    #[serde(default = "least")]
    pub(super) least: u32,
    pub(super) greatest: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReplicas {
    pub(super) initial: u32,
    #[serde(default = "least")]
    pub(super) least: u32,
    pub(super) greatest: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCapacity {
    pub(super) slope_rps: f64,
    pub(super) intercept_rps: f64,
    #[serde(default = "utilisation")]
    pub(super) utilisation: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLatency {
    pub(super) gamma_ms: f64,
    pub(super) epsilon_ms: f64,
    pub(super) delta_ms: f64,
    pub(super) eta_ms: f64,
    pub(super) parallelism: RawParallelism,
    #[serde(default = "tail")]
    pub(super) tail: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum RawParallelism {
    PerCore,
    Fixed(u32),
}

impl RawService {
    /// Reads the shape.
    pub(super) fn from_yaml(text: &str) -> Result<RawService, ConfigError> {
        from_yaml(text, "service file")
    }
}

/// Reads any shape; `whole` is what the file is called where a refusal is about all of it.
pub(crate) fn from_yaml<T: DeserializeOwned>(text: &str, whole: &str) -> Result<T, ConfigError> {
    let mut options = serde_saphyr::options::Options::default();
    options.with_snippet = false;
    let mut at = None;
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            at = Some(error.path().to_string());
            error.into_inner()
        })
    });
    read.map_err(|error| {
        let path = at
            .filter(|path| path != ".")
            .unwrap_or_else(|| whole.to_owned());
        refusal(text, path, &error)
    })
}

/// The reader's complaint in our words: it names neither the value nor, in plain words, its type.
fn refusal(text: &str, path: String, error: &serde_saphyr::Error) -> ConfigError {
    let serde_saphyr::Error::InvalidScalar { ty, .. } = error else {
        return ConfigError::Form {
            path,
            message: error.to_string(),
        };
    };
    let right = match *ty {
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f32" | "f64" | "floating point" => "a number",
        other => other,
    };
    let value = error
        .location()
        .and_then(|place| written_at(text, place.line(), place.column()));
    ConfigError::Value {
        path,
        value: value.unwrap_or_default(),
        right: right.to_owned(),
    }
}

/// The scalar that begins there; line and column count from 1.
fn written_at(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text
        .lines()
        .nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let rest = line
        .chars()
        .skip(usize::try_from(column.checked_sub(1)?).ok()?);
    let scalar: String = rest
        .take_while(|c| !matches!(c, ',' | '}' | ']' | '#'))
        .take(80)
        .collect();
    Some(scalar.trim_end().to_owned())
}

impl Default for RawObjective {
    /// InfAdapter's published β (its middle one) and γ. 0.005 is half a point of accuracy.
    fn default() -> Self {
        RawObjective {
            alpha: 1.0,
            beta: 0.05,
            gamma: 0.001,
            tolerance: 0.005,
        }
    }
}

impl Default for RawReplicas {
    fn default() -> Self {
        RawReplicas {
            initial: 1,
            least: 1,
            greatest: None,
        }
    }
}

impl Default for RawDemand {
    /// 1.1 is InfAdapter's. See [`crate::forecast`] for the three spans.
    fn default() -> Self {
        RawDemand {
            smoothing_s: 5.0,
            window_s: 10.0,
            moving_s: 3.0,
            headroom: 1.1,
        }
    }
}

impl Default for RawSolver {
    fn default() -> Self {
        RawSolver {
            time_limit_ms: millis(SOLVER_LIMIT),
        }
    }
}

impl Default for RawResize {
    fn default() -> Self {
        RawResize {
            timeout_ms: millis(RESIZE_TIMEOUT),
        }
    }
}

impl<'de> Deserialize<'de> for RawParallelism {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = RawParallelism;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("per-core or the number of batches executed at once")
            }
            fn visit_u64<E: Error>(self, batches: u64) -> Result<Self::Value, E> {
                let batches = u32::try_from(batches).unwrap_or(u32::MAX);
                Ok(RawParallelism::Fixed(batches))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match (text, text.parse()) {
                    ("per-core", _) => Ok(RawParallelism::PerCore),
                    (_, Ok(batches)) => Ok(RawParallelism::Fixed(batches)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        from.deserialize_any(Either)
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn cycle_ms() -> u64 {
    millis(CYCLE)
}

fn plan_max_age_ms() -> u64 {
    millis(PLAN_MAX_AGE)
}

fn scrape_timeout_ms() -> u64 {
    millis(SCRAPE_TIMEOUT)
}

/// Half of the promise for executing, half for network and queue.
const fn latency_budget() -> f64 {
    0.5
}

const fn mode() -> Mode {
    Mode::Advisory
}

const fn batch() -> u32 {
    1
}

const fn least() -> u32 {
    1
}

/// InfAdapter's published code plans with 0.8 of the fit.
const fn utilisation() -> f64 {
    0.8
}

/// The law as given.
const fn tail() -> f64 {
    1.0
}
