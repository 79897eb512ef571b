//! Training of the LSTM by Adam (Kingma and Ba, 2015) on the absolute error of the peak's logarithm, which is the
//! symmetric relative error of the peak. The seed fixes the result to the bit.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cell::{COLUMNS, GATES, UNITS};
use super::window::{Window, windows};
use super::{Network, WEIGHTS, gradient};
use crate::gap::Trace;
use crate::loss::{from_log, smape};

/// Minimum and maximum number of windows to train with.
const WINDOWS_MIN: usize = 500;
/// Maximum number of windows; of a longer trace fewer in an hour are taken.
const WINDOWS_MAX: usize = 120_000;
/// Minimum stride of windows, in seconds.
const STRIDE_MIN: usize = 5;
/// Windows of a step.
const BATCH: usize = 64;
/// Learning rate at the start, and at the end as a part of it.
const RATE: f32 = 3e-3;
const RATE_END: f32 = 0.02;
/// Error below which the loss is quadratic, as a logarithm.
const SMOOTH_BELOW: f32 = 0.02;
/// Maximum norm of a step's gradient.
const NORM_MAX: f32 = 1.0;
/// Decay of Adam's moments.
const MOMENTS: [f32; 2] = [0.9, 0.999];

/// Extent of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// Seconds ahead.
    pub horizon: usize,
    /// Seed of the initial weights and the order.
    pub seed: u64,
    /// Passes over all windows, 1 to [`EPOCHS_MAX`].
    pub epochs: usize,
}

/// Maximum number of passes.
pub const EPOCHS_MAX: usize = 100;

/// Trained network with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// The network.
    pub network: Network,
    /// Number of windows trained with.
    pub windows: usize,
    /// Mean absolute error of the peak's logarithm in the last pass.
    pub loss: f64,
    /// Symmetric absolute error over the windows trained with, in percent.
    pub smape_percent: f64,
}

/// Error of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// The trace is too short, or too full of gaps.
    #[error("{0} windows without a gap; there must be {WINDOWS_MIN} at least: give a longer trace")]
    Windows(usize),
    /// The number of passes is out of range.
    #[error("epochs: {0}; it must be 1 to {EPOCHS_MAX}")]
    Epochs(usize),
}

/// Trains a network. `tell` hears of each pass: its number and its loss.
///
/// # Errors
/// Too few windows, or a number of passes out of range.
pub fn train(
    trace: &Trace,
    training: &Training,
    mut tell: impl FnMut(usize, f64),
) -> Result<Trained, TrainError> {
    let epochs = training.epochs;
    if !(1..=EPOCHS_MAX).contains(&epochs) {
        return Err(TrainError::Epochs(epochs));
    }
    let stride = trace.rates().len().div_ceil(WINDOWS_MAX).max(STRIDE_MIN);
    let mut windows = windows(trace, training.horizon, stride);
    if windows.len() < WINDOWS_MIN {
        return Err(TrainError::Windows(windows.len()));
    }
    let mut rng = ChaCha8Rng::seed_from_u64(training.seed);
    let mut adam = Adam::new(initial(training.seed));
    let batches = windows.len().div_ceil(BATCH) * epochs;
    let mut loss = 0.0;
    for epoch in 1..=epochs {
        shuffle(&mut windows, &mut rng);
        let mut sum = 0.0;
        for batch in windows.chunks(BATCH) {
            sum += adam.step(batch, batches);
        }
        loss = sum / windows.len() as f64;
        tell(epoch, loss);
    }
    let network = Network {
        weights: adam.weights,
    };
    let errors = windows.iter().map(|(window, target)| {
        let of = |log: f32| from_log(window.base + f64::from(log));
        smape(of(network.output(window)), of(*target))
    });
    let smape_percent = errors.sum::<f64>() / windows.len() as f64;
    Ok(Trained {
        network,
        windows: windows.len(),
        loss,
        smape_percent,
    })
}

/// Initial weights: uniform within ±1/√(inputs), and 1 for the forget gates' constants.
pub(super) fn initial(seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x57_45_49_52);
    let bound = 1.0 / libm::sqrtf(COLUMNS as f32);
    let mut weights = vec![0.0_f32; WEIGHTS];
    for weight in &mut weights {
        *weight = bound * (2.0 * rng.random::<f32>() - 1.0);
    }
    let constants = (COLUMNS - 1) * GATES;
    let forget = weights.iter_mut().skip(constants + UNITS).take(UNITS);
    forget.for_each(|weight| *weight = 1.0);
    weights
}

