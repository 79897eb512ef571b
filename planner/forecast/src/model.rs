//! Forecasters: one file each.

mod cyclic;
mod last;
mod linear;
mod lstm;
mod maximum;
mod seasonal;
mod smoothing;

use std::fmt::Debug;

use crate::history::History;
use crate::learnt::LearntModel;
use crate::lstm::Network;
use crate::task::Task;

pub use cyclic::{
    Cyclic, PHASES_MAX, SEASON_MAX_S, SEASON_MIN_S, SEASONS_MAX, Season, SeasonError,
};
pub use linear::Linear;
pub use lstm::Recurrent;
pub use seasonal::{BUCKETS_MAX, PERIODS, Seasonal};

/// Forecast of the peak rate of the next seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Peak that is exceeded half of the time, as far as the model knows.
    pub median: f64,
    /// Quantile of the peak, as far as the model knows.
    pub upper: f64,
}

/// One way to forecast. What it predicts and for which quantile is its [`Task`], given when it is created.
pub trait Model: Debug + Send + Sync {
    /// Takes in the latest second, which is in the history already. The work is bounded and small.
    fn observe(&mut self, history: &History);

    /// Forecast by what has been observed; `None` until enough is known.
    fn predict(&self, history: &History) -> Option<Prediction>;

    /// Numbers that it has learned, apart from the latest seconds.
    fn learnt(&self) -> LearntModel {
        LearntModel::Nothing
    }

    /// Takes over numbers of an earlier model; returns whether they are this model's and in range, and else changes
    /// nothing.
    fn relearn(&mut self, learnt: &LearntModel) -> bool {
        *learnt == LearntModel::Nothing
    }

    /// Fits again, where that takes longer than a second may. Called about once in [`REFIT_SECONDS`].
    fn refit(&mut self) {}
}

/// Interval in which a model may ask for time to fit again, in seconds.
pub const REFIT_SECONDS: u64 = 3600;

/// Name of a forecaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The latest rate.
    Last,
    /// The maximum of the latest seconds, as many as the horizon has.
    Maximum,
    /// Exponential smoothing of mean and variance.
    Smoothing,
    /// Linear quantile regression on features of the last two minutes.
    Linear,
    /// Smoothing, moved by the load's hourly and daily pattern, or that of a given season.
    Seasonal,
    /// The papers' LSTM.
    Lstm,
}

impl Kind {
    /// Forecasters that need no trained model.
    pub const UNTRAINED: [Kind; 5] = [
        Kind::Last,
        Kind::Maximum,
        Kind::Smoothing,
        Kind::Linear,
        Kind::Seasonal,
    ];

    /// Name in tables and settings.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Last => "last",
            Kind::Maximum => "maximum",
            Kind::Smoothing => "smoothing",
            Kind::Linear => "linear",
            Kind::Seasonal => "seasonal",
            Kind::Lstm => "lstm",
        }
    }
}

/// Settings of single forecasters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// Network of the LSTM.
    pub network: Option<&'a Network>,
    /// Season of the seasonal forecaster; without one it finds hourly and daily patterns when it is fitted.
    pub season: Option<Season>,
}

/// Creates a forecaster; `None` for the LSTM without a network.
pub fn create(kind: Kind, task: Task, settings: Settings<'_>) -> Option<Box<dyn Model>> {
    Some(match kind {
        Kind::Last => Box::new(last::Last),
        Kind::Maximum => Box::new(maximum::Maximum::new(task)),
        Kind::Smoothing => Box::new(smoothing::Smoothing::new(task)),
        Kind::Linear => Box::new(Linear::new(task)),
        Kind::Seasonal => match settings.season {
            Some(season) => Box::new(Cyclic::new(task, season)),
            None => Box::new(Seasonal::new(task)),
        },
        Kind::Lstm => Box::new(Recurrent::new(settings.network?.clone())),
    })
}
