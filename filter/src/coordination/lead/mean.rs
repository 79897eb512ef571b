//! Fading mean of times. Times that scatter more are remembered longer.

use std::time::Duration;

use super::STALE;
use crate::time::{Mono, nanos};

/// Wanted error of a mean by chance. It sets the number of times that the mean is of.
const CHANCE: Duration = Duration::from_micros(500);
/// Bounds of that number.
const MEMORY_MIN: u64 = 16;
const MEMORY_MAX: u64 = 128;
/// Part of it that counts after a long silence: one new time weighs more then.
const STALE_PART: u64 = 4;
/// Differences between successive times of which the scatter is the mean.
const MEMORY_SCATTER: u64 = 32;

/// A fading mean of times, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mean {
    /// The mean.
    pub mean: u64,
    /// Mean distance from the mean. It is taken from successive times, so that a step in the times counts once.
    pub scatter: u64,
    /// The last time.
    pub last: u64,
    /// Times taken.
    pub seen: u16,
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
    /// Takes a time. Returns the number of times among which it counts.
    pub(super) fn take(&mut self, time: Duration, now: Mono) -> u64 {
        let time = nanos(time);
        let is_stale = self.is_stale(now);
        if self.seen > 0 {
            // Two times, normally distributed, are 10/7 as far apart as each is from the mean.
            let distance = time.abs_diff(self.last) / 10 * 7;
            let count = u64::from(self.seen).min(MEMORY_SCATTER);
            self.scatter = fade(self.scatter, distance, count);
        }
        self.seen = self.seen.saturating_add(1);
        let count = if is_stale {
            self.among() / STALE_PART
        } else {
            self.among()
        };
        self.mean = fade(self.mean, time, count);
        (self.last, self.at) = (time, now);
        count
    }

    /// Number of times that the mean is of.
    fn among(&self) -> u64 {
        u64::from(self.seen).clamp(1, self.memory())
    }

    /// Number of times whose mean has the wanted error.
    fn memory(&self) -> u64 {
        let ratio = self.scatter / nanos(CHANCE);
        ratio.saturating_mul(ratio).clamp(MEMORY_MIN, MEMORY_MAX)
    }

    /// Whether the mean may have a greater error than wanted.
    pub(super) fn is_of_few(&self) -> bool {
        u64::from(self.seen) < self.memory()
    }

    pub(super) fn is_stale(&self, now: Mono) -> bool {
        self.seen > 0 && now.since(self.at) > STALE
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.mean)
    }
}
