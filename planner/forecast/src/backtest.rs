//! Back-test: all forecasters run over a trace as they would online, and are scored after the part for training.
//!
//! Scored are the forecasts at every horizon, of the whole window before them and the whole horizon after them without
//! a gap. Nothing after a forecast is known to it.

use std::time::Duration;

use crate::ensemble::Ensemble;
use crate::gap::Trace;
use crate::history::{WINDOW, peak};
use crate::loss::{pinball, smape};
use crate::model::{Kind, Prediction};
use crate::task::Task;

/// Extent of a back-test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Horizon and quantile.
    pub task: Task,
    /// Seconds that are not scored.
    pub train_seconds: usize,
    /// Time of the first second since the epoch, which decides the phase of seasons.
    pub origin: u64,
}

/// Score of a forecaster.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Forecaster; `None` for the automatic choice.
    pub kind: Option<Kind>,
    /// Forecasts scored.
    pub forecasts: usize,
    /// Mean symmetric absolute error of the median, in percent.
    pub smape_percent: f64,
    /// Mean pinball loss of the quantile, in requests/s.
    pub pinball_rps: f64,
    /// Part of the peaks that were at most the quantile, in percent.
    pub covered_percent: f64,
    /// Mean of the quantile above the peak, as a part of the mean peak, in percent.
    pub above_percent: f64,
    /// Mean time of one forecast.
    pub inference: Duration,
}

/// Scored moment of the automatic choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Second of the trace, from 0.
    pub at: usize,
    /// Peak that came.
    pub peak: f64,
    /// Forecast of it.
    pub forecast: Prediction,
    /// Index of the forecaster followed.
    pub chosen: usize,
}

/// Result of a back-test.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Score of each forecaster, then of the automatic choice.
    pub scores: Vec<Score>,
    /// Changes of the choice within the scored part.
    pub changes: u64,
    /// Moments scored, in order.
    pub moments: Vec<Moment>,
}

/// Sums of a score.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    forecasts: usize,
    smape: f64,
    pinball: f64,
    covered: usize,
    above: f64,
    peaks: f64,
    time: Duration,
}

impl Sums {
    fn add(&mut self, task: Task, forecast: Prediction, peak: f64, time: Duration) {
        self.forecasts += 1;
        self.smape += smape(forecast.median, peak);
        self.pinball += pinball(task.quantile(), forecast.upper, peak);
        self.covered += usize::from(peak <= forecast.upper);
        self.above += (forecast.upper - peak).max(0.0);
        self.peaks += peak;
        self.time += time;
    }

    fn score(&self, kind: Option<Kind>) -> Score {
        let count = self.forecasts.max(1) as f64;
        Score {
            kind,
            forecasts: self.forecasts,
            smape_percent: self.smape / count,
            pinball_rps: self.pinball / count,
            covered_percent: 100.0 * self.covered as f64 / count,
            above_percent: 100.0 * self.above / self.peaks.max(f64::MIN_POSITIVE),
            inference: self.time.div_f64(count),
        }
    }
}

/// Runs the ensemble, which was created for the same task, over the trace. `clock` is read before and after each scored
/// forecast; `tell` hears of the seconds that are over.
pub fn run(
    trace: &Trace,
    extent: &Extent,
    ensemble: &mut Ensemble,
    clock: impl Fn() -> Duration,
    mut tell: impl FnMut(usize),
) -> Report {
    let (task, horizon) = (extent.task, extent.task.horizon());
    let kinds: Vec<Kind> = ensemble.members().map(|(kind, _)| kind).collect();
    let mut sums = vec![Sums::default(); kinds.len() + 1];
    let mut moments = Vec::new();
    let mut changes_before = 0;
    let mut gaps = trace.gaps().iter().peekable();
    for (at, rate) in trace.seconds() {
        ensemble.observe(extent.origin + at as u64, rate);
        ensemble.refit_if_due();
        if at.is_multiple_of(3600) {
            tell(at);
        }
        let next = at + 1;
        if next <= extent.train_seconds {
            changes_before = ensemble.changes();
        }
        while gaps.next_if(|gap| gap.end <= next).is_some() {}
        let is_clear = gaps.peek().is_none_or(|gap| next + horizon <= gap.start);
        let is_due =
            next >= extent.train_seconds && (next - extent.train_seconds).is_multiple_of(horizon);
        let after = trace.rates().get(next..next + horizon);
        let (true, true, Some(after)) = (is_due, is_clear, after) else {
            continue;
        };
        if ensemble.history().len() < WINDOW {
            continue;
        }
        let peak = peak(after);
        let chosen = ensemble.chosen();
        for (index, (_, member)) in ensemble.members().enumerate() {
            let began = clock();
            let Some(forecast) = member.forecast(ensemble.history()) else {
                continue;
            };
            let time = clock().saturating_sub(began);
            if let Some(sums) = sums.get_mut(index) {
                sums.add(task, forecast, peak, time);
            }
            if index == chosen {
                moments.push(Moment {
                    at,
                    peak,
                    forecast,
                    chosen,
                });
                if let Some(automatic) = sums.last_mut() {
                    automatic.add(task, forecast, peak, time);
                }
            }
        }
    }
    let names = kinds.into_iter().map(Some).chain(std::iter::once(None));
    Report {
        scores: sums
            .iter()
            .zip(names)
            .map(|(sums, kind)| sums.score(kind))
            .collect(),
        changes: ensemble.changes() - changes_before,
        moments,
    }
}

#[cfg(test)]
mod tests;
