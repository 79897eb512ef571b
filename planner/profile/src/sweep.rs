//! Choice of the concurrencies to measure. Pure.
//!
//! The concurrency doubles until throughput stops growing. The result is the smallest concurrency that reaches
//! [`BUSY`] of the greatest throughput: that many requests in flight keep the server busy. It is found by bisection
//! between the last measured concurrency below and the first one above, to one part in [`NEAR`].

/// Part of the greatest throughput at which a server counts as busy.
pub const BUSY: f64 = 0.97;
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

/// Returns the next step; `measured` holds concurrencies and their throughputs, in any order.
#[must_use]
pub fn next(measured: &[(u32, f64)], max: u32) -> Step {
    let mut points = measured.to_vec();
    points.sort_by_key(|(concurrency, _)| *concurrency);
    let Some((last, last_rps)) = points.last().copied() else {
        return Step::Measure(1);
    };
    let before = points.iter().rev().skip(1).map(|(_, rps)| *rps);
    let best_before = before.fold(0.0, f64::max);
    let grows = points.len() == 1 || last_rps * BUSY > best_before;
    if grows && last < max {
        return Step::Measure(last.saturating_mul(2).min(max));
    }
    let best = last_rps.max(best_before);
    let is_busy = |(_, rps): &&(u32, f64)| *rps >= BUSY * best;
    let busy = points.iter().find(is_busy).map_or(last, |(at, _)| *at);
    let below = points.iter().rev().find(|(at, _)| *at < busy);
    let below = below.map_or(0, |(at, _)| *at);
    if busy - below > (busy / NEAR).max(1) && below > 0 {
        return Step::Measure(below + (busy - below) / 2);
    }
    if grows && busy == last && max > 1 {
        Step::Growing(busy)
    } else {
        Step::Busy(busy)
    }
}

/// Returns the smallest measured concurrency that reaches [`BUSY`] of the greatest throughput; `None` without any.
#[must_use]
pub fn busy(measured: &[(u32, f64)]) -> Option<u32> {
    let best = measured.iter().map(|(_, rps)| *rps).fold(0.0, f64::max);
    let busy = measured.iter().filter(|(_, rps)| *rps >= BUSY * best);
    busy.map(|(concurrency, _)| *concurrency).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sweeps a server of that throughput by concurrency; returns the last step and the measured concurrencies.
    fn sweep(rps: impl Fn(u32) -> f64, max: u32) -> (Step, Vec<u32>) {
        let mut measured = Vec::new();
        loop {
            match next(&measured, max) {
                Step::Measure(at) => {
                    assert!(
                        measured.iter().all(|(before, _)| *before != at),
                        "{at} twice"
                    );
                    measured.push((at, rps(at)));
                }
                last => return (last, measured.into_iter().map(|(at, _)| at).collect()),
            }
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
            assert!(measured.len() <= 12, "{lanes}: {measured:?}");
        }
    }

    #[test]
    fn gap_between_requests_is_filled_by_a_second_one() {
        // One execution of 20 ms; 3 ms pass between an answer and the next request.
        let (last, measured) = sweep(|at| (f64::from(at) * 1e3 / 23.0).min(50.0), 64);
        assert_eq!((last, measured), (Step::Busy(2), vec![1, 2, 4]));
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
        assert_eq!(sweep(f64::from, 5), (Step::Growing(5), vec![1, 2, 4, 5]));
    }
}
