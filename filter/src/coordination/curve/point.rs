//! What is known of the executions with about as many in flight.

use super::ONE;

/// Number of executions that a mean averages, and how many more the more they scatter: times the square of the mean
/// deviation's part of the mean.
const MEMORY: u32 = 24;
const MEMORY_SCATTER: u64 = 200;
const MEMORY_MAX: u32 = 128;
/// The same after a silence of [`SILENCE_MS`]: one new execution then weighs more.
const MEMORY_STALE: u16 = 4;
const SILENCE_MS: u32 = 2_000;
/// Minimum number of executions for a prediction.
pub(super) const SAMPLES_MIN: u16 = 3;
/// Age of the latest execution beyond which a point says nothing.
const FRESH_MS: u32 = 10_000;
/// The same for the shape of the curve.
const SHAPE_MS: u32 = 600_000;

/// Ratios of times to planned ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// Mean.
    pub mean: u32,
    /// Mean absolute deviation of those that were completed.
    pub scatter: u32,
}

/// Executions that were sent with about as many in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Point {
    /// Their times from dispatch.
    pub own: Times,
    /// Their times from the latest end of another before.
    pub from_end: Times,
    /// Number of executions.
    pub count: u16,
    /// Time of the latest one, in ms.
    pub at_ms: u32,
    /// Time of the latest completed one, in ms; 0 before the first.
    pub completed_at_ms: u32,
}

impl Times {
    fn record(&mut self, ratio: u32, count: u32) {
        if count > 1 {
            self.scatter = fade(self.scatter, ratio.abs_diff(self.mean), count);
        }
        self.mean = fade(self.mean, ratio, count);
    }

    /// Records one that would have taken longer: of normal times beyond their mean, those are on average a mean deviation
    /// longer.
    fn record_cut_off(&mut self, ratio: u32, count: u32) {
        self.mean = fade(self.mean, ratio.saturating_add(self.scatter), count);
    }

    fn memory(&self) -> u32 {
        let part = u64::from(self.scatter) * ONE / u64::from(self.mean).max(1);
        let part = part.min(ONE);
        let more = part * part * MEMORY_SCATTER / (ONE * ONE);
        MEMORY.saturating_add(more as u32).min(MEMORY_MAX)
    }
}

impl Point {
    /// Records the ratios of an execution, from its dispatch and from the latest end before, if that is known.
    pub(super) fn record(
        &mut self,
        ratio: u32,
        from_end: Option<u32>,
        completed: bool,
        now_ms: u32,
    ) {
        // One that was cut off sooner than most end does not count.
        let is_stale = !self.is_fresh(now_ms);
        let counts = |times: &Times, ratio: &u32| completed || *ratio > times.mean || is_stale;
        let own = Some(ratio).filter(|ratio| counts(&self.own, ratio));
        let from_end = from_end.filter(|ratio| counts(&self.from_end, ratio));
        if own.is_none() && from_end.is_none() {
            return;
        }
        if self.count > 0 && now_ms.wrapping_sub(self.at_ms) > SILENCE_MS {
            self.count = self.count.min(MEMORY_STALE);
        }
        self.count = self.count.saturating_add(1);
        let count = u32::from(self.count).min(self.own.memory());
        for (times, ratio) in [(&mut self.own, own), (&mut self.from_end, from_end)] {
            match ratio {
                Some(ratio) if completed => times.record(ratio, count),
                Some(ratio) => times.record_cut_off(ratio, count),
                None => {}
            }
        }
        self.at_ms = now_ms;
        if completed {
            self.completed_at_ms = now_ms.max(1);
        }
    }

    /// Whether it can be predicted from.
    pub(super) fn is_known(&self, now_ms: u32) -> bool {
        self.count >= SAMPLES_MIN && self.was_completed_within(FRESH_MS, now_ms)
    }

    /// Whether it tells the shape of the curve.
    pub(super) fn has_shape(&self, now_ms: u32) -> bool {
        self.count >= SAMPLES_MIN && self.was_completed_within(SHAPE_MS, now_ms)
    }

    /// Whether an execution was completed within the last `ms`.
    pub(super) fn was_completed_within(&self, ms: u32, now_ms: u32) -> bool {
        self.completed_at_ms > 0 && now_ms.wrapping_sub(self.completed_at_ms) < ms
    }

    /// Whether anything was recorded lately.
    pub(super) fn is_fresh(&self, now_ms: u32) -> bool {
        self.count > 0 && now_ms.wrapping_sub(self.at_ms) < FRESH_MS
    }

    /// Whether the time from the latest end before tells more than the time from its own dispatch: what is in flight is
    /// executed one after the other, or in batches.
    pub(super) fn follows_ends(&self) -> bool {
        u64::from(self.from_end.scatter) * 8 < u64::from(self.own.scatter) * 7
    }
}

fn fade(mean: u32, value: u32, count: u32) -> u32 {
    if value >= mean {
        mean + (value - mean) / count.max(1)
    } else {
        mean - (mean - value) / count.max(1)
    }
}
