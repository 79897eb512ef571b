//! Decaying histogram of the Vertical Pod Autoscaler's recommender (`util/histogram.go`, `decaying_histogram.go`):
//! buckets that grow by 5 % each, from 0 to 0.01 core the first; a sample loses half of its weight in 24 hours.

use std::time::Duration;

/// End of the first bucket, in cores.
const FIRST: f64 = 0.01;
/// Growth of the buckets.
const RATIO: f64 = 1.05;
/// Number of buckets up to 1000 cores: ⌈log₁.₀₅(1000 · 0.05 / 0.01 + 1)⌉ + 1.
const BUCKETS: usize = 176;
/// Time in which a sample loses half of its weight.
const HALF_LIFE: Duration = Duration::from_hours(24);
/// Weight of each sample when it is taken.
const WEIGHT: f64 = 0.1;
/// Weight below which a bucket counts as empty.
const EPSILON: f64 = 0.001 * WEIGHT;

/// Histogram of CPU usage in cores.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    weights: Vec<f64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            weights: vec![0.0; BUCKETS],
        }
    }
}

impl Histogram {
    /// Adds a sample. Times count from the beginning of a replay, whose length keeps the factors small.
    pub(super) fn add(&mut self, at: Duration, cores: f64) {
        let factor = libm::exp2(at.as_secs_f64() / HALF_LIFE.as_secs_f64());
        if let Some(weight) = self.weights.get_mut(bucket(cores)) {
            *weight += WEIGHT * factor;
        }
    }

    /// End of the bucket with that percentile (0 to 1); 0 without a sample.
    pub(super) fn percentile(&self, percentile: f64) -> f64 {
        let threshold = percentile * self.weights.iter().sum::<f64>();
        let filled = |weight: &f64| *weight >= EPSILON;
        let (Some(first), Some(last)) = (
            self.weights.iter().position(filled),
            self.weights.iter().rposition(filled),
        ) else {
            return 0.0;
        };
        let mut sum = 0.0;
        let each = self.weights.iter().enumerate().take(last).skip(first);
        let mut reached = each.filter_map(|(bucket, weight)| {
            sum += weight;
            (sum >= threshold).then_some(bucket)
        });
        begin(reached.next().unwrap_or(last) + 1)
    }
}

fn bucket(cores: f64) -> usize {
    if cores < FIRST {
        return 0;
    }
    let exact = libm::log(cores * (RATIO - 1.0) / FIRST + 1.0) / libm::log(RATIO);
    (exact as usize).min(BUCKETS - 1)
}

/// Begin of a bucket; the last one has no end.
fn begin(bucket: usize) -> f64 {
    let bucket = bucket.min(BUCKETS - 1);
    FIRST * (libm::pow(RATIO, bucket as f64) - 1.0) / (RATIO - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// `estimator_test.go`, `TestPercentileEstimator`: 1, 2 and 3 cores, the 20th percentile is 1 within 5 %.
    #[test]
    fn percentile_is_within_five_percent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.9), 0.0);
        for cores in [1.0, 2.0, 3.0] {
            histogram.add(Duration::ZERO, cores);
        }
        for (percentile, cores) in [(0.2, 1.0), (0.5, 2.0), (0.9, 3.0)] {
            let got = histogram.percentile(percentile);
            assert!((got / cores - 1.0).abs() <= 0.05, "{percentile}: {got}");
            assert!(got >= cores, "a bucket's end: {got}");
        }
    }

    /// `decaying_histogram_test.go`, `TestSimpleDecay`: a sample of 1000 of its weight, many half-lives old, weighs
    /// less than a new one.
    #[test]
    fn old_samples_lose_their_weight() {
        let mut histogram = Histogram::default();
        for _ in 0..100 {
            histogram.add(Duration::ZERO, 2.0);
        }
        histogram.add(8 * 24 * HOUR, 1.0);
        // 100 of 2⁻⁸ of the weight each: 0.39 of the new one.
        assert!(histogram.percentile(0.7) < 1.06, "{histogram:?}");
        assert!(histogram.percentile(0.8) > 1.9);
    }

    #[test]
    fn buckets_grow_by_five_percent() {
        for (index, cores) in [(0, 0.0), (1, 0.01), (2, 0.0205), (3, 0.031525)] {
            assert!((begin(index) - cores).abs() < 1e-12, "{index}");
            assert_eq!(bucket(cores + 1e-9), index);
        }
        assert_eq!((bucket(1e9), bucket(1000.0)), (BUCKETS - 1, BUCKETS - 2));
    }
}
