//! Forecasts of a load's peak: the maximum rate of the next seconds, as a median and as a quantile. Pure: the time is
//! an argument, there is no clock, no I/O and no thread, and equal inputs give equal bits on every machine.
//!
//! A [`Model`](model::Model) sees one rate a second and predicts. [`Calibrated`](calibrated::Calibrated) moves its
//! quantile until the quantile covers as many peaks as it should. [`Ensemble`](ensemble::Ensemble) runs several and
//! follows the one with the lowest pinball loss ([`choice`]). [`backtest`] scores all of them on a trace.

pub mod backtest;
pub mod calibrated;
pub mod choice;
pub mod ensemble;
mod features;
pub mod gap;
pub mod history;
pub mod learnt;
pub mod loss;
pub mod lstm;
pub mod model;
mod normal;
pub mod task;
