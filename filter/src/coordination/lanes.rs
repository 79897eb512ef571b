//! Executions of a variant's servers, as the proxy can infer them: the requests that execute, and since
//! when. Servers begin requests in the order of sending; a request sent to a full server begins with the
//! next answer. Every worker reads here when a lane will be free.
//!
//! This is an estimate. The usages hold the number of slots taken, and the runs are trimmed to it on each
//! acquisition.

use std::time::Duration;

use super::SlotTable;
use super::lane_scan::LaneScan;
use crate::coordination::lead::Lead;
use crate::time::{Mono, nanos};

/// Maximum number of runs kept of a variant. With more lanes at once, the ends of some are not known.
pub const RUNS_MAX: usize = 16;
/// Executions that begin within this time of each other form one run.
const JOIN: Duration = Duration::from_micros(500);
/// Maximum number of executions in a run.
const RUN_BITS: u32 = 32;

/// Executions of one variant that began together: a single one, or a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Run {
    /// Column of the variant.
    pub column: u16,
    /// Ordinal of its first request.
    pub first: u32,
    /// Bit set of those still executing, by their distance from the first.
    pub present: u32,
    /// Start of the executions.
    pub began: Mono,
}

/// Lane data that a worker publishes of one variant, to keep its lanes busy between an answer and the next
/// request.
#[derive(Debug, Clone, Copy)]
pub struct LaneRequest<'a> {
    /// Time from the start of an execution after which the next request may be sent; [`Duration::MAX`]: never.
    pub after: Duration,
    /// Transfer time of a request and its answer between this proxy and an idle server.
    pub gap: Duration,
    /// Mean service time.
    pub mean: Duration,
    /// Ordinals of executions that have ended since the last acquisition.
    pub ended: &'a [u32],
    /// Last of them, for the measurement of the gap.
    pub completed: Option<CompletedExecution>,
    /// Service time of the plan.
    pub planned: Duration,
    /// Ordinals of executions with an unpredictable end.
    pub open_ended: &'a [u32],
}

/// Execution that has ended, as its worker saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedExecution {
    /// Ordinal.
    pub ordinal: u32,
    /// Time of dispatch.
    pub sent: Mono,
    /// Time of its end.
    pub at: Mono,
    /// Whether it was sent to an idle lane.
    pub was_idle: bool,
    /// Whether its duration is a valid measurement of the server's time.
    pub is_measurement: bool,
    /// Whether it ended with an error.
    pub is_error: bool,
}

/// Backlog of a variant's lanes at the time of an acquisition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneBacklog {
    /// Remaining work of all requests sent, in the time of one slot.
    pub rest: Duration,
    /// Shortest remaining time of an execution.
    pub shortest: Duration,
}

/// Report on the lanes of a variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// Ordinal of the first request granted; the others follow.
    pub first: u32,
    /// Number of granted requests, the last ones, that wait behind others at the servers.
    pub behind: u32,
    /// Predicted wait of the first of these at the server.
    pub first_wait: Duration,
    /// Start of [`LaneRequest::completed`], if known.
    pub began: Option<Mono>,
    /// Time from which one more request may be sent before a lane is free.
    pub lead_at: Option<Mono>,
    /// Backlog of the lanes.
    pub backlog: LaneBacklog,
    /// Whether lane data was requested at all.
    pub known: bool,
}

impl Run {
    fn bit(&self, ordinal: u32) -> Option<u32> {
        let place = ordinal.wrapping_sub(self.first);
        (place < RUN_BITS).then(|| 1 << place)
    }

    /// Number of its executions.
    pub(super) fn size(&self) -> u32 {
        // Most often a single one. Processors may have no instruction for `count_ones`.
        let besides_first = self.present & self.present.wrapping_sub(1);
        if besides_first == 0 {
            u32::from(self.present != 0)
        } else {
            1 + besides_first.count_ones()
        }
    }
}

