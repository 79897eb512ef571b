//! Executions of a variant at one time, added up.

use super::{LaneBacklog, LaneRequest, Run, Runs, SlotTable};
use crate::time::{Mono, Span};

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
    pub(super) rest: u64,
    /// Shortest remaining time of an execution, ns; 0 if none executes.
    pub(super) shortest: u64,
    /// Mean service time, ns.
    pub(super) mean: u64,
}

impl SlotTable {
    /// Adds up a variant's executions, which take `mean`; no request is sent early.
    pub(super) fn scan(&self, column: usize, mean: Span, now: Mono) -> LaneScan {
        let runs = self.runs.get(column);
        runs.map_or_else(LaneScan::default, |runs| {
            LaneScan::of(runs, mean, Span::MAX, now)
        })
    }

    /// Adds up a variant's executions.
    pub(super) fn scan_for(&self, column: usize, lanes: &LaneRequest<'_>, now: Mono) -> LaneScan {
        let runs = self.runs.get(column);
        runs.map_or_else(LaneScan::default, |runs| {
            LaneScan::of(runs, lanes.mean, lanes.after, now)
        })
    }

    /// Executions of a variant that will end soon: see [`LaneScan::ending`].
    pub(super) fn ending(&self, column: usize, mean: Span, after: Span, now: Mono) -> u32 {
        let (after, hangs) = (signed(after), signed(mean).saturating_mul(HANGS));
        let runs = self.runs.get(column).into_iter().flat_map(Runs::iter);
        let oldest = runs.take_while(|run| run.age(now) >= after);
        let ending = oldest.filter(|run| run.age(now) < hangs);
        ending.map(Run::size).sum()
    }
}

impl LaneScan {
    /// Adds up executions, which take `mean`. It looks only at those that have taken longer, or will end soon: the sums of
    /// all do for the others. It is compiled once: fetching the instructions of several copies would take longer than the
    /// calls.
    #[inline(never)]
    pub(super) fn of(runs: &Runs, mean: Span, after: Span, now: Mono) -> LaneScan {
        let (mean, after) = (signed(mean), signed(after));
        let hangs = mean.saturating_mul(HANGS);
        let mut rest = runs.work_left(mean, now);
        let (mut ending, mut next) = (0, None);
        for run in runs.iter() {
            let (size, age) = (run.size(), run.age(now));
            let over = age.wrapping_sub(mean).max(0);
            rest = rest.wrapping_add(over.cast_unsigned().wrapping_mul(u64::from(size)));
            if age >= after {
                ending += if age < hangs { size } else { 0 };
                continue;
            }
            next = next.or(Some(age));
            if over == 0 {
                break;
            }
        }
        let next = next.filter(|_| after < i64::MAX);
        let next_ending = |age| Mono(now.0.saturating_add_signed(after.wrapping_sub(age)));
        let oldest = runs.iter().next();
        let shortest = oldest.map_or(0, |run| mean.wrapping_sub(run.age(now)).max(0));
        LaneScan {
            executing: runs.executing(),
            ending,
            next_ending: next.map(next_ending),
            rest,
            shortest: shortest.cast_unsigned(),
            mean: mean.cast_unsigned(),
        }
    }

    /// Returns the remaining work of `taken` executions, of which `behind` wait at the servers.
    pub(super) fn backlog(&self, behind: u32, taken: u32) -> LaneBacklog {
        let behind = behind.min(taken.saturating_sub(self.executing));
        // The start of the others is unknown; they count as half done.
        let halves = behind * 2 + taken.saturating_sub(self.executing + behind);
        let others = (self.mean / 2).saturating_mul(u64::from(halves));
        LaneBacklog {
            rest: Span::from_nanos(self.rest.saturating_add(others)),
            shortest: Span::from_nanos(self.shortest),
        }
    }
}

/// Span in ns, at most 292 years.
fn signed(span: Span) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
