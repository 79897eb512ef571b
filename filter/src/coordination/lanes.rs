//! Executions of a variant's servers, as the proxy can infer them: the requests that execute, and since
//! when. Servers begin requests in the order of sending; a request sent to a full server begins with the
//! next answer. Every worker reads here when a lane will be free.
//!
//! This is an estimate. The usages hold the number of slots taken, and the runs are trimmed to it on each
//! acquisition.

use super::lane_scan::LaneScan;
use super::{Runs, SlotTable};
use crate::coordination::curve::{self, CurveSample};
use crate::coordination::lead::Lead;
use crate::coordination::limit::Ended;
use crate::time::{Mono, Span};

/// Lane data that a worker publishes of one variant, to keep its lanes busy between an answer and the next
/// request.
#[derive(Debug, Clone, Copy)]
pub struct LaneRequest<'a> {
    /// Time from the start of an execution after which the next request may be sent; [`Span::MAX`]: never.
    pub after: Span,
    /// Transfer time of a request and its answer between this proxy and an idle server.
    pub gap: Span,
    /// Mean service time.
    pub mean: Span,
    /// Ordinals of executions that have ended since the last acquisition.
    pub ended: &'a [u32],
    /// Last of them, for the measurement of the gap.
    pub completed: Option<CompletedExecution>,
    /// Service time of the plan.
    pub planned: Span,
    /// Ordinals of executions with an unpredictable end.
    pub open_ended: &'a [u32],
}

/// Executions that have ended since the last acquisition, for the server curve and the concurrency limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndedExecutions<'a> {
    /// Those that were completed or cut off.
    pub ended: &'a [CompletedExecution],
    /// Service time of the plan.
    pub planned: Span,
    /// Whether the plan has batches, which the servers make by themselves.
    pub batches: bool,
    /// Largest concurrency limit beyond the planned slots; 0: these hold.
    pub limit_max: u32,
}

/// Execution that has ended, as its worker saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedExecution {
    /// Ordinal; 0 without lanes.
    pub ordinal: u32,
    /// Time of dispatch.
    pub sent: Mono,
    /// Time of its end.
    pub at: Mono,
    /// Requests in flight when it was sent, itself included.
    pub in_flight: u32,
    /// Time from the latest end of an execution before that, if others were in flight.
    pub after_end: Span,
    /// Time that the request had when it arrived, with its body.
    pub left: Span,
    /// Planned service time at that time.
    pub planned: Span,
    /// Whether it was sent to an idle lane.
    pub was_idle: bool,
    /// Whether its duration is a valid measurement of the server's time.
    pub is_measurement: bool,
    /// Whether it was cut off: it would have taken longer.
    pub is_cut_off: bool,
    /// Whether it ended with an error.
    pub is_error: bool,
}

/// Backlog of a variant's lanes at the time of an acquisition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneBacklog {
    /// Remaining work of all requests sent, in the time of one slot.
    pub rest: Span,
    /// Shortest remaining time of an execution.
    pub shortest: Span,
}

/// Report on the lanes of a variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// Ordinal of the first request granted; the others follow.
    pub first: u32,
    /// Number of granted requests, the last ones, that wait behind others at the servers.
    pub behind: u32,
    /// Predicted wait of the first of these at the server.
    pub first_wait: Span,
    /// Start of [`LaneRequest::completed`], if known.
    pub began: Option<Mono>,
    /// Time from which one more request may be sent before a lane is free.
    pub lead_at: Option<Mono>,
    /// Backlog of the lanes.
    pub backlog: LaneBacklog,
    /// Whether lane data was requested at all.
    pub known: bool,
}

impl SlotTable {
    /// Executions of a variant whose start is known.
    fn executing(&self, column: usize) -> u32 {
        self.runs.get(column).map_or(0, Runs::executing)
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
        changed |= self.record_gap(column, lanes, slots, began);
        (began, scan, changed || before != ordinals(self))
    }

    /// Adds the completed execution to the lead's measurements. Returns whether it did.
    fn record_gap(
        &mut self,
        column: usize,
        lanes: &LaneRequest<'_>,
        slots: u32,
        began: Option<Mono>,
    ) -> bool {
        let Some(completed) = lanes.completed.filter(|completed| completed.is_measurement) else {
            return false;
        };
        let planned = self
            .columns
            .get(column)
            .map_or(0, |state| state.limit.planned);
        if completed.was_idle && completed.in_flight > slots.min(planned.max(1)) {
            // It explored, or the limit is above the lanes: more were in flight than these execute.
            return false;
        }
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

    /// Adds the executions that have ended to the server curve, and to the search for the limit. Returns whether there were
    /// any.
    pub(super) fn record_curve(
        &mut self,
        column: usize,
        executions: EndedExecutions<'_>,
        in_flight: u32,
    ) -> bool {
        // With batches, an idle server and a busy one differ by what a request waits for the batch before its own.
        let gap = match executions.batches {
            true => Span::ZERO,
            false => self.lead(column, executions.planned).difference(),
        };
        let Some(state) = self.columns.get_mut(column) else {
            return false;
        };
        let mut with = in_flight.saturating_add(executions.ended.len() as u32);
        for execution in executions.ended {
            let completed = !execution.is_cut_off;
            let sample = CurveSample {
                in_flight: execution.in_flight,
                with,
                sent: execution.sent,
                took: execution.at.since(execution.sent),
                planned: execution.planned,
                completed,
            };
            with = with.saturating_sub(1);
            let ratio = (state.curve).record(sample, execution.after_end, execution.at);
            let ended = Ended {
                gap: curve::ratio(gap, execution.planned),
                left: curve::ratio(execution.left, execution.planned),
                in_flight: execution.in_flight,
                sent: execution.sent,
                took: sample.took,
                ratio,
                batches: executions.batches,
                completed,
            };
            if executions.limit_max > 0 {
                state
                    .limit
                    .observe(ended, executions.limit_max, execution.at);
            }
        }
        !executions.ended.is_empty()
    }

    /// Returns a variant's measurements; empty if they were taken for another planned service time.
    pub(super) fn lead(&self, column: usize, planned: Span) -> Lead {
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
        self.runs.get_mut(column).is_some_and(Runs::clear)
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
        if let Some(runs) = self.runs.get_mut(column) {
            runs.begin(ordinal, began);
        }
    }

    /// Removes an execution; returns its start.
    fn remove_execution(&mut self, column: usize, ordinal: u32) -> Option<Mono> {
        self.runs.get_mut(column)?.end(ordinal)
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
        let surplus = executing.saturating_sub(taken.min(slots));
        if let Some(runs) = self.runs.get_mut(column) {
            for _ in 0..surplus {
                runs.drop_oldest();
            }
        }
        if let Some(state) = self.columns.get_mut(column) {
            let behind = state.sent.wrapping_sub(state.begun).min(taken);
            state.begun = state.sent.wrapping_sub(behind);
        }
        surplus > 0
    }

    fn sent(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(0, |state| state.sent)
    }

    fn begun(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(0, |state| state.begun)
    }
}
