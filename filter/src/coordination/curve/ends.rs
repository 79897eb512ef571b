//! How many executions end together: those of one batch.

use crate::time::{Mono, Span};

/// Part of an execution's time within which others count as ended together with it.
const TOGETHER_PART: u32 = 16;
/// Part of the difference, one in so many, by which fewer that ended together lower the most.
const FADE: u32 = 4;

/// Executions that end together, and those that will.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Most that ended together before the latest; 0 before the first.
    pub most: u32,
    /// Number of the latest that did, until now.
    pub latest: u32,
    /// Requests that were in flight before the first of them ended, and not sent later than the execution began.
    pub under_way: u32,
    /// Requests sent since then.
    pub sent: u32,
    /// Time until which others count as ended together with it.
    pub until: Mono,
}

impl Ends {
    /// Records the end of an execution that took so long, with which `in_flight` were in flight until then.
    pub(super) fn record(&mut self, took: Span, in_flight: u32, now: Mono) {
        if self.latest > 0 && now <= self.until {
            self.latest = self.latest.saturating_add(1);
            return;
        }
        // Fewer than before, and not because no more were under way.
        let fewer = self.most().min(self.under_way).saturating_sub(self.latest);
        *self = Ends {
            most: self.most() - fewer.div_ceil(FADE),
            latest: 1,
            under_way: in_flight.saturating_sub(self.sent),
            sent: 0,
            until: now + took / TOGETHER_PART,
        };
    }

    /// Records that so many requests were sent, when `in_flight` were in flight.
    pub(super) fn send(&mut self, count: u32, in_flight: u32) {
        // An idle server begins with the first.
        let idle = u32::from(in_flight == 0);
        let before = if in_flight == 0 { 0 } else { self.sent };
        self.sent = before.saturating_add(count.saturating_sub(idle));
    }

    /// Number, of `in_flight`, that ends with the next execution, or with the one that has just ended; `full`: with the next
    /// one, if none has just ended.
    pub(super) fn ending(&self, in_flight: u32, full: bool, now: Mono) -> u32 {
        let together = self.under_way.min(self.most());
        if now <= self.until && self.latest < together {
            return (together - self.latest).min(in_flight);
        }
        if full { self.together(in_flight) } else { 0 }
    }

    /// Number that will end together next, of `in_flight`; at least 1.
    pub(super) fn together(&self, in_flight: u32) -> u32 {
        in_flight.saturating_sub(self.sent).min(self.most()).max(1)
    }

    fn most(&self) -> u32 {
        self.most.max(self.latest)
    }
}
