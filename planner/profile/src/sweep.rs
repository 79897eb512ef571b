//! Choice of the concurrencies to measure. Pure.
//!
//! The concurrency doubles until throughput stops growing, or the 95th percentile exceeds the objective; but at least to
//! two full batches, or to [`LEAST`] if the batch is not known. A server that batches answers two requests in flight no
//! faster than one: one is executed, the other waits.
//!
//! A concurrency that nearly reaches the greatest throughput is measured again, because a server that shares its machine
//! is slower for a while. The result is the smallest concurrency that reaches [`BUSY`] of the greatest throughput: that
//! many requests in flight keep the server busy. It is found by bisection between the last measured concurrency below and
//! the first one above, to one part in [`NEAR`]. A server that batches has no such number; its lanes and batches are
//! fitted ([`Execution`]). If the objective ends the growth, the last concurrency that meets it is bisected, too. Of a
//! server that shares its cores among the requests it is the result if the busy one takes too long.
//!
//! If the uncertainty of the rates leaves a choice, the result is at most [`CHOICE_MAX`] times the smallest concurrency
//! that may be enough: a request too many waits at the server, where it can no longer be overtaken, and a request too few
//! lets the server wait for its proxy.

use crate::execution::Execution;

/// Part of the greatest throughput at which a server counts as busy.
pub const BUSY: f64 = 0.97;
/// Part of the greatest throughput from which on a smaller concurrency is measured again.
const DOUBTFUL: f64 = 0.75;
/// Maximum ratio of the result to the smallest concurrency that may be enough.
pub const CHOICE_MAX: u32 = 2;
/// Reciprocal of the relative distance to the smallest busy concurrency at which a sweep ends.
pub const NEAR: u32 = 16;
/// Maximum concurrency.
pub const CONCURRENCY_MAX: u32 = 1024;
/// Minimum concurrency before throughput counts as constant, if the server's batch is not known.
pub const LEAST: u32 = 16;
/// Multiple of the objective beyond which nothing is measured.
const BEYOND_OBJECTIVE: f64 = 4.0;
/// Minimum growth of throughput for which the last concurrency that meets the objective is looked for.
const WORTH: f64 = 1.05;

/// Limits of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Maximum concurrency.
    pub max: u32,
    /// Minimum concurrency before throughput counts as constant: 1 if the server forms no batches.
    pub least: u32,
    /// Maximum batch that the server forms by itself, if known; 1 if it forms none.
    pub batch: Option<u32>,
    /// Latency objective in ms.
    pub slo_ms: Option<f64>,
    /// Maximum time of a point, in seconds: a concurrency of which the requests are not answered twice in it is left out.
    pub point_s: f64,
}

impl Limits {
    /// Limits for single requests to a server that executes up to `batch` of them together, if that is known.
    #[must_use]
    pub fn new(max: u32, batch: Option<u32>, slo_ms: Option<f64>, point_s: f64) -> Limits {
        let full = batch
            .map_or(LEAST, |batch| batch.saturating_mul(2))
            .min(CONCURRENCY_MAX);
        Limits {
            max: max.max(batch.map_or(0, |_| full)),
            least: full,
            batch,
            slo_ms,
            point_s,
        }
    }

    fn meets(&self, point: &Rate) -> bool {
        self.slo_ms.is_none_or(|slo_ms| point.p95_ms <= slo_ms)
    }
}

/// Next step of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure this concurrency.
    Measure(u32),
    /// The server is busy from this concurrency on.
    Busy(u32),
    /// Throughput still grows at the greatest concurrency allowed, which is this.
    Growing(u32),
}

/// Measured throughput of one concurrency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests, or batches, in flight.
    pub concurrency: u32,
    /// Throughput in batches per second.
    pub per_s: f64,
    /// Half width of its 95 % interval, in percent.
    pub half_width_percent: f64,
    /// 95th percentile of the latency, in ms.
    pub p95_ms: f64,
}

