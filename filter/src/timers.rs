//! Moments at which something is due for a stream, the earliest first. It holds no clock.

use std::collections::BTreeSet;

use crate::time::Mono;

/// Streams, each with the moment when it is due.
#[derive(Debug, Default)]
pub struct Timers {
    due: BTreeSet<(Mono, u32)>,
}

impl Timers {
    /// Sets a stream's timer. A stream has one at the most.
    pub fn set(&mut self, at: Mono, stream: u32) {
        self.due.insert((at, stream));
    }

    /// Takes back a timer that was set so.
    pub fn cancel(&mut self, at: Mono, stream: u32) {
        self.due.remove(&(at, stream));
    }

    /// The earliest moment.
    #[must_use]
    pub fn next(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes out the earliest stream whose moment is past.
    pub fn pop(&mut self, now: Mono) -> Option<u32> {
        let (at, _) = self.due.first()?;
        if *at >= now {
            return None;
        }
        self.due.pop_first().map(|(_, stream)| stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_past_only_after_it() {
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
}
