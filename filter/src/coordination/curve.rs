//! The **server curve**: how long a variant's executions take, by how many requests are in flight when one is sent.
//!
//! A server that executes one request after the other takes n times as long for the n-th; one with lanes as long for each
//! until they are full; one that batches about as long for a whole batch as for one request, and up to two batches for a
//! request that comes while one is executed. All of these are shapes of one curve, which the workers of a proxy measure
//! together.
//!
//! Kept are ratios to the planned service time, so that they stay valid when a plan changes the cores, at [`AT`] numbers in
//! flight. An execution that was cut off is a bound: it counts only where it took longer than the mean, and never as a
//! measurement of the shortest time. The numbers are integers, so that slot tables can be compared.

use crate::time::{Mono, Span};

/// Number of points of a curve.
pub const POINTS: usize = 16;
/// Requests in flight at each point.
pub const AT: [u32; POINTS] = [
    1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 128, 256, 512, 1024,
];
/// The ratio 1 in fixed point.
const ONE: u64 = 1 << 10;
/// Maximum ratio in fixed point.
const RATIO_MAX: u64 = u32::MAX as u64;
/// Reference time for ratios of a variant without a planned time.
const UNPLANNED: Span = Span::from_millis(1);
/// Number of executions that a mean averages, and how many more the more they scatter: times the square of the mean
/// deviation's part of the mean.
const MEMORY: u32 = 24;
const MEMORY_SCATTER: u64 = 200;
const MEMORY_MAX: u32 = 128;
/// The same after a silence of [`SILENCE_MS`]: one new execution then weighs more.
const MEMORY_STALE: u16 = 4;
const SILENCE_MS: u32 = 2_000;
/// Minimum number of executions for a prediction.
pub const SAMPLES_MIN: u16 = 6;
/// Age of the latest execution beyond which a point says nothing.
const FRESH_MS: u32 = 10_000;
/// The same for the shape of the curve.
const SHAPE_MS: u32 = 600_000;
/// Age of the latest completed execution beyond which its shortest time is no evidence for a refusal.
const EVIDENCE_MS: u32 = 4_000;
/// Part of the mean deviation by which the means of two points may differ by chance.
const CHANCE_PART: u32 = 3;
/// Minimum number of executions for such evidence.
const EVIDENCE_MIN: u16 = 3;
/// Part by which the shortest time rises with each execution that takes longer.
const LEAST_FADES: u32 = 32;
/// Standard deviations above the mean of the 80th and of the 97th percentile, in 1/1024 of a mean absolute deviation
/// (0.84 and 1.88 standard deviations of 1.25 each).
const HIGH: u64 = 1_075;
const SAFE: u64 = 2_406;

/// Executions that were sent with about as many in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Point {
    /// Mean ratio.
    pub mean: u32,
    /// Mean absolute deviation of the ratios.
    pub scatter: u32,
    /// Shortest ratio of a completed execution, which slowly rises.
    pub least: u32,
    /// Number of executions.
    pub count: u16,
    /// Time of the latest one, in ms.
    pub at_ms: u32,
    /// Time of the latest completed one, in ms; 0 before the first.
    pub completed_at_ms: u32,
}

/// Curve of one variant's servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Curve {
    /// Points, by [`AT`].
    pub points: [Point; POINTS],
}

/// Predicted times of an execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CurveTime {
    /// Mean.
    pub mean: Span,
    /// 80th percentile.
    pub high: Span,
    /// 97th percentile.
    pub safe: Span,
}

/// Execution to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurveSample {
    /// Requests in flight when it was sent, itself included.
    pub in_flight: u32,
    /// Time that it took, at least.
    pub took: Span,
    /// Planned service time at that time.
    pub planned: Span,
    /// Whether it was completed; else it was cut off.
    pub completed: bool,
}

impl Curve {
    /// Records an execution that was sent `after_end` after another's end; returns the ratio of both times to the planned
    /// one.
    pub fn record(&mut self, sample: CurveSample, after_end: Span, now: Mono) -> u32 {
        let from_end = ratio(sample.took + after_end, sample.planned);
        let ratio = ratio(sample.took, sample.planned);
        let now_ms = millis(now);
        if let Some(point) = self.points.get_mut(point_of(sample.in_flight)) {
            if sample.completed {
                point.note_completed(ratio, now_ms);
                point.record(ratio, now_ms);
            } else if ratio > point.mean || !point.is_fresh(now_ms) {
                point.record(ratio, now_ms);
            }
        }
        from_end
    }

