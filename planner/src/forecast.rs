//! Rates measured so far → the demand λ to plan for. Pure: the time is an argument, intervals may be irregular.
//!
//! λ = headroom × the greatest rate of the [`Forecaster`]s: an exponential [average](ewma), the greatest rate of the
//! [window](window_max), the mean since a [rise](rise).
//!
//! Until the window has filled, only part of its greatest rate is known: the forecast is not *settled*, and cores that
//! carry it are not taken away. A load that has just begun looks small, and so does one whose planner has just started.
//!
//! The estimate moves from sample to sample though the load does not. Cores and shares therefore follow a rate that
//! falls with reason only ([`stable`]): shares the present rate, cores also bursts that will come again. A rise counts on
//! top of both; for cores by the rate it comes to until they are actual ([`trend`]).
//!
//! Beside these reactive estimates a forecast of the peak may be asked for ([`ahead`]): λ for cores is the greater.
//!
//! An interval without an observation adds nothing: the last demand holds.

mod ahead;
mod demand;
mod ewma;
mod foreseen;
mod history;
mod known;
mod past;
mod rise;
mod samples;
mod slope;
mod stable;
mod trend;
mod window_max;

use std::fmt::Debug;
use std::time::Duration;

use samples::{Recent, Sample};
use weir_api::Rps;

pub use ahead::{AheadRule, Forecasting, Peak, horizon};
pub use demand::Demand;
pub use history::{HISTORY_MAX, HISTORY_SAMPLES_MAX, History, HistoryError, Measured};
pub use known::KnownLoad;
pub use past::Past;
pub use samples::{SAMPLE_INTERVAL_MIN, SAMPLES_MAX, WINDOW_MAX};
pub use stable::BURSTS_MAX;
pub use weir_forecast::learnt::{Learnt, LearntError};

/// Settings of the forecast: λ = headroom × the greatest of a smoothed and a recent greatest rate.
#[derive(Debug, Clone, PartialEq)]
pub struct DemandRule {
    /// Time constant of the exponential average.
    pub smoothing: Duration,
    /// Span in which the greatest rate is looked for.
    pub window: Duration,
    /// Span over which that rate is a mean.
    pub moving: Duration,
    /// Factor on the rate, 1 or more.
    pub headroom: f64,
    /// Time for which bursts are remembered.
    pub bursts: Duration,
    /// Forecast of the peak; `None` for the reactive estimates alone.
    pub ahead: Option<AheadRule>,
}

/// Demand to plan for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// λ for cores, bursts that will come again included.
    pub demand: Rps,
    /// λ at present, for shares.
    pub present: Rps,
    /// Mean rate of the load that `demand` is the peak of, over three windows, without headroom: a shorter peak may wait.
    pub mean: Rps,
    /// λ by the exponential average alone: without what is high for a moment.
    pub average: Rps,
    /// Growth of λ each second, as a slow rise of the last half minute shows it: for capacity that takes longer to be
    /// there than a rise is foreseen.
    pub growth: Rps,
    /// λ that a steep rise comes to by the time at which replicas that start now serve; 0 without one.
    pub extrapolated: Rps,
    /// Requests that arrive now, without headroom, by the line through the latest samples.
    pub arriving: Rps,
    /// Whether more is to come: the load rises, or a rise of it is expected.
    pub rises: bool,
    /// Whether the window has filled.
    pub window_full: bool,
    /// Part of λ that has lasted: by the lowest rate of the window, or by that of bursts that will come again, for which
    /// capacity is kept for minutes. `None` until the window has filled.
    pub lasted: Option<Rps>,
}

impl Forecast {
    /// Rate to have capacity for, of variants that keep back the part 1 − `utilisation` of their own rate: the mean, or as
    /// much of the demand as they execute at most. Headroom is counted once: both reserves together are cores that idle.
    pub fn planned(&self, utilisation: f64) -> Rps {
        self.once(self.demand, utilisation)
    }

    /// The same of the present demand, to divide among such variants.
    pub fn shared(&self, utilisation: f64) -> Rps {
        self.once(self.present, utilisation)
    }

    fn once(&self, demand: Rps, utilisation: f64) -> Rps {
        Rps(self.mean.0.max(utilisation * demand.0).min(demand.0))
    }
}

/// One way to estimate the rate. The forecast takes the greatest estimate.
trait Forecaster: Debug + Send + Sync {
    /// Takes in the latest sample.
    fn observe(&mut self, observed: &Observed<'_>);

    /// Greatest estimate by the samples that ended after `since`, requests/s; 0 without any.
    fn rate(&self, since: Duration) -> f64;

    /// Lowest estimate by these samples, requests/s; `None` where this forecaster makes none.
    fn sustained(&self, _since: Duration) -> Option<f64> {
        None
    }

    /// Whether its estimate may be chance, and is no rate to hold on to.
    fn is_tentative(&self) -> bool {
        false
    }

    /// Whether it sees the load rise.
    fn is_rising(&self) -> bool {
        false
    }
}

/// The latest sample, and those before it.
struct Observed<'a> {
    /// End of the sample.
    at: Duration,
    /// Mean rate of the sample, requests/s.
    rate: f64,
    /// Length of the sample; 0 for the first, which counts requests of an unknown time.
    seconds: f64,
    /// Greatest rate known before the sample.
    known: f64,
    /// All samples remembered, this one included.
    samples: &'a Recent<Sample>,
    /// Time before which samples are forgotten.
    oldest: Duration,
}

#[cfg(test)]
mod tests;