impl SlotTable {
    /// Runs of a variant.
    pub(super) fn runs_of(&self, column: usize) -> impl Iterator<Item = &Run> {
        let of_it = move |run: &&Run| usize::from(run.column) == column;
        self.runs.iter().filter(of_it)
    }

    /// Executions of a variant whose start is known.
    fn executing(&self, column: usize) -> u32 {
        self.runs_of(column).map(Run::size).sum()
    }

    /// Requests of a variant that wait at the servers behind those that execute.
    pub(super) fn behind(&self, column: usize) -> u32 {
        let state = self.columns.get(column);
        state.map_or(0, |state| state.sent.wrapping_sub(state.begun))
    }

    /// Records the executions that have ended, and trims the runs to the `taken` slots. Returns the start of
    /// [`LaneRequest::completed`], if known, the executions that are left, and whether anything changed.
    pub(super) fn update_runs(
        &mut self,
        column: usize,
        lanes: &LaneRequest<'_>,
        slots: u32,
        taken: u32,
        now: Mono,
    ) -> (Option<Mono>, LaneScan, bool) {
        let ordinals = |table: &SlotTable| (table.sent(column), table.begun(column));
        let before = ordinals(self);
        let (mut began, mut changed) = (None, false);
        for ordinal in lanes.ended {
            let of_it = self.finish(column, *ordinal, slots, now);
            let is_requested = lanes
                .completed
                .is_some_and(|completed| completed.ordinal == *ordinal);
            changed |= of_it.is_some();
            began = began.or(of_it.filter(|_| is_requested));
        }
        for ordinal in lanes.open_ended {
            changed |= self.remove_execution(column, *ordinal).is_some();
        }
        let mut scan = self.scan_for(column, lanes, now);
        if self.trim(column, slots, taken, scan.executing) {
            changed = true;
            scan = self.scan_for(column, lanes, now);
        }
        changed |= self.record_gap(column, lanes, began);
        (began, scan, changed || before != ordinals(self))
    }

    /// Adds the completed execution to the lead's measurements. Returns whether it did.
    fn record_gap(&mut self, column: usize, lanes: &LaneRequest<'_>, began: Option<Mono>) -> bool {
        let Some(completed) = lanes.completed.filter(|completed| completed.is_measurement) else {
            return false;
        };
        let mut lead = self.lead(column, lanes.planned);
        match began {
            _ if completed.was_idle => {
                lead.record_idle(completed.at.since(completed.sent), completed.at)
            }
            Some(began) => {
                let early_wait = began.since(completed.sent);
                lead.record_early(completed.at.since(began), early_wait, completed.at);
            }
            None => return false,
        }
        if let Some(state) = self.columns.get_mut(column) {
            state.lead = lead;
        }
        true
    }

    /// Returns a variant's measurements; empty if they were taken for another planned service time.
    pub(super) fn lead(&self, column: usize, planned: Duration) -> Lead {
        let known = self.columns.get(column).map(|state| state.lead);
        let of_it = known.filter(|lead| lead.planned == planned);
        of_it.unwrap_or(Lead::new(planned))
    }

    /// Records `granted` requests sent while `taken` slots were taken. Returns the ordinal of the first, and
    /// the number of them, the last ones, that wait behind others.
    pub(super) fn send(
        &mut self,
        column: usize,
        granted: u32,
        slots: u32,
        taken: u32,
        begins: Mono,
    ) -> (u32, u32) {
        let begun = slots.saturating_sub(taken).min(granted);
        let first = self.sent(column).wrapping_add(1);
        for place in 0..begun {
            self.begin(column, first.wrapping_add(place), begins);
        }
        if let Some(state) = self.columns.get_mut(column) {
            if begun > 0 {
                // With a slot free, no request waits at the servers.
                state.begun = state.sent.wrapping_add(begun);
            }
            state.sent = state.sent.wrapping_add(granted);
        }
        (first, granted - begun)
    }