    /// Mean ratio of the executions that were sent as about number `in_flight`; `None` if too little is known.
    #[must_use]
    pub fn mean(&self, in_flight: u32, now: Mono) -> Option<u32> {
        let (_, point) = self.known(point_of(in_flight), millis(now))?;
        Some(point.mean)
    }

    /// Predicts an execution that is sent as number `in_flight`, planned to take `planned`; `None` if too little is known.
    ///
    /// Where too few were completed with as many in flight, the others tell: in between in proportion, with fewer at least
    /// the part of the time by their number, and with more as the time grew until there. What was cut off is a bound.
    #[must_use]
    pub fn predict(&self, in_flight: u32, planned: Span, now: Mono) -> Option<CurveTime> {
        let now_ms = millis(now);
        let at = point_of(in_flight);
        let mut below = (0..=at).rev().filter_map(|at| self.known(at, now_ms));
        let lower = below.next();
        if let Some((known_at, point)) = lower
            && known_at == at
        {
            return Some(point.time(planned));
        }
        let higher = (at + 1..POINTS).find_map(|at| self.known(at, now_ms));
        let line = match (lower, higher) {
            (Some(low), Some(high)) => Some((low, high)),
            (Some(low), None) => below.next().map(|before| (before, low)),
            (None, Some((high_at, high))) => {
                let part = |ratio: u32| {
                    u64::from(ratio) * u64::from(in_flight) / u64::from(number(high_at))
                };
                return Some(time(planned, part(high.mean), part(high.scatter)));
            }
            (None, None) => return None,
        };
        let (_, low) = lower?;
        let (mut mean, mut scatter) = (u64::from(low.mean), u64::from(low.scatter));
        if let Some(((from_at, from), (to_at, to))) = line {
            let (from_n, to_n) = (number(from_at), number(to_at));
            let (steps, done) = (
                u64::from(to_n - from_n).max(1),
                u64::from(in_flight.saturating_sub(from_n)),
            );
            let along = |from: u32, to: u32| {
                u64::from(from) + u64::from(to.saturating_sub(from)) * done / steps
            };
            (mean, scatter) = (along(from.mean, to.mean), along(from.scatter, to.scatter));
        }
        if let Some(bound) = self.points.get(at).filter(|point| point.is_fresh(now_ms)) {
            mean = mean.max(u64::from(bound.mean));
        }
        Some(time(planned, mean, scatter))
    }

    /// Shortest time that an execution sent as number `in_flight` has taken lately, and has a chance to take again; `None`
    /// if none has been completed lately, so that nothing speaks against one.
    #[must_use]
    pub fn least(&self, in_flight: u32, planned: Span, now: Mono) -> Option<Span> {
        let now_ms = millis(now);
        let points = self.points.iter().take(point_of(in_flight) + 1);
        let known = points.filter(|point| {
            point.completed_at_ms > 0
                && now_ms.wrapping_sub(point.completed_at_ms) < EVIDENCE_MS
                && point.count >= EVIDENCE_MIN
        });
        let least = known.map(|point| point.least).max()?;
        Some(scale(planned, u64::from(least)))
    }

    /// Whether an execution takes about as long however many are in flight, up to this number: then so many lanes execute
    /// one each. Only times with half as many in flight can tell, which may be older than a prediction uses.
    #[must_use]
    pub fn is_flat(&self, up_to: u32, now: Mono) -> bool {
        if up_to <= 1 {
            return true;
        }
        let now_ms = millis(now);
        let last = point_of(up_to);
        let known = |at: usize| self.points.get(at).filter(|point| point.has_shape(now_ms));
        let points = || (0..=last).filter_map(known);
        let (Some(min), Some(max)) = (
            points().min_by_key(|point| point.mean),
            points().max_by_key(|point| point.mean),
        ) else {
            // Until something is known, the plan's lanes are believed.
            return true;
        };
        let any_few = (0..=point_of(up_to / 3)).any(|at| known(at).is_some());
        // Means of few executions differ by chance.
        let chance = (min.scatter.max(max.scatter)) / CHANCE_PART;
        any_few && u64::from(max.mean) * 7 <= u64::from(min.mean.saturating_add(chance)) * 8
    }

