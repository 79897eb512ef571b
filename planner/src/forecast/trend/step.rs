//! Step or rise: whether the latest samples jumped from one rate to another, and stay there. Pure.
//!
//! Two models of as many parameters are fitted by least squares, each with the best moment of its change: a rate that
//! jumps to another, and one that is constant and rises in a line from there, or from the begin. A step within a sample
//! leaves that one between both rates.

use super::Point;

/// Part of the rise's squared error below which the step's is the better explanation.
const BETTER: f64 = 0.5;
/// Samples in which a rise is seen: any line fits one.
const RISE_POINTS_MIN: usize = 2;

/// Returns the mean rate since a step; `None` where a rise explains the samples as well. The latest sample comes first.
pub(super) fn rate_after(points: &[Point]) -> Option<f64> {
    let steps = (1..points.len()).flat_map(|recent| {
        let (after, rest) = points.split_at(recent);
        [step(after, rest, 0), step(after, rest, 1)]
    });
    let steps = steps.flatten();
    let (error, now) = steps.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let rises = (RISE_POINTS_MIN..=points.len()).map(|recent| rise_error(points, recent));
    let rise = rises.min_by(f64::total_cmp)?;
    (error < BETTER * rise).then_some(now)
}

/// Squared error of a step up, and the rate after it. The first `mixed` samples before `after` are of both rates.
fn step(after: &[Point], rest: &[Point], mixed: usize) -> Option<(f64, f64)> {
    let (mixed, before) = rest.split_at_checked(mixed).filter(|it| !it.1.is_empty())?;
    let (after, before) = (Mean::of(after), Mean::of(before));
    let between = |point: &Point| (before.rate..=after.rate).contains(&point.rate());
    let is_step = after.rate > before.rate && mixed.iter().all(between);
    is_step.then_some((after.squares + before.squares, after.rate))
}

/// Mean rate of samples, and the squared deviations from it.
struct Mean {
    rate: f64,
    squares: f64,
}

impl Mean {
    fn of(points: &[Point]) -> Mean {
        let seconds: f64 = points.iter().map(|point| point.seconds).sum();
        let requests: f64 = points.iter().map(|point| point.requests).sum();
        let rate = requests / seconds;
        let square = |point: &Point| {
            let error = point.rate() - rate;
            point.seconds * error * error
        };
        Mean {
            rate,
            squares: points.iter().map(square).sum(),
        }
    }
}

/// Squared error of a constant rate that rises in a line over the `recent` samples.
fn rise_error(points: &[Point], recent: usize) -> f64 {
    let begin = points
        .get(recent.saturating_sub(1))
        .map_or(0.0, |first| first.middle() - first.seconds / 2.0);
    let risen = |point: &Point| (point.middle() - begin).max(0.0);
    let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(|it| it.seconds * of(it)).sum::<f64>();
    let seconds = sum(&|_| 1.0);
    let (mean_x, mean_y) = (sum(&risen) / seconds, sum(&Point::rate) / seconds);
    let xx = sum(&|it| (risen(it) - mean_x) * (risen(it) - mean_x));
    let xy = sum(&|it| (risen(it) - mean_x) * (it.rate() - mean_y));
    let yy = sum(&|it| (it.rate() - mean_y) * (it.rate() - mean_y));
    // Negative only by rounding.
    (yy - xy * xy / xx).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a quarter of a second with these rates, the latest last.
    fn after(rates: &[f64]) -> Option<f64> {
        let points: Vec<Point> = (rates.iter().rev().enumerate())
            .map(|(index, rate)| Point {
                requests: rate * 0.25,
                seconds: 0.25,
                ago_s: 0.25 * index as f64,
            })
            .collect();
        rate_after(&points)
    }

    #[test]
    fn step_is_no_rise() {
        let steps: [(&[f64], f64); 4] = [
            (&[20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 300.0], 300.0),
            (&[20.0, 24.0, 16.0, 20.0, 20.0, 20.0, 310.0, 290.0], 300.0),
            (
                &[20.0, 24.0, 16.0, 290.0, 310.0, 300.0, 310.0, 290.0],
                300.0,
            ),
            // One sample is of both.
            (&[20.0, 24.0, 16.0, 20.0, 160.0, 310.0, 290.0, 300.0], 300.0),
        ];
        for (rates, expected) in steps {
            let found = after(rates).unwrap();
            assert!((found / expected - 1.0).abs() < 0.01, "{rates:?}: {found}");
        }
        for rise in [
            &[20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0, 160.0][..],
            &[20.0, 25.0, 50.0, 75.0, 110.0, 115.0, 150.0, 155.0],
            // From a moment on, and doubling.
            &[20.0, 24.0, 16.0, 20.0, 60.0, 100.0, 140.0, 180.0],
            &[20.0, 24.0, 16.0, 20.0, 20.0, 60.0, 100.0, 140.0],
            &[10.0, 14.0, 20.0, 28.0, 40.0, 56.0, 80.0, 112.0],
            // No change, and falls.
            &[20.0; 8],
            &[300.0, 300.0, 300.0, 300.0, 20.0, 20.0, 20.0, 20.0],
        ] {
            assert_eq!(after(rise), None, "{rise:?}");
        }
    }
}
