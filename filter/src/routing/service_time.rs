//! Service time of a variant: the planned time, corrected by the times that this worker measures between
//! dispatch and answer.
//!
//! Stored is the *ratio* of each time to the planned time at dispatch, so that a correction remains valid
//! when a plan changes the variant's cores. Ratios of the last one to two [`WINDOW`]s count. With fewer
//! than [`SAMPLES_MIN`] the time that all workers of the proxy measured together applies, by their sums or else by the
//! server curve, and without that the planned time. So a prediction that has grown too large for any request to be sent expires by itself.

use crate::time::{Mono, Span};

/// Half of the time remembered.
pub const WINDOW: Span = Span::from_secs(5);
/// Minimum number of ratios for a high percentile.
pub const SAMPLES_MIN: u32 = 20;
/// Percentile of a prediction. In replay, where servers stall and recover, a higher one refuses many
/// requests that would have been in time, for as long as the stall is remembered (95: a tenth fewer on time
/// than 80). In steady overload a lower one sends more that are late (50: half a point fewer).
pub const PERCENTILE: u32 = 80;
/// Percentile of a prediction where other requests wait that could have the slot: then one that may be late takes
/// it from one that is not. Service times under a CPU quota have two modes, and the 80th percentile may lie in the
/// shorter one.
pub const SAFE_PERCENTILE: u32 = 97;
/// Standard deviations above the mean of a normal distribution's [`PERCENTILE`].
const HIGH_DEVIATIONS: f64 = 0.84;
/// The same of its [`SAFE_PERCENTILE`].
const SAFE_DEVIATIONS: f64 = 1.88;
/// Reference time for ratios of a variant without a planned time.
const UNPLANNED: Span = Span::from_millis(1);

/// The ratio 1 in fixed point.
const ONE: u64 = 1 << 10;
/// Steps per doubling: a percentile is accurate to a sixteenth.
const STEPS: u64 = 16;
const STEPS_LOG2: u32 = 4;
/// Buckets for ratios from 1/64 to 4096.
const BUCKETS: usize = 18 * STEPS as usize;
/// Maximum ratio.
pub(super) const RATIO_MAX: u64 = 4096;
/// Number of new ratios after which the percentile is recomputed.
pub(super) const UPDATE_EVERY: u32 = 8;

/// Predicted time from dispatch to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceTime {
    /// The [`PERCENTILE`], compared with deadlines.
    pub high: Span,
    /// The [`SAFE_PERCENTILE`], compared with deadlines while slots are contended.
    pub safe: Span,
    /// The mean, for the progress of the queue.
    pub mean: Span,
}

impl ServiceTime {
    /// Returns a time without scatter.
    #[must_use]
    pub fn exactly(time: Span) -> ServiceTime {
        ServiceTime {
            high: time,
            safe: time,
            mean: time,
        }
    }

    /// Returns a time that is normally distributed.
    #[must_use]
    pub fn normal(mean: Span, deviation: Span) -> ServiceTime {
        ServiceTime {
            high: mean + deviation.mul_f64(HIGH_DEVIATIONS),
            safe: mean + deviation.mul_f64(SAFE_DEVIATIONS),
            mean,
        }
    }
}

/// Duration of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    /// The time, or that by which an execution counts that was cut off.
    pub time: Span,
    /// Whether it was completed.
    pub completed: bool,
}

impl Took {
    /// Returns the time of a completed execution.
    #[must_use]
    pub fn completed(time: Span) -> Took {
        Took {
            time,
            completed: true,
        }
    }
}

/// Estimator of one variant's service time.
#[derive(Debug)]
pub struct ServiceTimeEstimator {
    windows: [Window; 2],
    window_ends: Mono,
    unprocessed: u32,
    correction: Option<Correction>,
}

#[derive(Debug, Clone, Copy)]
struct Correction {
    high: u64,
    safe: u64,
    mean: u64,
}

#[derive(Debug)]
struct Window {
    counts: Box<[u16]>,
    /// Highest bucket that is not empty.
    highest: usize,
    seen: u32,
    sum: u64,
    /// Number and sum of the ratios of completed executions.
    completed: (u32, u64),
}

impl Default for ServiceTimeEstimator {
    fn default() -> ServiceTimeEstimator {
        ServiceTimeEstimator {
            windows: [Window::new(), Window::new()],
            window_ends: Mono(0),
            unprocessed: 0,
            correction: None,
        }
    }
}

impl ServiceTimeEstimator {
    /// Records an execution planned to take `planned`. Returns whether predictions may have changed.
    pub fn record(&mut self, planned: Span, took: Took, now: Mono) -> bool {
        let rotated = self.rotate(now);
        let ratio = ratio(took.time, planned);
        let [current, _] = &mut self.windows;
        current.record(ratio);
        if took.completed {
            current.completed.0 += 1;
            current.completed.1 = current.completed.1.saturating_add(ratio);
        }
        self.unprocessed += 1;
        let renews = self.unprocessed >= UPDATE_EVERY || self.correction.is_none();
        if renews {
            self.renew();
        }
        renews || rotated
    }

