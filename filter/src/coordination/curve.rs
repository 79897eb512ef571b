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

mod ends;
mod point;

pub use self::ends::Ends;
pub use self::point::{Point, Times};
use crate::time::{Mono, Span};

/// Number of points of a curve.
pub const POINTS: usize = 16;
/// Largest number in flight that is told apart.
const NUMBER_MAX: u32 = 1_024;
/// Requests in flight at each point.
pub const AT: [u32; POINTS] = [
    1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 128, 256, 512, 1024,
];
/// The ratio 1 in fixed point.
const ONE: u64 = 1 << 10;
/// Maximum ratio in fixed point.
const RATIO_MAX: u64 = u32::MAX as u64;
/// Ratio to the planned time up to which lanes take as long as planned.
const PLANNED_MAX: u32 = 1_152;
/// Reference time for ratios of a variant without a planned time.
const UNPLANNED: Span = Span::from_millis(1);
/// Age of the latest completed execution beyond which a point is no evidence for a refusal.
const EVIDENCE_MS: u32 = 2_000;
/// Part of the mean deviation by which the means of two points may differ by chance.
const CHANCE_PART: u32 = 3;
/// The same for a server that is idle: trying it costs nobody.
const EVIDENCE_IDLE_MS: u32 = 500;
/// Standard deviations above the mean of the 80th and of the 97th percentile, in 1/1024 of a mean absolute deviation
/// (0.84 and 1.88 standard deviations of 1.25 each).
const HIGH: u64 = 1_075;
const SAFE: u64 = 2_406;

