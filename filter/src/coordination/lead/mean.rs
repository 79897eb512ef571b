//! Fading mean of times. The more the times scatter, the more of them it averages.

use super::STALE;
use crate::time::{Mono, Span};

/// Target error of a mean by chance. It determines the number of times averaged.
const CHANCE: Span = Span::from_micros(500);
/// Bounds of that number.
const MEMORY_MIN: u64 = 16;
const MEMORY_MAX: u64 = 128;
/// Divisor of that number after a long silence: one new time then weighs more.
const STALE_PART: u64 = 4;
/// Number of differences between successive times that the scatter averages.
const MEMORY_SCATTER: u64 = 32;

/// Fading mean of times, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mean {
    /// The mean.
    pub mean: u64,
    /// Mean absolute deviation, taken from successive times, so that a step in the times counts once.
    pub scatter: u64,
    /// Last time.
    pub last: u64,
    /// Number of times recorded.
    pub count: u16,
    /// Moment of the last one.
    pub at: Mono,
}

/// Returns a mean of `count` values after the last of them.
pub(super) fn fade(mean: u64, value: u64, count: u64) -> u64 {
    if value >= mean {
        mean + (value - mean) / count.max(1)
    } else {
        mean - (mean - value) / count.max(1)
    }
}

impl Mean {
    /// Records a time. Returns the number of times averaged.
    pub(super) fn record(&mut self, time: Span, now: Mono) -> u64 {
        let time = time.as_nanos();
        let is_stale = self.is_stale(now);
        if self.count > 0 {
            // Two normally distributed times are 10/7 as far apart as each is from the mean.
            let deviations = time.abs_diff(self.last) / 10 * 7;
            let count = u64::from(self.count).min(MEMORY_SCATTER);
            self.scatter = fade(self.scatter, deviations, count);
        }
        self.count = self.count.saturating_add(1);
        let count = if is_stale {
            self.sample_count() / STALE_PART
        } else {
            self.sample_count()
        };
        self.mean = fade(self.mean, time, count);
        (self.last, self.at) = (time, now);
        count
    }

    /// Number of times averaged.
    fn sample_count(&self) -> u64 {
        u64::from(self.count).clamp(1, self.memory())
    }

    /// Number of times whose mean has the target error.
    fn memory(&self) -> u64 {
        let ratio = self.scatter / CHANCE.as_nanos();
        ratio.saturating_mul(ratio).clamp(MEMORY_MIN, MEMORY_MAX)
    }

    /// Whether the mean may have a larger error than the target.
    pub(super) fn has_few_samples(&self) -> bool {
        u64::from(self.count) < self.memory()
    }

    pub(super) fn is_stale(&self, now: Mono) -> bool {
        self.count > 0 && now > self.at + STALE
    }

    pub(super) fn time(&self) -> Span {
        Span::from_nanos(self.mean)
    }
}
