//! Validation of the demand, and the model that its forecaster needs.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_forecast::lstm::Network;
use weir_forecast::lstm::file::{BYTES_MAX, ModelFile};
use weir_forecast::model::{SEASON_MAX_S, SEASON_MIN_S, Season};
use weir_forecast::task::{QUANTILES, Task};

use super::duration::{SECOND, duration};
use super::raw::{RawDemand, RawDuration};
use crate::forecast::{
    AheadRule, BURSTS_MAX, DemandRule, Forecasting, SAMPLE_INTERVAL_MIN, WINDOW_MAX, horizon,
};
use crate::service::rule::{refusal, rule, within};
use crate::service::{ConfigError, Variant};

const SEASON: &str = "demand.season";
const MODEL: &str = "demand.model";
const MODEL_RIGHT: &str = "the path of a model file of weir train, relative to the service file";

impl RawDemand {
    /// Reads the model file, if there is one, from the folder of the service file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no model.
    pub(super) fn read_model(&mut self, folder: &Path) -> Result<(), ConfigError> {
        let Some(model) = &mut self.model else {
            return Ok(());
        };
        let refused = |why: &dyn std::fmt::Display| {
            let value = format!("{} ({why})", model.file);
            refusal(MODEL, value, MODEL_RIGHT)
        };
        let mut text = String::new();
        let opened = File::open(folder.join(&model.file));
        let read =
            opened.and_then(|opened| opened.take(BYTES_MAX as u64 + 1).read_to_string(&mut text));
        read.map_err(|error| refused(&error))?;
        let read = ModelFile::read(&text).map_err(|error| refused(&error))?;
        model.read = Some(Arc::new(read));
        Ok(())
    }
}

/// Refuses what a resource cannot have: a model file.
pub(super) fn refuse_model(raw: &RawDemand) -> Result<(), ConfigError> {
    let right = "left out: it is for service files, a resource has no model file";
    let file = raw.model.as_ref().map(|model| model.file.as_str());
    rule(file.is_none(), MODEL, file.unwrap_or_default(), right)?;
    let right = "another one: lstm is for service files, a resource has no model file";
    let is_lstm = raw.forecaster == Forecasting::Lstm;
    rule(!is_lstm, "demand.forecaster", "lstm", right)
}

pub(super) fn demand(raw: &RawDemand, variants: &[Variant]) -> Result<DemandRule, ConfigError> {
    let least = SAMPLE_INTERVAL_MIN;
    let smoothing = ("demand.smoothing", raw.smoothing);
    let window = ("demand.window", raw.window);
    let moving = ("demand.moving", raw.moving);
    let within_window = least..=raw.window.0.max(least);
    let bursts = ("demand.bursts", raw.bursts);
    let quantile = within("demand.quantile", raw.quantile, QUANTILES, "")?;
    let readiness = variants.iter().map(|variant| variant.readiness).max();
    let task = Task::new(horizon(readiness.unwrap_or_default()), quantile);
    let task = task.map_err(|_| refusal("demand.quantile", quantile, "0.5 to 0.999"))?;
    let (season, network) = (season(raw)?, network(raw, task)?);
    Ok(DemandRule {
        smoothing: duration(smoothing.0, smoothing.1, least..=WINDOW_MAX, "")?,
        window: duration(window.0, window.1, SECOND..=WINDOW_MAX, "")?,
        moving: duration(moving.0, moving.1, within_window, ", at most window")?,
        headroom: within("demand.headroom", raw.headroom, 1.0..=10.0, "")?,
        bursts: duration(bursts.0, bursts.1, Duration::ZERO..=BURSTS_MAX, "")?,
        ahead: AheadRule::new(raw.forecaster, task, season, network),
    })
}

fn season(raw: &RawDemand) -> Result<Option<Season>, ConfigError> {
    let Some(given) = raw.season else {
        let right = "a duration such as 24h, with demand.forecaster seasonal";
        let is_needed = raw.forecaster == Forecasting::Seasonal;
        rule(!is_needed, SEASON, "missing", right)?;
        return Ok(None);
    };
    let right = "left out, or demand.forecaster seasonal or auto";
    let is_used = matches!(raw.forecaster, Forecasting::Seasonal | Forecasting::Auto);
    rule(is_used, SEASON, given, right)?;
    let whole = given.0.subsec_nanos() == 0;
    let season = Season::new(given.0.as_secs()).ok().filter(|_| whole);
    let [min, max] =
        [SEASON_MIN_S, SEASON_MAX_S].map(|seconds| RawDuration(Duration::from_secs(seconds)));
    let right = format!("{min} to {max}, in whole seconds");
    season.map_or_else(
        || Err(refusal(SEASON, given, &right)),
        |season| Ok(Some(season)),
    )
}

/// Network of the LSTM, trained for the planner's horizon.
fn network(raw: &RawDemand, task: Task) -> Result<Option<Arc<Network>>, ConfigError> {
    let Some(given) = &raw.model else {
        let right = format!("{MODEL_RIGHT}, with demand.forecaster lstm");
        let is_needed = raw.forecaster == Forecasting::Lstm;
        rule(!is_needed, MODEL, "missing", &right)?;
        return Ok(None);
    };
    let right = "left out, or demand.forecaster lstm or auto";
    let is_used = matches!(raw.forecaster, Forecasting::Lstm | Forecasting::Auto);
    rule(is_used, MODEL, &given.file, right)?;
    let model = given.read.as_ref();
    let model = model.ok_or_else(|| refusal(MODEL, &given.file, MODEL_RIGHT))?;
    let (of, horizon) = (model.facts.horizon_s, task.horizon());
    let value = format!("{} (trained for a horizon of {of}s)", given.file);
    let right = format!(
        "a model of weir train --horizon {horizon}s: the longest readiness of the variants, at least 4s"
    );
    rule(of == horizon, MODEL, value, &right)?;
    Ok(Some(Arc::new(model.network.clone())))
}

#[cfg(test)]
mod tests;
