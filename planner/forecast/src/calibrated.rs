//! Adaptive conformal quantiles (Gibbs and Candès, 2021; the quantile tracker of Angelopoulos, Candès and Tibshirani,
//! 2023) around any model.
//!
//! The model's quantile is moved by an offset in the logarithm. A peak above it raises the offset by γ·q, one below it
//! lowers it by γ·(1 − q), so that in the long run a part q is covered, whatever the model and the load do. γ follows
//! the spread of the model's errors. The peak of a forecast is known after the horizon; forecasts overlap.

use std::collections::VecDeque;

use crate::history::History;
use crate::learnt::LearntMember;
use crate::loss::{from_log, log_rate, pinball};
use crate::model::{Kind, Model, Prediction};
use crate::task::Task;

/// γ as a part of the spread of errors.
const STEP: f64 = 0.04;
/// Forecasts within a horizon that the offset learns from.
const PER_HORIZON: usize = 4;
/// Maximum of the offset, up or down, as a logarithm: 20 times.
pub(crate) const OFFSET_MAX: f64 = 3.0;
/// Minimum of the spread, as a logarithm.
const SPREAD_MIN: f64 = 0.005;
/// Part of a new error in the spread.
const SPREAD_NEW: f64 = 0.01;
/// Outcomes in which γ falls to its final part.
const WARM_UP: f64 = 40.0;

/// Model with a quantile that covers what it should.
#[derive(Debug)]
pub struct Calibrated {
    model: Box<dyn Model>,
    task: Task,
    offset: f64,
    spread: f64,
    outcomes: u64,
    /// Forecasts whose peaks are not known yet.
    pending: VecDeque<Pending>,
}

#[derive(Debug)]
struct Pending {
    at: u64,
    model_log: f64,
    upper: f64,
}

/// Outcome of an earlier forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Pinball loss of the quantile.
    pub loss: f64,
    /// Whether the peak was at most the quantile.
    pub covered: bool,
}

impl Calibrated {
    /// Creates a forecaster around a model that was created for the same task.
    pub fn new(model: Box<dyn Model>, task: Task) -> Calibrated {
        Calibrated {
            model,
            task,
            offset: 0.0,
            spread: SPREAD_MIN,
            outcomes: 0,
            pending: VecDeque::new(),
        }
    }

    /// Takes in the latest second, which is in the history already. Returns the outcome of the forecast whose peak is
    /// known by it.
    pub fn observe(&mut self, history: &History) -> Option<Outcome> {
        let (now, horizon) = (history.at(), self.task.horizon());
        let due = now.saturating_sub(horizon as u64);
        let mut outcome = None;
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.at <= due) {
            // After a gap the peak is not known.
            if pending.at == due && history.len() >= horizon {
                outcome = Some(self.learn(&pending, history.peak(horizon)));
            }
        }
        self.model.observe(history);
        if now.is_multiple_of(every(self.task)) {
            let prediction = self.model.predict(history);
            self.pending.extend(prediction.map(|prediction| Pending {
                at: now,
                model_log: log_rate(prediction.upper),
                upper: self.moved(prediction.upper),
            }));
        }
        outcome
    }

    fn learn(&mut self, pending: &Pending, peak: f64) -> Outcome {
        let quantile = self.task.quantile();
        let covered = peak <= pending.upper;
        let error = log_rate(peak) - pending.model_log - self.offset;
        let new = SPREAD_NEW.max(1.0 / (1.0 + self.outcomes as f64));
        self.spread += new * (error.abs().min(1.0) - self.spread);
        let early = 1.0 + WARM_UP / (1.0 + self.outcomes as f64);
        let step = STEP * early * self.spread.max(SPREAD_MIN);
        let change = if covered { quantile - 1.0 } else { quantile };
        self.offset = (self.offset + step * change).clamp(-OFFSET_MAX, OFFSET_MAX);
        self.outcomes += 1;
        let loss = pinball(quantile, pending.upper, peak);
        Outcome { loss, covered }
    }

    fn moved(&self, upper: f64) -> f64 {
        from_log(log_rate(upper) + self.offset)
    }

    /// Forecast by what has been observed: the model's median, and the calibrated quantile.
    pub fn forecast(&self, history: &History) -> Option<Prediction> {
        let prediction = self.model.predict(history)?;
        let upper = self.moved(prediction.upper);
        Some(Prediction {
            upper,
            ..prediction
        })
    }

    /// Numbers that it has learned, as the forecaster `kind`.
    pub(crate) fn learnt(&self, kind: Kind) -> LearntMember {
        LearntMember {
            kind,
            offset: self.offset,
            spread: self.spread,
            outcomes: self.outcomes,
            model: self.model.learnt(),
        }
    }

    /// Takes over numbers that have been checked; returns whether they are the model's.
    pub(crate) fn relearn(&mut self, learnt: &LearntMember) -> bool {
        if !self.model.relearn(&learnt.model) {
            return false;
        }
        self.offset = learnt.offset;
        self.spread = learnt.spread;
        self.outcomes = learnt.outcomes;
        true
    }

    /// Lets the model fit again.
    pub fn refit(&mut self) {
        self.model.refit();
    }
}

/// Interval of the forecasts that the offset learns from, in seconds.
fn every(task: Task) -> u64 {
    (task.horizon() / PER_HORIZON).max(1) as u64
}

/// Forecasts within a horizon whose outcomes are known.
pub(crate) fn per_horizon(task: Task) -> f64 {
    task.horizon() as f64 / every(task) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::model::{Settings, create};

    /// Part of the peaks covered, in the second half of `seconds`.
    fn covered(kind: Kind, task: Task, seconds: u64, mut rate: impl FnMut(u64) -> f64) -> f64 {
        let mut model = Calibrated::new(create(kind, task, Settings::default()).unwrap(), task);
        let mut history = History::default();
        let (mut count, mut covered) = (0.0, 0.0);
        for at in 1..=seconds {
            history.push(at, rate(at));
            let outcome = model.observe(&history);
            if let Some(outcome) = outcome.filter(|_| at > seconds / 2) {
                count += 1.0;
                covered += f64::from(u8::from(outcome.covered));
            }
            assert!(model.pending.len() <= PER_HORIZON + 1);
        }
        covered / count
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The last value knows nothing of the peak, and its quantile covers what it should all the same.
        #[test]
        fn quantile_covers_its_part_of_any_load(
            seed in 0_u64..1000,
            level in 5.0..500.0_f64,
            swing in 0.0..0.9_f64,
            quantile in prop::sample::select(vec![0.5, 0.8, 0.9, 0.95, 0.99]),
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let task = Task::new(20, quantile).unwrap();
            let part = covered(Kind::Last, task, 60_000, |at| {
                let slow = 1.0 + swing * libm::sin(at as f64 / 2000.0);
                level * slow * (0.5 + rng.random::<f64>())
            });
            prop_assert!((part - quantile).abs() < 0.01, "{part} of {quantile}");
        }
    }

    #[test]
    fn nothing_is_learned_over_a_gap() {
        let task = Task::new(20, 0.9).unwrap();
        let mut model =
            Calibrated::new(create(Kind::Last, task, Settings::default()).unwrap(), task);
        let mut history = History::default();
        let outcomes = (1..20_000).filter(|at| at % 21 != 0).filter_map(|at| {
            history.push(at, 10.0);
            model.observe(&history)
        });
        assert_eq!(outcomes.count(), 0);
        assert!(model.forecast(&history).is_some());
    }
}