    /// Predicts the time of an execution planned to take `planned`. `common` is the time that all workers measured
    /// together.
    pub fn predict(
        &mut self,
        planned: Span,
        common: Option<ServiceTime>,
        now: Mono,
    ) -> ServiceTime {
        self.rotate(now);
        self.estimate(planned, common)
    }

    /// The same, without expiring old ratios.
    #[must_use]
    pub fn estimate(&self, planned: Span, common: Option<ServiceTime>) -> ServiceTime {
        match self.correction {
            None => common.unwrap_or(ServiceTime::exactly(planned)),
            Some(correction) => {
                let base = reference(planned);
                ServiceTime {
                    high: scale(base, correction.high),
                    safe: scale(base, correction.safe),
                    mean: scale(base, correction.mean),
                }
            }
        }
    }

    /// Whether enough was measured for percentiles.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.correction.is_some()
    }

    /// Predicts by what was measured; `None` with too few ratios.
    #[must_use]
    pub fn measured(&self, planned: Span) -> Option<ServiceTime> {
        self.correction?;
        Some(self.estimate(planned, None))
    }

    /// Mean time of the executions that were completed, if any was: what is known of one that is not cut off.
    #[must_use]
    pub fn completed_mean(&self, planned: Span) -> Option<Span> {
        let [current, before] = &self.windows;
        let count = u64::from(current.completed.0) + u64::from(before.completed.0);
        let sum = current.completed.1.saturating_add(before.completed.1);
        Some(scale(reference(planned), sum.checked_div(count)?))
    }

    /// Drops ratios older than two windows; returns whether a window has ended.
    fn rotate(&mut self, now: Mono) -> bool {
        if now < self.window_ends {
            return false;
        }
        let silent = now.since(self.window_ends) >= WINDOW;
        self.windows.swap(0, 1);
        let [current, before] = &mut self.windows;
        current.clear();
        if silent {
            before.clear();
        }
        self.window_ends = now + WINDOW;
        self.renew();
        true
    }

    fn renew(&mut self) {
        self.unprocessed = 0;
        let [current, before] = &self.windows;
        let seen = current.seen + before.seen;
        if seen < SAMPLES_MIN {
            self.correction = None;
            return;
        }
        let mean = (current.sum + before.sum) / u64::from(seen);
        let above = |percentile: u32| seen - seen * percentile / 100;
        let high = self.quantile_from_top(above(PERCENTILE)).max(mean);
        self.correction = Some(Correction {
            high,
            safe: self.quantile_from_top(above(SAFE_PERCENTILE)).max(high),
            mean,
        });
    }

    /// Ratio that `above` of the recorded ones reach or exceed.
    fn quantile_from_top(&self, above: u32) -> u64 {
        let [current, before] = &self.windows;
        let mut left = above.max(1);
        let highest = current.highest.max(before.highest);
        for bucket in (0..=highest).rev() {
            let count = current.count(bucket) + before.count(bucket);
            if count >= left {
                return top_of(bucket);
            }
            left -= count;
        }
        ONE
    }
}

impl Window {
    fn new() -> Window {
        Window {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            highest: 0,
            seen: 0,
            sum: 0,
            completed: (0, 0),
        }
    }

    /// Records a ratio. A full bucket takes no more until the window is rotated.
    fn record(&mut self, ratio: u64) {
        let bucket = bucket_of(ratio);
        if let Some(count) = self.counts.get_mut(bucket)
            && *count < u16::MAX
        {
            *count += 1;
            self.highest = self.highest.max(bucket);
            self.seen += 1;
            self.sum += ratio;
        }
    }

    fn count(&self, bucket: usize) -> u32 {
        self.counts.get(bucket).copied().map_or(0, u32::from)
    }

    fn clear(&mut self) {
        if self.seen > 0 {
            self.counts.fill(0);
        }
        (self.highest, self.seen, self.sum) = (0, 0, 0);
        self.completed = (0, 0);
    }
}

/// Reference time for the ratios of executions planned to take `planned`.
pub(super) fn reference(planned: Span) -> Span {
    if planned.is_zero() {
        UNPLANNED
    } else {
        planned
    }
}

fn ratio(took: Span, planned: Span) -> u64 {
    let planned = reference(planned);
    // A time above half a year has the maximum ratio anyway.
    let took = took.as_nanos().saturating_mul(ONE);
    (took / planned.as_nanos().max(1)).min(ONE * RATIO_MAX)
}

fn scale(planned: Span, ratio: u64) -> Span {
    let ns = u128::from(planned.as_nanos()).saturating_mul(u128::from(ratio)) / u128::from(ONE);
    Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Bucket of a ratio, by octave and step; the lowest octave begins at 1/64.
fn bucket_of(ratio: u64) -> usize {
    let ratio = ratio.max(STEPS);
    let octave = ratio.ilog2() - STEPS_LOG2;
    let step = (ratio >> octave) - STEPS;
    let bucket = u64::from(octave) * STEPS + step;
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// Highest ratio of a bucket.
fn top_of(bucket: usize) -> u64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    ((STEPS + step + 1) << octave) - 1
}

#[cfg(test)]
mod tests;
