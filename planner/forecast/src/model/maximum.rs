//! The peak of the next seconds is that of as many before them.

use super::{Model, Prediction};
use crate::history::History;
use crate::task::Task;

/// Forecasts the maximum of the latest seconds, as many as the horizon has.
#[derive(Debug)]
pub(super) struct Maximum {
    seconds: usize,
}

impl Maximum {
    pub(super) fn new(task: Task) -> Maximum {
        Maximum {
            seconds: task.horizon(),
        }
    }
}

impl Model for Maximum {
    fn observe(&mut self, _history: &History) {}

    fn predict(&self, history: &History) -> Option<Prediction> {
        let peak = history.peak(self.seconds);
        (!history.is_empty()).then_some(Prediction {
            median: peak,
            upper: peak,
        })
    }
}
