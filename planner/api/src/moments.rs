//! Moments of a sample: enough for its mean and that mean's error, and of several samples together.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Number of ratios, their sum and that of their squares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moments {
    /// Number.
    pub count: f64,
    /// Sum.
    pub sum: f64,
    /// Sum of their squares.
    pub squares: f64,
}

impl Moments {
    /// Returns the moments of one value.
    #[must_use]
    pub fn of(value: f64) -> Moments {
        Moments {
            count: 1.0,
            sum: value,
            squares: value * value,
        }
    }

    /// Returns the moments of `count` values with that mean and standard deviation.
    #[must_use]
    pub fn with(count: f64, mean: f64, deviation: f64) -> Moments {
        let squares = (count - 1.0).max(0.0) * deviation * deviation;
        Moments {
            count,
            sum: count * mean,
            squares: squares + count * mean * mean,
        }
    }

    /// Returns the same values, each counted `factor` times.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Moments {
        Moments {
            count: self.count * factor,
            sum: self.sum * factor,
            squares: self.squares * factor,
        }
    }

    /// Mean; 0 without any.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    /// Variance; 0 of fewer than two values.
    #[must_use]
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        let squares = (self.squares - self.count * mean * mean).max(0.0);
        squares / (self.count - 1.0).max(1.0)
    }

    /// Square of the mean's standard error.
    #[must_use]
    pub fn square_of_mean_error(&self) -> f64 {
        self.variance() / self.count.max(1.0)
    }
}

impl Add for Moments {
    type Output = Moments;

    fn add(self, other: Moments) -> Moments {
        Moments {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }
}

impl Sub for Moments {
    type Output = Moments;

    fn sub(self, other: Moments) -> Moments {
        Moments {
            count: self.count - other.count,
            sum: self.sum - other.sum,
            squares: self.squares - other.squares,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let each = values.iter().copied().map(Moments::of);
        each.fold(Moments::default(), |all, one| all + one)
    }

    #[test]
    fn mean_and_its_error_are_those_of_the_sample() {
        let all = of(&[1.0, 2.0, 3.0, 6.0]);
        assert_eq!(all.mean(), 3.0);
        // A variance of 14/3, of four values.
        assert!((all.square_of_mean_error() - 14.0 / 12.0).abs() < 1e-12);
        let parts = of(&[1.0, 6.0]) + of(&[2.0, 3.0]);
        assert_eq!(parts, all);
        assert_eq!(all - of(&[1.0, 6.0]), of(&[2.0, 3.0]));
        let given = Moments::with(4.0, 3.0, (14.0_f64 / 3.0).sqrt());
        assert_eq!(given.mean(), 3.0);
        assert!((given.variance() - all.variance()).abs() < 1e-12);
        assert_eq!(all.scaled(2.0).mean(), 3.0);
        let none = Moments::default();
        assert_eq!((none.mean(), none.square_of_mean_error()), (0.0, 0.0));
    }
}
