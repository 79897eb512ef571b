//! Timers of streams, earliest first. It has no clock.

use std::collections::BTreeSet;

use crate::time::Mono;

/// Length of the list of latest timers. Most timers are cancelled within milliseconds, and a short list is
/// faster than a tree.
const NEWEST_MAX: usize = 8;

/// Streams with their due times.
#[derive(Debug, Default)]
pub(super) struct Timers {
    newest: Vec<(Mono, u32)>,
    due: BTreeSet<(Mono, u32)>,
    /// Earliest of them, which is asked for at every event.
    first: Option<(Mono, u32)>,
}

impl Timers {
    /// Sets a stream's timer; a stream has at most one.
    pub(super) fn set(&mut self, at: Mono, stream: u32) {
        if self.newest.len() >= NEWEST_MAX {
            self.due.extend(self.newest.drain(..));
        }
        let timer = (at, stream);
        self.newest.push(timer);
        self.first = Some(self.first.map_or(timer, |first| first.min(timer)));
    }

    /// Cancels the timer that was set for that time.
    pub(super) fn cancel(&mut self, at: Mono, stream: u32) {
        let timer = (at, stream);
        match self.newest.iter().rposition(|newest| *newest == timer) {
            Some(place) => {
                self.newest.swap_remove(place);
            }
            None => {
                self.due.remove(&timer);
            }
        }
        if self.first == Some(timer) {
            let timers = self.newest.iter().chain(self.due.first());
            self.first = timers.min().copied();
        }
    }

    /// Earliest due time.
    #[must_use]
    pub(super) fn next(&self) -> Option<Mono> {
        self.first.map(|(at, _)| at)
    }

    /// Removes and returns the earliest stream whose time is past.
    pub(super) fn pop(&mut self, now: Mono) -> Option<u32> {
        let (at, stream) = self.first.filter(|(at, _)| *at < now)?;
        self.cancel(at, stream);
        Some(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_fires_only_after_its_time() {
        let mut timers = Timers::default();
        timers.set(Mono(20), 2);
        timers.set(Mono(10), 1);
        timers.set(Mono(30), 3);
        timers.cancel(Mono(30), 3);
        assert_eq!(
            (timers.next(), timers.pop(Mono(10))),
            (Some(Mono(10)), None)
        );
        assert_eq!(
            (timers.pop(Mono(21)), timers.pop(Mono(21))),
            (Some(1), Some(2))
        );
        assert_eq!((timers.pop(Mono(99)), timers.next()), (None, None));
    }

    #[test]
    fn list_and_tree_timers_fire_in_one_order() {
        let many = 5 * NEWEST_MAX as u32;
        let at = |stream: u32| Mono(u64::from(stream * 7 % many) + 1);
        let mut timers = Timers::default();
        (0..many).for_each(|stream| timers.set(at(stream), stream));
        let cancelled = |stream: &u32| stream.is_multiple_of(3);
        let to_cancel = (0..many).filter(cancelled);
        to_cancel.for_each(|stream| timers.cancel(at(stream), stream));
        let mut left: Vec<u32> = (0..many).filter(|stream| !cancelled(stream)).collect();
        left.sort_unstable_by_key(|stream| at(*stream));
        assert_eq!(timers.next(), left.first().map(|first| at(*first)));
        let popped: Vec<u32> = std::iter::from_fn(|| timers.pop(Mono(1000))).collect();
        assert_eq!((popped, timers.next()), (left, None));
    }
}