/// Curve of one variant's servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Curve {
    /// Time from which the execution that ends next is under way, as far as is known: the latest end of another, or the
    /// dispatch to an idle server.
    pub turned: Mono,
    /// Latest dispatch of one that was completed.
    pub answered: Mono,
    /// Executions that ended together, lately.
    pub ends: Ends,
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
    /// Requests in flight until it ended, itself included.
    pub with: u32,
    /// Time of dispatch.
    pub sent: Mono,
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
        if sample.completed {
            self.end(sample.took, sample.with, now);
            self.answered = self.answered.max(sample.sent);
        }
        let from_end = ratio(sample.took + after_end, sample.planned);
        let ratio = ratio(sample.took, sample.planned);
        let now_ms = millis(now);
        let (at, n) = (point_of(sample.in_flight), sample.in_flight);
        let moved = [
            self.moved(ratio, n, at, now_ms, |point| point.own),
            self.moved(from_end, n, at, now_ms, |point| point.from_end),
        ];
        if let Some(point) = self.points.get_mut(at) {
            let [own, since_end] = moved;
            // Without an end seen meanwhile it does not tell how they follow one another.
            let since_end = (after_end <= sample.took).then_some(since_end);
            point.record(own, since_end, sample.completed, now_ms);
        }
        from_end
    }

    /// Records that so many requests are sent, with `in_flight` in flight before.
    pub fn send(&mut self, count: u32, in_flight: u32, now: Mono) {
        if in_flight == 0 {
            self.turned = now;
        }
        self.ends.send(count, in_flight);
    }

    /// Records that an execution that took so long has ended, with which `in_flight` were in flight until then.
    pub fn end(&mut self, took: Span, in_flight: u32, now: Mono) {
        self.turned = self.turned.max(now);
        self.ends.record(took, in_flight, now);
    }

    /// Ratio that an execution would have had with as many in flight as that point is for.
    fn moved(&self, ratio: u32, n: u32, at: usize, now_ms: u32, of: fn(&Point) -> Times) -> u32 {
        if n == number(at) || self.known(at, now_ms).is_none() {
            return ratio;
        }
        let of_n = |n| self.line(n, now_ms, of).map_or(0, |times| times.mean);
        let (at_point, here) = (of_n(number(at)), of_n(n));
        let moved = i64::from(ratio) + i64::from(at_point) - i64::from(here);
        u32::try_from(moved).unwrap_or(ratio)
    }

    /// Predicts an execution that is sent as number `in_flight`, planned to take `planned`; `None` if too little is known.
    ///
    /// Where too few were completed with as many in flight, the others tell: in between in proportion, with fewer at least
    /// the part of the time by their number, and with more as the time grew until there. What was cut off is a bound.
    #[must_use]
    pub fn predict(
        &self,
        in_flight: u32,
        planned: Span,
        after_end: Span,
        now: Mono,
    ) -> Option<CurveTime> {
        let now_ms = millis(now);
        let nearest = self.nearest(in_flight, now_ms)?;
        let own = time(planned, self.line(in_flight, now_ms, |point| point.own)?);
        if !nearest.follows_ends() {
            return Some(own);
        }
        let from_end = self.line(in_flight, now_ms, |point| point.from_end)?;
        Some(time(planned, from_end).after(after_end, own))
    }

    /// Requests of `in_flight` that are left when the next one is sent: after the next end if none may be sent before
    /// (`full`), which frees all slots of a batch; else now, without those that are about to end with the latest.
    #[must_use]
    pub fn left_in_flight(&self, in_flight: u32, full: bool, now: Mono) -> u32 {
        in_flight.saturating_sub(self.ends.ending(in_flight, full, now))
    }

    /// Requests of `in_flight` that end together with the next one.
    #[must_use]
    pub fn ending_together(&self, in_flight: u32) -> u32 {
        self.ends.together(in_flight)
    }

    /// Known point nearest to that number in flight, the lower one first.
    fn nearest(&self, in_flight: u32, now_ms: u32) -> Option<&Point> {
        let at = point_of(in_flight);
        let mut known = (0..=at)
            .rev()
            .chain(at + 1..POINTS)
            .filter_map(|at| self.known(at, now_ms));
        known.next().map(|(_, point)| point)
    }

    /// Ratios with that number in flight, on the straight lines between the known points.
    fn line(&self, in_flight: u32, now_ms: u32, of: impl Fn(&Point) -> Times) -> Option<Times> {
        let from = AT.partition_point(|at| *at <= in_flight);
        let mut below = (0..from).rev().filter_map(|at| self.known(at, now_ms));
        let (lower, higher) = (
            below.next(),
            (from..POINTS).find_map(|at| self.known(at, now_ms)),
        );
        let along = |(low, from): (u32, Times), (high, to): (u32, Times)| {
            let (steps, done) = (
                u64::from(high - low).max(1),
                u64::from(in_flight.saturating_sub(low)),
            );
            let along = |from: u32, to: u32| {
                let more = u64::from(to.saturating_sub(from)) * done / steps;
                u32::try_from(u64::from(from) + more).unwrap_or(u32::MAX)
            };
            Times {
                mean: along(from.mean, to.mean),
                scatter: along(from.scatter, to.scatter),
            }
        };
        let at = |(at, point): (usize, &Point)| (number(at), of(point));
        let mut times = match (lower.map(at), higher.map(at)) {
            (Some(low), Some(high)) => along(low, high),
            (Some(low), None) => below.next().map_or(low.1, |before| along(at(before), low)),
            (None, Some(high)) => along((0, Times::default()), high),
            (None, None) => return None,
        };
        let nearest = point_of(in_flight);
        let bound = self
            .points
            .get(nearest)
            .filter(|point| point.is_fresh(now_ms) && self.known(nearest, now_ms).is_none());
        if let Some(bound) = bound {
            times.mean = times.mean.max(of(bound).mean);
        }
        Some(times)
    }

    /// Whether any execution was completed lately, so that predictions are evidence; with none in flight one that was sent as
    /// the first.
    #[must_use]
    pub fn is_evidence(&self, in_flight: u32, now: Mono) -> bool {
        let now_ms = millis(now);
        let (points, within) = match in_flight {
            0 => (1, EVIDENCE_IDLE_MS),
            _ => (POINTS, EVIDENCE_MS),
        };
        let mut points = self.points.iter().take(points);
        points.any(|point| point.was_completed_within(within, now_ms))
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
            points().min_by_key(|point| point.own.mean),
            points().max_by_key(|point| point.own.mean),
        ) else {
            // Until something is known, the plan's lanes are believed.
            return true;
        };
        let any_few = (0..=point_of(up_to / 3)).any(|at| known(at).is_some());
        // Means of few executions differ by chance.
        let chance = min.own.scatter.max(max.own.scatter) / CHANCE_PART;
        // What is executed one after the other, or in batches, has no lanes.
        let follows_ends = self.nearest(up_to, now_ms).is_some_and(Point::follows_ends);
        any_few
            && !follows_ends
            && u64::from(max.own.mean) * 7 <= u64::from(min.own.mean.saturating_add(chance)) * 8
    }

    /// Whether executions take as long as planned with that many in flight, and do not follow one another: then there are as
    /// many lanes as planned. Under load there are never few in flight, whose times would tell.
    #[must_use]
    pub fn has_planned_lanes(&self, in_flight: u32, now: Mono) -> bool {
        let point = self.nearest(in_flight, millis(now));
        point.is_some_and(|point| point.own.mean <= PLANNED_MAX && !point.follows_ends())
    }

    /// Whether more in flight only take longer, about in proportion: one that is sent takes the time of another.
    #[must_use]
    pub fn is_proportional(&self, in_flight: u32, now: Mono) -> bool {
        let n = in_flight.clamp(2, NUMBER_MAX);
        let half = n.div_ceil(2);
        let time = |n| self.predict(n, UNPLANNED, Span::ZERO, now);
        let (Some(of_half), Some(of_all)) = (time(half), time(n)) else {
            return false;
        };
        // Twice as many take 1.6 times as long, or more.
        of_all.mean * (5 * half) >= of_half.mean * (2 * half + 3 * n)
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
        point.is_known(now_ms).then_some((at, point))
    }
}

impl CurveTime {
    /// The same, counted from another's end, for an execution that is sent so long `after` it and else takes `own`.
    fn after(self, after: Span, own: CurveTime) -> CurveTime {
        if after >= self.mean {
            // The next end is overdue, or nobody saw it.
            return own;
        }
        let least = own.mean / 2;
        let left = |time: Span| time.saturating_sub(after).max(least);
        CurveTime {
            mean: left(self.mean),
            high: left(self.high),
            safe: left(self.safe),
        }
    }
}

fn time(planned: Span, times: Times) -> CurveTime {
    let (mean, scatter) = (u64::from(times.mean), u64::from(times.scatter));
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
