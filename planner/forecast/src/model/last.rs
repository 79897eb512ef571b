//! The latest rate stays.

use super::{Model, Prediction};
use crate::history::History;

/// Forecasts the latest rate.
#[derive(Debug)]
pub(super) struct Last;

impl Model for Last {
    fn observe(&mut self, _history: &History) {}

    fn predict(&self, history: &History) -> Option<Prediction> {
        let rate = *history.last(1).last()?;
        Some(Prediction {
            median: rate,
            upper: rate,
        })
    }
}