    /// Drops the runs of a column, such as one that is reused for another variant; returns whether there were any.
    pub(super) fn forget_runs(&mut self, column: usize) -> bool {
        let before = self.runs.len();
        self.runs.retain(|run| usize::from(run.column) != column);
        self.runs.len() < before
    }

    fn finish(&mut self, column: usize, ordinal: u32, slots: u32, now: Mono) -> Option<Mono> {
        const HALF: u32 = 1 << 31;
        let since = self.sent(column).wrapping_sub(ordinal);
        if since >= HALF {
            // Sent under an earlier table.
            return None;
        }
        if since < self.behind(column)
            && let Some(state) = self.columns.get_mut(column)
        {
            // It ended before others were seen to: all requests up to it had begun.
            state.begun = ordinal;
        }
        let began = self.remove_execution(column, ordinal);
        if self.behind(column) > 0 && self.executing(column) < slots {
            let next = self.columns.get_mut(column).map(|state| {
                state.begun = state.begun.wrapping_add(1);
                state.begun
            });
            if let Some(next) = next {
                self.begin(column, next, now);
            }
        }
        began
    }

    fn begin(&mut self, column: usize, ordinal: u32, began: Mono) {
        let of_it = |run: &&mut Run| usize::from(run.column) == column;
        let (mut runs, join) = (0, nanos(JOIN));
        for run in self.runs.iter_mut().filter(of_it) {
            runs += 1;
            let near = (began.0.checked_sub(run.began.0)).is_some_and(|since| since <= join);
            if let Some(bit) = run.bit(ordinal).filter(|_| near) {
                run.present |= bit;
                return;
            }
        }
        if runs < RUNS_MAX {
            let before = self.runs.iter().rposition(|run| run.began <= began);
            let run = Run {
                column: column as u16,
                first: ordinal,
                present: 1,
                began,
            };
            self.runs.insert(before.map_or(0, |at| at + 1), run);
        }
    }

    /// Removes an execution; returns its start.
    fn remove_execution(&mut self, column: usize, ordinal: u32) -> Option<Mono> {
        let place = self.runs.iter().position(|run| {
            let bit = run.bit(ordinal).unwrap_or(0);
            usize::from(run.column) == column && run.present & bit != 0
        })?;
        let run = self.runs.get_mut(place)?;
        run.present &= !run.bit(ordinal).unwrap_or(0);
        let began = run.began;
        if run.present == 0 {
            self.runs.remove(place);
        }
        Some(began)
    }

    /// Trims the runs, of `executing` executions, to the slots taken: the executions of dead workers are never
    /// reported as ended. Returns whether it dropped any.
    fn trim(&mut self, column: usize, slots: u32, taken: u32, executing: u32) -> bool {
        if taken == 0 {
            if let Some(state) = self.columns.get_mut(column) {
                (state.sent, state.begun) = (0, 0);
            }
            return self.forget_runs(column);
        }
        let mut surplus = executing.saturating_sub(taken.min(slots));
        let trims = surplus > 0;
        while surplus > 0 {
            let places = self.runs.iter().enumerate();
            let of_it = places.filter(|(_, run)| usize::from(run.column) == column);
            let oldest = of_it.min_by_key(|(_, run)| run.began);
            let Some(place) = oldest.map(|(place, _)| place) else {
                break;
            };
            if let Some(run) = self.runs.get_mut(place) {
                run.present &= run.present - 1;
                if run.present == 0 {
                    self.runs.remove(place);
                }
            }
            surplus -= 1;
        }
        if let Some(state) = self.columns.get_mut(column) {
            let behind = state.sent.wrapping_sub(state.begun).min(taken);
            state.begun = state.sent.wrapping_sub(behind);
        }
        trims
    }

    fn sent(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(0, |state| state.sent)
    }

    fn begun(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(0, |state| state.begun)
    }
}
