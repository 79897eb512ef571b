//! Ends and labels of axes.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// Label positions of an axis: multiples of the smallest of 1, 2 or 5 times a power of ten (at least a
/// thousandth) with at most `most` of them on the axis. In integers, because plotters' own choice uses the
/// platform's `ln` and `pow`, which differ between machines.
fn ticks(axis: &Range<f64>, most: i64) -> Vec<f64> {
    let (start, end) = (axis.start * 1000.0, axis.end * 1000.0);
    if !(start < end && start.abs() < 1e15 && end.abs() < 1e15) {
        return Vec::new();
    }
    let mut power = 1_i64;
    loop {
        for step in [power, 2 * power, 5 * power] {
            let first = (start / step as f64).ceil() as i64;
            let last = (end / step as f64).floor() as i64;
            if last - first < most {
                let at = |n: i64| (n * step) as f64 / 1000.0;
                return (first..=last).map(at).collect();
            }
        }
        power *= 10;
    }
}

/// Axis with its label positions.
pub(crate) struct Labelled {
    axis: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Labelled {
    pub(crate) fn new(axis: &Range<f64>, most: i64) -> Labelled {
        Labelled {
            axis: axis.clone().into(),
            ticks: ticks(axis, most),
        }
    }
}

impl Ranged for Labelled {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

/// Returns a round end of an axis: the smallest of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten that is not below `value`; 1 if it is 0.
pub fn top(value: f64) -> f64 {
    if !(value > 0.0 && value < 1e12) {
        return 1.0;
    }
    let mut power = 1e-3;
    while power * 10.0 < value {
        power *= 10.0;
    }
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let enough = steps
        .into_iter()
        .map(|step| step * power)
        .find(|top| *top >= value);
    enough.unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_labelled_at_round_numbers() {
        for (axis, most, expected) in [
            (0.0..100.0, 6, vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0]),
            (0.0..1.2, 6, vec![0.0, 0.5, 1.0]),
            (-250.0..1000.0, 6, vec![0.0, 500.0, 1000.0]),
            (0.0..0.003, 3, vec![0.0, 0.002]),
        ] {
            assert_eq!(ticks(&axis, most), expected);
        }
        for nothing in [0.0..0.0, 0.0..f64::NAN, 0.0..f64::INFINITY, 0.0..1e300] {
            assert!(ticks(&nothing, 6).is_empty(), "{nothing:?}");
        }
        assert!(ticks(&(-1e12..1e12), 11).len() <= 11);
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (0.0, 1.0),
            (9.5, 10.0),
            (10.0, 10.0),
            (10.1, 12.0),
            (640.0, 800.0),
        ] {
            assert!((top(value) - end).abs() < 1e-9, "{value}: {}", top(value));
        }
        assert_eq!(top(f64::NAN), 1.0);
    }
}
