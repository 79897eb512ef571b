//! Executions of a variant at one time, added up in one pass over its runs.

use std::time::Duration;

use super::{LaneBacklog, LaneRequest, SlotTable};
use crate::time::{Mono, nanos};

/// An execution that takes this many times its mean may never end.
const HANGS: u64 = 2;

/// Executions of a variant at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LaneScan {
    /// Executions whose start is known.
    pub(super) executing: u32,
    /// Executions that will end soon: one request may be sent early for each. Excludes those that take twice their mean,
    /// because the server may hang.
    pub(super) ending: u32,
    /// Time at which the next execution will count in [`LaneScan::ending`], if one ever will.
    pub(super) next_ending: Option<Mono>,
    /// Remaining work, ns.
    rest: u64,
    /// Shortest remaining time of an execution, ns; 0 if none executes.
    shortest: u64,
    /// Mean service time, ns.
    mean: u64,
}

impl SlotTable {
    /// Adds up a variant's executions, which take `mean`; no request is sent early.
    pub(super) fn scan(&self, column: usize, mean: Duration, now: Mono) -> LaneScan {
        self.scan_after(column, mean, Duration::MAX, now)
    }

    /// Adds up a variant's executions.
    pub(super) fn scan_for(&self, column: usize, lanes: &LaneRequest<'_>, now: Mono) -> LaneScan {
        self.scan_after(column, lanes.mean, lanes.after, now)
    }

    fn scan_after(&self, column: usize, mean: Duration, after: Duration, now: Mono) -> LaneScan {
        // `u64::MAX`, as which `Duration::MAX` is counted, is never reached.
        let (mean, after, now) = (nanos(mean), nanos(after), now.0);
        let hangs = mean.saturating_mul(HANGS);
        let (mut executing, mut ending, mut rest) = (0, 0, 0_u64);
        let (mut shortest, mut next_ending) = (u64::MAX, u64::MAX);
        for run in self.runs_of(column) {
            let (size, began) = (run.size(), run.began.0);
            let left = began.saturating_add(mean).saturating_sub(now);
            rest = rest.saturating_add(left.saturating_mul(u64::from(size)));
            shortest = shortest.min(left);
            executing += size;
            let ends_soon = began.saturating_add(after);
            if ends_soon > now {
                next_ending = next_ending.min(ends_soon);
            } else if now.saturating_sub(began) < hangs {
                ending += size;
            }
        }
        LaneScan {
            executing,
            ending,
            next_ending: (next_ending < u64::MAX).then_some(Mono(next_ending)),
            rest,
            shortest: if executing > 0 { shortest } else { 0 },
            mean,
        }
    }
}

impl LaneScan {
    /// Returns the remaining work of `taken` executions, of which `behind` wait at the servers.
    pub(super) fn backlog(&self, behind: u32, taken: u32) -> LaneBacklog {
        let behind = behind.min(taken.saturating_sub(self.executing));
        // The start of the others is unknown; they count as half done.
        let halves = behind * 2 + taken.saturating_sub(self.executing + behind);
        let others = (self.mean / 2).saturating_mul(u64::from(halves));
        LaneBacklog {
            rest: Duration::from_nanos(self.rest.saturating_add(others)),
            shortest: Duration::from_nanos(self.shortest),
        }
    }
}
