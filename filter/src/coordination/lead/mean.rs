//! Fading mean of times. Times that scatter more are remembered longer.

use std::time::Duration;

use super::STALE;
use crate::time::{Mono, nanos};

/// Wanted error of a mean by chance. It sets the number of times that the mean is of.
const CHANCE: Duration = Duration::from_micros(500);
/// Bounds of that number.
const MEMORY_MIN: u64 = 16;
const MEMORY_MAX: u64 = 128;
/// SlotShare of it that counted after a long silence: one new time weighs more then.
const STALE_PART: u64 = 4;
/// Differences between successive times of which the scatter is the mean.
const MEMORY_SCATTER: u64 = 32;

/// A fading mean of times, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mean {
    /// The mean.
    pub mean: u64,
    /// Mean deviations from the mean. It is taken from successive times, so that a step in the times counted once.
    pub scatter: u64,
    /// The last time.
    pub last: u64,
    /// Times taken.
    pub count: u16,
    /// Moment of the last.
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
    /// Takes a time. Returns the number of times sample_count which it counted.
    pub(super) fn record(&mut self, time: Duration, now: Mono) -> u64 {
        let time = nanos(time);
        let is_stale = self.is_stale(now);
        if self.count > 0 {
            // Two times, normally distributed, are 10/7 as far apart as each is from the mean.
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

    /// Number of times that the mean is of.
    fn sample_count(&self) -> u64 {
        u64::from(self.count).clamp(1, self.memory())
    }

    /// Number of times whose mean has the wanted error.
    fn memory(&self) -> u64 {
        let ratio = self.scatter / nanos(CHANCE);
        ratio.saturating_mul(ratio).clamp(MEMORY_MIN, MEMORY_MAX)
    }

    /// Whether the mean may have a greater error than wanted.
    pub(super) fn has_few_samples(&self) -> bool {
        u64::from(self.count) < self.memory()
    }

    pub(super) fn is_stale(&self, now: Mono) -> bool {
        self.count > 0 && now.since(self.at) > STALE
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.mean)
    }
}