    /// Moves the points when a plan changes the slots, because the lanes change with them.
    pub fn rescale(&mut self, from: u32, to: u32) {
        if from == to || from == 0 || to == 0 {
            return;
        }
        let before = std::mem::take(&mut self.points);
        for (point, at) in before.iter().zip(AT) {
            if point.count == 0 {
                continue;
            }
            let n = u64::from(at) * u64::from(to) / u64::from(from);
            let n = u32::try_from(n.max(1)).unwrap_or(u32::MAX);
            if let Some(place) = self.points.get_mut(point_of(n))
                && place.count < point.count
            {
                *place = *point;
            }
        }
    }

    fn known(&self, at: usize, now_ms: u32) -> Option<(usize, &Point)> {
        let point = self.points.get(at)?;
        let completed =
            point.completed_at_ms > 0 && now_ms.wrapping_sub(point.completed_at_ms) < FRESH_MS;
        (point.count >= SAMPLES_MIN && completed).then_some((at, point))
    }
}

impl Point {
    fn record(&mut self, ratio: u32, now_ms: u32) {
        if self.count > 0 && now_ms.wrapping_sub(self.at_ms) > SILENCE_MS {
            self.count = self.count.min(MEMORY_STALE);
        }
        self.count = self.count.saturating_add(1);
        let count = u32::from(self.count).min(self.memory());
        if count > 1 {
            let apart = ratio.abs_diff(self.mean);
            self.scatter = fade(self.scatter, apart, count);
        }
        self.mean = fade(self.mean, ratio, count);
        self.at_ms = now_ms;
    }

    fn memory(&self) -> u32 {
        let part = u64::from(self.scatter) * ONE / u64::from(self.mean).max(1);
        let part = part.min(ONE);
        let more = part * part * MEMORY_SCATTER / (ONE * ONE);
        MEMORY.saturating_add(more as u32).min(MEMORY_MAX)
    }

    fn note_completed(&mut self, ratio: u32, now_ms: u32) {
        let stale =
            self.completed_at_ms == 0 || now_ms.wrapping_sub(self.completed_at_ms) >= EVIDENCE_MS;
        self.least = if stale || ratio < self.least {
            ratio
        } else {
            self.least + (ratio - self.least) / LEAST_FADES
        };
        self.completed_at_ms = now_ms.max(1);
    }

    fn has_shape(&self, now_ms: u32) -> bool {
        self.count >= SAMPLES_MIN
            && self.completed_at_ms > 0
            && now_ms.wrapping_sub(self.completed_at_ms) < SHAPE_MS
    }

    fn is_fresh(&self, now_ms: u32) -> bool {
        self.count > 0 && now_ms.wrapping_sub(self.at_ms) < FRESH_MS
    }

    fn time(&self, planned: Span) -> CurveTime {
        time(planned, u64::from(self.mean), u64::from(self.scatter))
    }
}

fn time(planned: Span, mean: u64, scatter: u64) -> CurveTime {
    CurveTime {
        mean: scale(planned, mean),
        high: scale(planned, mean + scatter * HIGH / ONE),
        safe: scale(planned, mean + scatter * SAFE / ONE),
    }
}

/// Point nearest to a number in flight, by ratio.
fn point_of(in_flight: u32) -> usize {
    let above = AT.partition_point(|at| *at <= in_flight);
    let below = above.saturating_sub(1);
    match (AT.get(below), AT.get(above)) {
        (Some(low), Some(high)) => {
            let square = u64::from(in_flight) * u64::from(in_flight);
            below + usize::from(square > u64::from(*low) * u64::from(*high))
        }
        _ => below,
    }
}

fn number(at: usize) -> u32 {
    AT.get(at).copied().unwrap_or(u32::MAX)
}

fn millis(now: Mono) -> u32 {
    // Ages are differences, so that the number may wrap.
    (now.0 / 1_000_000) as u32
}

fn fade(mean: u32, value: u32, count: u32) -> u32 {
    if value >= mean {
        mean + (value - mean) / count.max(1)
    } else {
        mean - (mean - value) / count.max(1)
    }
}

fn reference(planned: Span) -> Span {
    if planned.is_zero() {
        UNPLANNED
    } else {
        planned
    }
}

/// Ratio of a time to the planned one, in 1/1024.
pub(super) fn ratio(took: Span, planned: Span) -> u32 {
    let planned = reference(planned).as_nanos().max(1);
    let ratio = took.as_nanos().saturating_mul(ONE) / planned;
    ratio.min(RATIO_MAX) as u32
}

fn scale(planned: Span, ratio: u64) -> Span {
    let ns = u128::from(reference(planned).as_nanos()) * u128::from(ratio) / u128::from(ONE);
    Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
