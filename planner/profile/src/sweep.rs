//! Choice of the concurrencies to measure. Pure.
//!
//! The concurrency doubles until throughput stops growing. One that nearly reaches the greatest throughput is measured
//! again, because a server that shares its machine is slower for a while. The result is the smallest concurrency that reaches
//! [`BUSY`] of the greatest throughput: that many requests in flight keep the server busy. It is found by bisection
//! between the last measured concurrency below and the first one above, to one part in [`NEAR`].
//!
//! If the uncertainty of the rates leaves a choice, the result is at most [`CHOICE_MAX`] times the smallest concurrency
//! that may be enough: a request too many waits at the server, where it can no longer be overtaken, and a request too few
//! lets the server wait for its proxy. A server of short executions gets up to [`SHORT_MAX`] requests: after each execution
//! it would wait for the next request, and on a busy machine lose its caches meanwhile; and a server spends less CPU time
//! on each of several requests that it finds waiting. As long as all of them wait for [`SHORT_S`] at most, that costs less.

/// Part of the greatest throughput at which a server counts as busy.
pub const BUSY: f64 = 0.97;
/// Part of the greatest throughput from which on a smaller concurrency is measured again.
const DOUBTFUL: f64 = 0.75;
/// Maximum ratio of the result to the smallest concurrency that may be enough.
pub const CHOICE_MAX: u32 = 2;
/// Maximum wait, in seconds, of the last of several requests in flight at a server of short executions.
pub const SHORT_S: f64 = 1.0 / 15.0;
/// Maximum number of requests in flight for the only reason that executions are short.
pub const SHORT_MAX: u32 = 4;
/// Reciprocal of the relative distance to the smallest busy concurrency at which a sweep ends.
pub const NEAR: u32 = 16;
/// Maximum concurrency.
pub const CONCURRENCY_MAX: u32 = 1024;

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
}

/// Returns the next step; `measured` holds the rates so far, in any order.
#[must_use]
pub fn next(measured: &[Rate], max: u32) -> Step {
    let points = highest(measured);
    let Some(last) = points.last().copied() else {
        return Step::Measure(1);
    };
    let grows = grows(measured);
    let short = short_max(&points).min(max);
    if (grows && last.concurrency < max) || last.concurrency < short {
        return Step::Measure(last.concurrency.saturating_mul(2).min(max));
    }
    let busy = busy(measured).unwrap_or(last.concurrency);
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
    let enough = found.concurrency.min(last.concurrency);
    Some(short(&points).map_or(enough, |short| enough.max(short)))
}

/// Returns the largest concurrency of short executions that is not known to slow the server, by the uncertainty of its
/// rate and of the highest one with fewer requests in flight.
fn short(points: &[Rate]) -> Option<u32> {
    let max = short_max(points);
    let (mut reached, mut found) = (0.0_f64, None);
    for point in points.iter().filter(|point| point.concurrency <= max) {
        let uncertain = point.half_width_percent / 100.0;
        if point.per_s * (1.0 + uncertain) >= reached {
            found = Some(point.concurrency);
        }
        reached = reached.max(BUSY * point.per_s * (1.0 - uncertain));
    }
    found
}

/// Returns the largest concurrency, a power of two up to [`SHORT_MAX`], of which the last request waits no longer than
/// [`SHORT_S`] for the others if they are executed one after the other.
fn short_max(points: &[Rate]) -> u32 {
    let one = points.iter().find(|point| point.concurrency == 1);
    let others = one.map_or(0.0, |one| one.per_s * SHORT_S);
    let fits = |of: &u32| f64::from(*of - 1) <= others;
    let powers = std::iter::successors(Some(1), |of: &u32| of.checked_mul(2));
    powers
        .take_while(|of| *of <= SHORT_MAX)
        .take_while(fits)
        .last()
        .unwrap_or(1)
}

/// Returns the highest rate of each concurrency, in order of concurrency. Others on the server's machine only slow it.
fn highest(measured: &[Rate]) -> Vec<Rate> {
    let mut points = measured.to_vec();
    points.sort_by(|a, b| {
        let by_rate = b.per_s.total_cmp(&a.per_s);
        a.concurrency.cmp(&b.concurrency).then(by_rate)
    });
    points.dedup_by_key(|point| point.concurrency);
    points
}

