//! The latest seconds of a load.

/// Seconds that forecasters see.
pub const WINDOW: usize = 120;

/// Rates of the latest seconds without a gap, at most [`WINDOW`] of them in use.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// At most twice the window, so that the latest are always adjacent in memory.
    rates: Vec<f64>,
    at: u64,
}

impl History {
    /// Adds the rate of the second `at`. A second that does not follow the last one ends what was before it, as does a
    /// rate that is negative or not finite.
    pub fn push(&mut self, at: u64, rate: f64) {
        if at != self.at.wrapping_add(1) {
            self.rates.clear();
        }
        if !rate.is_finite() || rate < 0.0 {
            self.rates.clear();
            return;
        }
        if self.rates.len() >= 2 * WINDOW {
            self.rates.drain(..WINDOW);
        }
        self.rates.push(rate);
        self.at = at;
    }

    /// Second of the latest rate.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Number of seconds since the last gap, at most [`WINDOW`].
    pub fn len(&self) -> usize {
        self.rates.len().min(WINDOW)
    }

    /// Whether there is no second since the last gap.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// Whether the window has filled since the last gap.
    pub fn is_full(&self) -> bool {
        self.rates.len() >= WINDOW
    }

    /// The latest `seconds`, or as many as there are.
    pub fn last(&self, seconds: usize) -> &[f64] {
        let from = self.rates.len().saturating_sub(seconds.min(WINDOW));
        self.rates.get(from..).unwrap_or_default()
    }

    /// Maximum of the latest `seconds`; 0 without any.
    pub fn peak(&self, seconds: usize) -> f64 {
        peak(self.last(seconds))
    }
}

/// Maximum of these rates; 0 without any.
pub(crate) fn peak(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

/// Mean of these rates; 0 without any.
pub(crate) fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_seconds_are_kept_and_a_gap_ends_them() {
        let mut history = History::default();
        for at in 1..=1000 {
            history.push(at, at as f64);
        }
        assert!(history.is_full() && history.len() == WINDOW);
        assert_eq!(history.last(3), [998.0, 999.0, 1000.0]);
        assert_eq!(history.last(500).len(), WINDOW);
        assert_eq!(history.last(120)[0], 881.0);
        assert_eq!((history.peak(20), history.at()), (1000.0, 1000));
        history.push(1002, 5.0);
        assert_eq!(history.last(120), [5.0]);
        for rate in [f64::NAN, f64::INFINITY, -1.0] {
            history.push(1003, rate);
            assert!(history.is_empty(), "{rate}");
        }
        assert_eq!((history.peak(20), mean(history.last(20))), (0.0, 0.0));
    }
}
