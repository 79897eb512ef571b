//! The trained LSTM as a forecaster. It knows the median; its quantile is left to the calibration.

use super::{Model, Prediction};
use crate::history::History;
use crate::loss::from_log;
use crate::lstm::Network;
use crate::lstm::window::Window;

/// Forecaster with a trained network.
#[derive(Debug)]
pub struct Recurrent {
    network: Network,
}

impl Recurrent {
    /// Creates a forecaster for the horizon that the network was trained for.
    pub fn new(network: Network) -> Recurrent {
        Recurrent { network }
    }
}

impl Model for Recurrent {
    fn observe(&mut self, _history: &History) {}

    fn predict(&self, history: &History) -> Option<Prediction> {
        let window = Window::of(history)?;
        let median = from_log(window.base + f64::from(self.network.output(&window)));
        Some(Prediction {
            median,
            upper: median,
        })
    }
}