/// Random order (Fisher and Yates).
fn shuffle<T>(values: &mut [T], rng: &mut ChaCha8Rng) {
    for index in (1..values.len()).rev() {
        values.swap(index, rng.random_range(0..=index));
    }
}

/// Weights with the moments of their gradients.
struct Adam {
    weights: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    gradient: Vec<f32>,
    steps: usize,
}

impl Adam {
    fn new(weights: Vec<f32>) -> Adam {
        Adam {
            weights,
            first: vec![0.0; WEIGHTS],
            second: vec![0.0; WEIGHTS],
            gradient: vec![0.0; WEIGHTS],
            steps: 0,
        }
    }

    /// Takes one step of `of`, and returns the sum of the absolute errors before it.
    fn step(&mut self, batch: &[(Window, f32)], of: usize) -> f64 {
        self.gradient.fill(0.0);
        let mut steps = Vec::new();
        let mut sum = 0.0;
        for (window, target) in batch {
            let error = Network::steps(&self.weights, window, &mut steps) - target;
            sum += f64::from(error.abs());
            let slope = (error / SMOOTH_BELOW).clamp(-1.0, 1.0) / batch.len() as f32;
            gradient::add(&self.weights, &steps, slope, &mut self.gradient);
        }
        let squares: f32 = self.gradient.iter().map(|one| one * one).sum();
        let clip = (NORM_MAX / libm::sqrtf(squares).max(1e-12)).min(1.0);
        let progress = self.steps as f32 / of.max(1) as f32;
        let cosine = (1.0 + libm::cosf(std::f32::consts::PI * progress)) / 2.0;
        let rate = RATE * (RATE_END + (1.0 - RATE_END) * cosine);
        self.steps += 1;
        let [keep_first, keep_second] = MOMENTS;
        let bias = |keep: f32| 1.0 - libm::powf(keep, self.steps as f32);
        let (bias_first, bias_second) = (bias(keep_first), bias(keep_second));
        let moments = self.first.iter_mut().zip(&mut self.second);
        let all = self.weights.iter_mut().zip(&self.gradient).zip(moments);
        for ((weight, gradient), (first, second)) in all {
            let gradient = gradient * clip;
            *first = keep_first * *first + (1.0 - keep_first) * gradient;
            *second = keep_second * *second + (1.0 - keep_second) * gradient * gradient;
            let scale = libm::sqrtf(*second / bias_second) + 1e-8;
            *weight -= rate * (*first / bias_first) / scale;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap::Gaps;
    use crate::history::{History, WINDOW};
    use crate::lstm::window::Window;

    /// Rate that doubles for 20 s in each minute and a half.
    fn trace() -> Trace {
        let rate = |at: usize| if at % 90 < 20 { 80.0 } else { 40.0 };
        Trace::new((0..6000).map(rate).collect(), Gaps::Skip, 1).unwrap()
    }

    #[test]
    fn pattern_of_the_window_is_learned_and_the_seed_fixes_all() {
        let training = Training {
            horizon: 20,
            seed: 3,
            epochs: 12,
        };
        let mut losses = Vec::new();
        let trained = train(&trace(), &training, |_, loss| losses.push(loss)).unwrap();
        assert_eq!(losses.len(), 12);
        assert!(losses[11] < losses[0] / 3.0, "{losses:?}");
        assert_eq!(trained, train(&trace(), &training, |_, _| ()).unwrap());
        let mut history = History::default();
        let peak = |history: &History| {
            let window = Window::of(history).unwrap();
            from_log(window.base + f64::from(trained.network.output(&window)))
        };
        let rates = trace();
        // Low for another 60 s, and high within the next 10 s.
        let mut forecasts = Vec::new();
        for (at, rate) in rates.seconds().take(WINDOW + 180) {
            history.push(at as u64 + 1, rate);
            if at > WINDOW && (at % 90 == 25 || at % 90 == 80) {
                forecasts.push(peak(&history));
            }
        }
        let [high, low, ..] = forecasts[..] else {
            panic!("{forecasts:?}");
        };
        assert!(
            (low - 40.0).abs() < 8.0 && (high - 80.0).abs() < 16.0,
            "{forecasts:?}"
        );
    }

    #[test]
    fn training_out_of_its_limits_is_refused() {
        let training = |epochs| Training {
            horizon: 20,
            seed: 3,
            epochs,
        };
        for epochs in [0, EPOCHS_MAX + 1] {
            let error = train(&trace(), &training(epochs), |_, _| ()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("epochs: {epochs}; it must be 1 to 100")
            );
        }
        let short = train(&trace().first(2000), &training(1), |_, _| ()).unwrap_err();
        assert_eq!(short, TrainError::Windows(373));
    }
}
