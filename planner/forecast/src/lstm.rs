//! The papers' forecaster: one LSTM layer of 25 units and one output, on the last two minutes in steps of 5 s.
//!
//! Written out here, because it is small: inference and training are the same few loops, and equal seeds give equal
//! models on every machine. [`train`](train::train) makes a [`Network`], a [`ModelFile`](file::ModelFile) keeps it.

mod cell;
pub mod file;
mod gradient;
pub mod train;
pub mod window;

use cell::{COLUMNS, GATES, Step, UNITS};
use window::{STEPS, Window};

/// Number of weights.
pub const WEIGHTS: usize = COLUMNS * GATES + UNITS + 1;

/// Weights of the network.
///
/// First a column for each input of the gates (those of the window, the previous output, a constant 1), then those of
/// the output and its constant.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    weights: Vec<f32>,
}

impl Network {
    /// Creates a network; `None` unless there are [`WEIGHTS`] finite weights.
    pub fn new(weights: Vec<f32>) -> Option<Network> {
        let fits = weights.len() == WEIGHTS && weights.iter().all(|weight| weight.is_finite());
        fits.then_some(Network { weights })
    }

    /// Weights in the order of the type's description.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Logarithm of the peak, relative to the window's base.
    pub fn output(&self, window: &Window) -> f32 {
        let mut step = Step::default();
        for input in &window.inputs {
            step = Step::next(&self.weights, input, &step);
        }
        output(&self.weights, &step)
    }

    /// Steps of a window, and the output.
    fn steps(weights: &[f32], window: &Window, steps: &mut Vec<Step>) -> f32 {
        steps.clear();
        let mut step = Step::default();
        for input in &window.inputs {
            step = Step::next(weights, input, &step);
            steps.push(step.clone());
        }
        debug_assert_eq!(steps.len(), STEPS);
        output(weights, &step)
    }
}

/// Output after a step.
fn output(weights: &[f32], step: &Step) -> f32 {
    let (_, last) = weights.split_at(weights.len().min(COLUMNS * GATES));
    let inputs = step.hidden.iter().chain(&[1.0]);
    last.iter().zip(inputs).map(|(w, x)| w * x).sum()
}
