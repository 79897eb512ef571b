//! Task of a forecaster: the horizon and the quantile.

use crate::history::WINDOW;

/// Maximum horizon, in seconds: the window that forecasters see.
pub const HORIZON_MAX: usize = WINDOW;
/// Minimum and maximum of the quantile. Above, too few peaks tell where it is.
pub const QUANTILES: std::ops::RangeInclusive<f64> = 0.5..=0.999;

/// Horizon and quantile of a forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    horizon: usize,
    quantile: f64,
}

/// Error of a task.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum TaskError {
    /// The horizon is out of range.
    #[error("horizon: {0} s; it must be 1 to {HORIZON_MAX} s")]
    Horizon(usize),
    /// The quantile is out of range.
    #[error("quantile: {0}; it must be {min} to {max}", min = QUANTILES.start(), max = QUANTILES.end())]
    Quantile(f64),
}

impl Task {
    /// Creates a task: the peak of the next `horizon` seconds, and its `quantile`.
    ///
    /// # Errors
    /// A horizon or quantile out of range.
    pub fn new(horizon: usize, quantile: f64) -> Result<Task, TaskError> {
        if !(1..=HORIZON_MAX).contains(&horizon) {
            return Err(TaskError::Horizon(horizon));
        }
        if !QUANTILES.contains(&quantile) {
            return Err(TaskError::Quantile(quantile));
        }
        Ok(Task { horizon, quantile })
    }

    /// Seconds ahead.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// Part of the peaks that the upper forecast covers.
    pub fn quantile(&self) -> f64 {
        self.quantile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_out_of_range_is_refused_with_its_value() {
        for (horizon, quantile, message) in [
            (0, 0.9, "horizon: 0 s; it must be 1 to 120 s"),
            (121, 0.9, "horizon: 121 s; it must be 1 to 120 s"),
            (20, 0.4, "quantile: 0.4; it must be 0.5 to 0.999"),
            (20, 1.0, "quantile: 1; it must be 0.5 to 0.999"),
            (20, f64::NAN, "quantile: NaN; it must be 0.5 to 0.999"),
        ] {
            let error = Task::new(horizon, quantile).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let task = Task::new(120, 0.999).unwrap();
        assert_eq!((task.horizon(), task.quantile()), (120, 0.999));
    }
}
