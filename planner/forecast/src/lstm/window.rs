//! Inputs of the LSTM: the last two minutes in steps, as logarithms relative to their mean.

use crate::gap::Trace;
use crate::history::{History, WINDOW, mean, peak};
use crate::loss::log_rate;

/// Seconds of a step.
pub const STEP_S: usize = 5;
/// Steps of a window.
pub const STEPS: usize = WINDOW / STEP_S;
/// Inputs of a step: mean, peak, level.
pub const INPUTS: usize = 3;
/// Factor on relative logarithms, which brings them to the order of 1.
const SCALE: f64 = 4.0;

/// Window with its base.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Inputs of each step, the oldest first.
    pub(super) inputs: [[f32; INPUTS]; STEPS],
    /// Logarithm of the window's mean rate.
    pub base: f64,
}

impl Window {
    /// Window of a full history; `None` before.
    pub fn of(history: &History) -> Option<Window> {
        history.is_full().then(|| Window::new(history.last(WINDOW)))
    }

    fn new(rates: &[f64]) -> Window {
        let base = log_rate(mean(rates));
        let mut inputs = [[0.0; INPUTS]; STEPS];
        for (input, rates) in inputs.iter_mut().zip(rates.chunks(STEP_S)) {
            let relative = |rate: f64| ((log_rate(rate) - base) * SCALE) as f32;
            *input = [
                relative(mean(rates)),
                relative(peak(rates)),
                (base / 4.0 - 1.0) as f32,
            ];
        }
        Window { inputs, base }
    }
}

/// Windows of a trace that are without a gap, one in each `stride` seconds, with their peaks' relative logarithms.
pub fn windows(trace: &Trace, horizon: usize, stride: usize) -> Vec<(Window, f32)> {
    let mut found = Vec::new();
    for part in trace.parts() {
        let whole = part.windows(WINDOW + horizon).step_by(stride.max(1));
        found.extend(whole.map(|rates| {
            let (before, after) = rates.split_at(WINDOW);
            let window = Window::new(before);
            let target = (log_rate(peak(after)) - window.base) as f32;
            (window, target)
        }));
    }
    found
}
