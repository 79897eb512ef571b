//! Executions of a variant at one time, added up in one pass over its runs.

use std::time::Duration;

use super::{LaneBacklog, LaneRequest, Run, SlotTable};
use crate::time::{Mono, nanos};

/// An execution that takes this many times its mean may never end.
const HANGS: i64 = 2;

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

    /// Executions of a variant that will end soon: see [`LaneScan::ending`].
    pub(super) fn ending(&self, column: usize, mean: Duration, after: Duration, now: Mono) -> u32 {
        let (after, hangs) = (signed(after), signed(mean).saturating_mul(HANGS));
        let oldest = self.runs.iter().take_while(|run| run.age(now) >= after);
        let of_it = oldest.filter(|run| usize::from(run.column) == column && run.age(now) < hangs);
        of_it.map(Run::size).sum()
    }

    /// One pass of plain 64-bit numbers, because each acquisition makes one. It is compiled once: fetching the instructions
    /// of several copies would take longer than the calls.
    #[inline(never)]
    fn scan_after(&self, column: usize, mean: Duration, after: Duration, now: Mono) -> LaneScan {
        let (mean, after) = (signed(mean), signed(after));
        let hangs = mean.saturating_mul(HANGS);
        let (mut executing, mut ending, mut rest) = (0, 0, 0_u64);
        let (mut shortest, mut oldest) = (u64::MAX, i64::MIN);
        for run in self.runs_of(column) {
            let (size, age) = (run.size(), run.age(now));
            let left = mean.wrapping_sub(age).max(0).cast_unsigned();
            rest = rest.wrapping_add(left.wrapping_mul(u64::from(size)));
            shortest = shortest.min(left);
            executing += size;
            if age < after {
                oldest = oldest.max(age);
            } else if age < hangs {
                ending += size;
            }
        }
        let is_ever = after < i64::MAX && oldest > i64::MIN;
        let next_ending = now.0.saturating_add_signed(after.wrapping_sub(oldest));
        LaneScan {
            executing,
            ending,
            next_ending: is_ever.then_some(Mono(next_ending)),
            rest,
            shortest: if executing > 0 { shortest } else { 0 },
            mean: mean.cast_unsigned(),
        }
    }
}

impl Run {
    /// Time since its start, ns; negative if it begins later.
    fn age(&self, now: Mono) -> i64 {
        now.0.wrapping_sub(self.began.0).cast_signed()
    }
}

/// Span in ns, at most 292 years.
fn signed(span: Duration) -> i64 {
    i64::try_from(nanos(span)).unwrap_or(i64::MAX)
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