fn best(points: &[Rate]) -> Option<&Rate> {
    points.iter().max_by(|a, b| a.per_s.total_cmp(&b.per_s))
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
mod tests {
    use super::*;

    /// Sweeps a server of that throughput by concurrency; returns the last step and the measured concurrencies.
    fn sweep(rps: impl Fn(u32) -> f64, max: u32) -> (Step, Vec<u32>) {
        sweep_noisy(|at, _| rps(at), 0.0, max)
    }

    /// The same with that uncertainty, and a throughput that depends on the number of points measured before.
    fn sweep_noisy(
        rps: impl Fn(u32, usize) -> f64,
        half_width_percent: f64,
        max: u32,
    ) -> (Step, Vec<u32>) {
        let mut measured: Vec<Rate> = Vec::new();
        loop {
            match next(&measured, max) {
                Step::Measure(concurrency) => {
                    let times = measured.iter().filter(|one| one.concurrency == concurrency);
                    assert!(times.count() < 2, "{concurrency} a third time");
                    measured.push(Rate {
                        concurrency,
                        per_s: rps(concurrency, measured.len()),
                        half_width_percent,
                    });
                }
                last => return (last, measured.iter().map(|one| one.concurrency).collect()),
            }
        }
    }

    #[test]
    fn server_that_was_slower_for_a_while_is_measured_again() {
        // One execution at a time; the first point comes while something else runs on the machine.
        let slow_first = |_, before| if before == 0 { 8.0 } else { 10.0 };
        let (last, measured) = sweep_noisy(slow_first, 3.0, 64);
        assert_eq!((last, measured), (Step::Busy(1), vec![1, 2, 4, 1]));
    }

    /// As measured: a server under a CPU quota takes less CPU time for each of several requests that it finds waiting.
    #[test]
    fn uncertain_throughput_leaves_a_choice_within_a_doubling() {
        let of = |rates: [f64; 4]| move |at: u32, _| rates[at.ilog2().min(3) as usize];
        for (rates, uncertainty, busy) in [
            ([9.8, 10.0, 10.0, 10.0], 8.0, 1),
            ([9.3, 9.75, 10.0, 10.0], 8.0, 2),
            ([9.3, 9.65, 10.0, 10.0], 8.0, 2),
            ([9.0, 10.0, 10.0, 10.0], 0.0, 2),
            ([5.0, 9.3, 9.6, 10.0], 8.0, 4),
            // Short executions: one more may wait, or three.
            ([14.0, 14.1, 14.1, 14.1], 8.0, 1),
            ([24.0, 24.1, 24.1, 24.1], 8.0, 2),
            ([24.0, 22.0, 22.0, 22.0], 1.0, 1),
            ([98.0, 100.0, 102.0, 102.0], 8.0, 4),
            ([100.0, 100.0, 100.0, 100.0], 1.0, 4),
            ([100.0, 90.0, 90.0, 90.0], 8.0, 4),
            ([100.0, 100.0, 90.0, 90.0], 1.0, 2),
            ([100.0, 90.0, 90.0, 90.0], 1.0, 1),
        ] {
            let (last, _) = sweep_noisy(of(rates), uncertainty, 8);
            assert!(
                matches!(last, Step::Busy(at) | Step::Growing(at) if at == busy),
                "{rates:?}: {last:?}"
            );
        }
    }

    #[test]
    fn smallest_busy_concurrency_is_found_with_few_points() {
        for lanes in 1..=40_u32 {
            let (last, measured) = sweep(|at| f64::from(at.min(lanes)), 256);
            // 34 of 35 lanes are 97 %.
            let busy = (f64::from(lanes) * BUSY).ceil() as u32;
            let near = busy..=busy + busy / NEAR;
            let found = matches!(last, Step::Busy(at) if near.contains(&at));
            assert!(found, "{lanes}: {last:?} {measured:?}");
            assert!(measured.len() <= 13, "{lanes}: {measured:?}");
        }
    }

    #[test]
    fn gap_between_requests_is_filled_by_a_second_one() {
        // One execution of 20 ms; 3 ms pass between an answer and the next request.
        let (last, measured) = sweep(|at| (f64::from(at) * 1e3 / 23.0).min(50.0), 64);
        assert_eq!((last, measured), (Step::Busy(2), vec![1, 2, 4, 1]));
    }

    #[test]
    fn throughput_that_falls_again_ends_the_sweep() {
        let (last, _) = sweep(
            |at| f64::from(at.min(4)) - f64::from(at.max(8) - 8) / 4.0,
            256,
        );
        assert_eq!(last, Step::Busy(4));
    }

    #[test]
    fn growth_at_the_maximum_concurrency_is_reported() {
        assert_eq!(sweep(f64::from, 16).0, Step::Growing(16));
        assert_eq!(sweep(f64::from, 1), (Step::Busy(1), vec![1]));
        assert_eq!(sweep(f64::from, 5), (Step::Growing(5), vec![1, 2, 4, 5, 4]));
    }
}