/// Returns the next step; `measured` holds the rates so far, in any order.
#[must_use]
pub fn next(measured: &[Rate], limits: &Limits) -> Step {
    let max = limits.max;
    let points = highest(measured);
    let Some(last) = points.last().copied() else {
        return Step::Measure(1);
    };
    let grows = grows(measured);
    let twice = last.concurrency.saturating_mul(2).min(max);
    let hopeless = limits
        .slo_ms
        .map_or(f64::INFINITY, |slo_ms| BEYOND_OBJECTIVE * slo_ms);
    let is_possible =
        last.p95_ms <= hopeless && 2.0 * f64::from(twice) <= limits.point_s * last.per_s;
    let goes_on =
        (grows && limits.meets(&last)) || (last.concurrency < limits.least && is_possible);
    if last.concurrency < max && goes_on {
        return Step::Measure(twice);
    }
    if let Some(between) = last_in_time(&points, limits) {
        return Step::Measure(between);
    }
    let execution = Execution::of(measured, limits.batch);
    let busy = busy(measured).unwrap_or(last.concurrency);
    let takes_too_long = (points.iter()).any(|one| one.concurrency == busy && !limits.meets(one));
    let best = best_within(measured, limits).filter(|best| match execution {
        Some(one) if one.batch > 1 => true,
        // Requests that share the server's cores: each more takes all of them longer.
        Some(one) if !one.is_sure() => takes_too_long && limits.meets(best),
        _ => false,
    });
    if let Some(best) = best {
        let times = measured
            .iter()
            .filter(|one| one.concurrency == best.concurrency);
        return match times.count() {
            1 => Step::Measure(best.concurrency),
            _ if grows && last.concurrency == max && limits.meets(&last) => Step::Growing(max),
            _ => Step::Busy(best.concurrency),
        };
    }
    if let Some(again) = doubtful(&points, measured, busy) {
        return Step::Measure(again);
    }
    let below = points.iter().rev().find(|point| point.concurrency < busy);
    let below = below.map_or(0, |point| point.concurrency);
    if busy - below > (busy / NEAR).max(1) && below > 0 {
        return Step::Measure(below + (busy - below) / 2);
    }
    if grows && busy == last.concurrency && max > 1 {
        Step::Growing(busy)
    } else {
        Step::Busy(busy)
    }
}

/// Returns the greatest rate whose 95th percentile meets the objective; the greatest of all if none does.
#[must_use]
pub fn best_within(measured: &[Rate], limits: &Limits) -> Option<Rate> {
    let in_time: Vec<Rate> = measured
        .iter()
        .filter(|one| limits.meets(one))
        .copied()
        .collect();
    best(&in_time).or_else(|| best(measured)).copied()
}

/// Returns a concurrency between the best that meets the objective and the next one, which does not, if that is worth it.
fn last_in_time(points: &[Rate], limits: &Limits) -> Option<u32> {
    let in_time: Vec<Rate> = points
        .iter()
        .filter(|one| limits.meets(one))
        .copied()
        .collect();
    let within = best(&in_time)?;
    let mut beyond = points
        .iter()
        .filter(|one| one.concurrency > within.concurrency);
    let late = beyond.find(|one| !limits.meets(one))?;
    let between = late.concurrency - within.concurrency;
    let is_near = between <= (within.concurrency / NEAR).max(1);
    (!is_near && late.per_s > WORTH * within.per_s).then_some(within.concurrency + between / 2)
}

/// Whether throughput still grows at the highest measured concurrency.
#[must_use]
pub fn grows(measured: &[Rate]) -> bool {
    let points = highest(measured);
    let mut from_last = points.iter().rev().map(|point| point.per_s);
    let last = from_last.next().unwrap_or_default();
    let best_before = from_last.fold(0.0, f64::max);
    last * BUSY > best_before
}

/// Returns the smallest measured concurrency that reaches [`BUSY`] of the greatest throughput; but not beyond [`CHOICE_MAX`]
/// times the smallest one that may do so by the uncertainty of both. `None` without any.
#[must_use]
pub fn busy(measured: &[Rate]) -> Option<u32> {
    let points = highest(measured);
    let best = best(&points)?;
    let reaches = |point: &&Rate| point.per_s >= BUSY * best.per_s;
    let needed = BUSY * best.per_s * (1.0 - best.half_width_percent / 100.0);
    let may = |point: &&Rate| point.per_s * (1.0 + point.half_width_percent / 100.0) >= needed;
    let may = points.iter().find(may)?.concurrency;
    let allowed = |point: &&Rate| point.concurrency <= may.saturating_mul(CHOICE_MAX);
    let last = points.iter().rev().find(allowed)?;
    let found = points.iter().find(reaches)?;
    Some(found.concurrency.min(last.concurrency))
}

/// Returns the highest rate of each concurrency, in order of concurrency. Others on the server's machine only slow it.
pub(crate) fn highest(measured: &[Rate]) -> Vec<Rate> {
    let mut points = measured.to_vec();
    points.sort_by(|a, b| {
        let by_rate = b.per_s.total_cmp(&a.per_s);
        a.concurrency.cmp(&b.concurrency).then(by_rate)
    });
    points.dedup_by_key(|point| point.concurrency);
    points
}

/// The first of the greatest rates.
fn best(points: &[Rate]) -> Option<&Rate> {
    points
        .iter()
        .reduce(|best, one| match one.per_s > best.per_s {
            true => one,
            false => best,
        })
}

/// Returns the smallest concurrency below `busy`, of those that doubled, which nearly reaches the greatest throughput
/// and was measured once.
fn doubtful(points: &[Rate], measured: &[Rate], busy: u32) -> Option<u32> {
    let needed = best(points)?.per_s * DOUBTFUL;
    let once = |of: u32| measured.iter().filter(|one| one.concurrency == of).count() == 1;
    let mut concurrencies = points
        .iter()
        .filter(|point| point.concurrency < busy && point.per_s >= needed)
        .map(|point| point.concurrency);
    concurrencies.find(|of| of.is_power_of_two() && once(*of))
}

#[cfg(test)]
mod tests;
