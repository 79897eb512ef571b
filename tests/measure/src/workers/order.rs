//! Order inversions and concurrency, from the headers that the filter wrote.
//!
//! The filter tells a server the remaining time at dispatch, in whole ms, and a client how long the
//! request was queued. With the deadline, which is known to the µs, that gives the dispatch time to
//! half a millisecond ([`GRAIN`]) on the filter's own clock, whatever the network and the
//! emulator's timers do.

use std::time::Duration;

/// Precision of a dispatch time, in either direction.
pub const GRAIN: Duration = Duration::from_micros(500);

/// The time of one request at the proxy, relative to the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// Its deadline.
    pub deadline: Duration,
    /// Time of its arrival.
    pub came: Duration,
    /// Time at which it was sent upstream or refused.
    pub went: Duration,
    /// Whether it was sent upstream.
    pub dispatched: bool,
}

/// Number of dispatches, and number of those during which another request with an earlier deadline
/// was queued. That request counts if it arrived at least `margin` before and stayed at least
/// `margin` after the dispatch.
///
/// With a margin of twice [`GRAIN`] every counted one was certainly out of order; those of less
/// than a millisecond are not counted. Without margin all are counted, and some that only seem out
/// of order.
#[must_use]
pub fn inversions(stays: &[Stay], margin: Duration) -> (usize, usize) {
    let mut held: Vec<&Stay> = stays
        .iter()
        .filter(|stay| stay.went > stay.came + margin * 2)
        .collect();
    held.sort_unstable_by_key(|stay| stay.came);
    let longest = held.iter().map(|stay| stay.went - stay.came).max();
    let longest = longest.unwrap_or_default();
    let dispatches = stays.iter().filter(|stay| stay.dispatched);
    let (mut all, mut inverted) = (0, 0);
    for one in dispatches {
        all += 1;
        let since = one.went.saturating_sub(longest);
        let first = held.partition_point(|other| other.came < since);
        let waiting = held.iter().skip(first);
        let mut waiting = waiting.take_while(|other| other.came + margin < one.went);
        inverted += usize::from(
            waiting.any(|other| other.deadline < one.deadline && one.went + margin < other.went),
        );
    }
    (all, inverted)
}

/// Maximum number of these intervals that are open at once; an interval that ends when another
/// begins does not count with it.
#[must_use]
pub fn at_once(intervals: impl Iterator<Item = (f64, f64)>) -> usize {
    let mut edges: Vec<(f64, i64)> = intervals
        .flat_map(|(from, to)| [(from, 1), (to, -1)])
        .collect();
    edges.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut open, mut most) = (0_i64, 0_i64);
    for (_, step) in edges {
        open += step;
        most = most.max(open);
    }
    usize::try_from(most).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(deadline: u64, came: u64, went: u64, dispatched: bool) -> Stay {
        let ms = Duration::from_millis;
        Stay {
            deadline: ms(deadline),
            came: ms(came),
            went: ms(went),
            dispatched,
        }
    }

    #[test]
    fn dispatch_before_queued_earlier_deadline_is_inversion() {
        let ordered = [stay(100, 0, 10, true), stay(200, 0, 20, true)];
        assert_eq!(inversions(&ordered, Duration::ZERO), (2, 0));
        let swapped = [stay(200, 0, 10, true), stay(100, 0, 20, true)];
        assert_eq!(inversions(&swapped, GRAIN * 2), (2, 1));
        // The earlier deadline arrived only then, or had just left.
        let came_later = [stay(200, 0, 10, true), stay(100, 10, 20, true)];
        assert_eq!(inversions(&came_later, Duration::ZERO), (2, 0));
        let barely = [stay(200, 0, 10, true), stay(100, 0, 11, true)];
        assert_eq!(inversions(&barely, Duration::ZERO), (2, 1));
        assert_eq!(inversions(&barely, GRAIN * 2), (2, 0));
    }

    #[test]
    fn refused_request_was_queued_but_not_dispatched() {
        let refused = [stay(200, 0, 10, true), stay(100, 0, 50, false)];
        assert_eq!(inversions(&refused, GRAIN * 2), (1, 1));
    }

    #[test]
    fn touching_intervals_do_not_overlap() {
        assert_eq!(at_once([(0.0, 1.0), (1.0, 2.0)].into_iter()), 1);
        assert_eq!(at_once([(0.0, 2.0), (1.0, 3.0), (1.5, 1.6)].into_iter()), 3);
        assert_eq!(at_once(std::iter::empty()), 0);
    }
}
