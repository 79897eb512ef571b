//! Demand as written: the reactive estimates, and the forecaster of the peak.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_forecast::lstm::file::ModelFile;

use super::duration::RawDuration;
use super::rules::{in_range, rules};
use crate::forecast::Forecasting;

/// Demand = headroom × the greater of two rates: the exponential average of the arrivals, and their highest
/// mean over `moving` in the last `window`. It is higher if bursts recur.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("!has(self.forecaster) || self.forecaster != 'lstm'", "forecaster lstm is for service files: a resource has no model file"),
    ("!has(self.forecaster) || self.forecaster != 'seasonal' || has(self.season)", "forecaster seasonal needs a season"),
    ("!has(self.season) || has(self.forecaster) && self.forecaster in ['seasonal', 'auto']", "season is for forecaster seasonal and auto"),
])))]
pub struct RawDemand {
    /// Time constant of the exponential average.
    pub smoothing: RawDuration,
    /// Window in which the highest mean is taken.
    pub window: RawDuration,
    /// Span of each of these means. Must not exceed the window.
    pub moving: RawDuration,
    /// Factor on the rate; 1 or more.
    pub headroom: f64,
    /// Time for which a burst is remembered. If another burst comes within it, cores are kept ready for the
    /// next. 0s disables this.
    pub bursts: RawDuration,
    /// Forecaster of the peak within the longest readiness of a variant, at least 4s. Cores are for the greater of
    /// the rate above and its quantile. reactive: none. auto: the best so far, seasonal among them if there is a
    /// season. lstm is for service files, with a model.
    pub forecaster: Forecasting,
    /// Quantile of the peak, 0.5 to 0.999.
    pub quantile: f64,
    /// Length of the season whose pattern is learned, in whole seconds, such as 24h or 1h. For forecaster seasonal and
    /// auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = in_range("1m", "168h")))]
    pub season: Option<RawDuration>,
    /// Model file of `weir train`, relative to the service file. For forecaster lstm and auto; service file only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub model: Option<RawModel>,
}

/// Path of a model file, and what has been read of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct RawModel {
    /// Path, relative to the service file.
    pub(crate) file: String,
    /// The model, once it has been read.
    pub(crate) read: Option<Arc<ModelFile>>,
}

impl From<String> for RawModel {
    fn from(file: String) -> RawModel {
        RawModel { file, read: None }
    }
}

impl From<RawModel> for String {
    fn from(model: RawModel) -> String {
        model.file
    }
}

impl Default for RawDemand {
    /// 1.1 is InfAdapter's. See [`crate::forecast`] for the three spans.
    fn default() -> Self {
        RawDemand {
            smoothing: seconds(5),
            window: seconds(10),
            moving: seconds(3),
            headroom: 1.1,
            bursts: seconds(300),
            forecaster: Forecasting::Reactive,
            quantile: 0.95,
            season: None,
            model: None,
        }
    }
}

const fn seconds(count: u64) -> RawDuration {
    RawDuration(Duration::from_secs(count))
}
