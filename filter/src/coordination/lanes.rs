//! Executions of a variant's servers, as the proxy can tell: which of the requests sent execute, and since
//! when. Servers begin in the order of sending: who was sent to a full house begins with the next
//! answer. Every worker reads here when a lane is about to get free.
//!
//! A guide, not a ledger: how many slots are taken stands in the usages, and what is wrong here is trim down
//! to them at each turn.

use std::time::Duration;

use super::SlotTable;
use crate::coordination::lead::Lead;
use crate::time::{Mono, nanos};

/// Most runs that are kept of a variant: of more lanes at once some are not known to end.
pub const RUNS_MAX: usize = 16;
/// Executions that begin within so long of each other are kept as one run.
const JOIN: Duration = Duration::from_micros(500);
/// An execution that takes so many times what it should may never end.
const HANGS: u32 = 2;
/// Executions that a run can have.
const RUN_BITS: u32 = 32;

/// Executions of one variant that began together: a lane's one, or a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Run {
    /// The variant's column.
    pub column: u16,
    /// The ordinal of its first request.
    pub first: u32,
    /// Those that still execute, by their distance from the first.
    pub present: u32,
    /// Moment at which they began.
    pub began: Mono,
}

/// Word and question of a VM on a variant whose lanes are kept busy across the gap between an answer and the
/// next request.
#[derive(Debug, Clone, Copy)]
pub struct LaneRequest<'a> {
    /// Time from an execution's beginning after which the next may be sent.
    pub after: Duration,
    /// Time of a request and its answer between here and an idle server.
    pub gap: Duration,
    /// Mean service time.
    pub mean: Duration,
    /// Ordinals of those whose execution has ended since the last turn.
    pub ended: &'a [u32],
    /// The last of them that the VM has to record_gap from.
    pub completed: Option<CompletedExecution>,
    /// The plan's service time.
    pub planned: Duration,
    /// Ordinals of executions whose end nobody can foretell.
    pub open_ended: &'a [u32],
}

/// An execution that has ended, as its VM saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedExecution {
    /// Its ordinal.
    pub ordinal: u32,
    /// Moment of its dispatch.
    pub sent: Mono,
    /// Moment of its end.
    pub at: Mono,
    /// Whether it was sent to an idle lane.
    pub was_idle: bool,
    /// Whether its time is_measurement what the server takes.
    pub is_measurement: bool,
}

/// Work before the lanes of a variant, as of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneBacklog {
    /// Work left of all that is sent, in the time of one slot.
    pub rest: Duration,
    /// The shortest that is left of one that executes.
    pub shortest: Duration,
}

/// A turn's word on the lanes of its variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// The ordinal of the first that may go; the others' update_runs.
    pub first: u32,
    /// Those that may go and lie behind others at the servers: the last so many.
    pub behind: u32,
    /// Time for which the first of these is expected to lie there.
    pub first_wait: Duration,
    /// Moment at which [`LaneRequest::completed`] began to be executed, where that is known.
    pub began: Option<Mono>,
    /// Moment from which one more may be sent before a lane gets free.
    pub lead_at: Option<Mono>,
    /// Work before the lanes.
    pub backlog: LaneBacklog,
    /// Whether the lanes were asked for at all.
    pub known: bool,
    /// Measurements of the gap, those of this turn included.
    pub lead: Lead,
}

impl Run {
    fn bit(&self, ordinal: u32) -> Option<u32> {
        let place = ordinal.wrapping_sub(self.first);
        (place < RUN_BITS).then(|| 1 << place)
    }

    fn size(&self) -> u32 {
        self.present.count_ones()
    }
}

impl SlotTable {
    fn runs_of(&self, column: usize) -> impl Iterator<Item = &Run> {
        let of_it = move |run: &&Run| usize::from(run.column) == column;
        self.runs.iter().filter(of_it)
    }

    /// Executions of a variant whose beginning is known.
    fn executing(&self, column: usize) -> u32 {
        self.runs_of(column).map(Run::size).sum()
    }

    /// Requests of a variant that lie behind those that execute.
    fn behind(&self, column: usize) -> u32 {
        let state = self.columns.get(column);
        state.map_or(0, |state| state.sent.wrapping_sub(state.begun))
    }

    /// Takes note of what has ended, and of how many slots are `taken` in all; when [`LaneRequest::completed`]
    /// began, if that is known, and whether anything is another than before.
    pub(super) fn update_runs(
        &mut self,
        column: usize,
        lanes: &LaneRequest<'_>,
        slots: u32,
        taken: u32,
        now: Mono,
    ) -> (Option<Mono>, bool) {
        let before = self.lane_fingerprint(column);
        let mut began = None;
        for ordinal in lanes.ended {
            let of_it = self.finish(column, *ordinal, slots, now);
            let is_asked = lanes
                .completed
                .is_some_and(|completed| completed.ordinal == *ordinal);
            began = began.or(of_it.filter(|_| is_asked));
        }
        for ordinal in lanes.open_ended {
            self.remove_execution(column, *ordinal);
        }
        self.trim(column, slots, taken);
        let learnt = self.record_gap(column, lanes, began);
        (began, learnt || before != self.lane_fingerprint(column))
    }

    /// Adds the execution that has completed to the lead's measurements. Returns whether it did.
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

    /// Returns a variant's measurements; none where they were taken for another planned service time.
    pub(super) fn lead(&self, column: usize, planned: Duration) -> Lead {
        let known = self.columns.get(column).map(|state| state.lead);
        let of_it = known.filter(|lead| lead.planned == planned);
        of_it.unwrap_or(Lead::new(planned))
    }

    /// Sends `granted` more where `taken` slots were taken; the ordinal of the first, and how many of them,
    /// the last, lie behind others.
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
                // With a slot free nobody early_wait behind.
                state.begun = state.sent.wrapping_add(begun);
            }
            state.sent = state.sent.wrapping_add(granted);
        }
        (first, granted - begun)
    }

    /// Executions of a variant that are about to end: the next may be sent for each. Not one that takes twice
    /// its time: its server may hang.
    pub(super) fn ending(&self, column: usize, lanes: &LaneRequest<'_>, now: Mono) -> u32 {
        let runs = self.runs_of(column);
        let ending = runs.filter(|run| {
            run.began + lanes.after <= now && now.since(run.began) < lanes.mean * HANGS
        });
        ending.map(Run::size).sum()
    }

    /// Moment at which the next execution will count among those of [`SlotTable::ending`].
    pub(super) fn next_ending(&self, column: usize, after: Duration, now: Mono) -> Option<Mono> {
        let moments = self.runs_of(column).map(|run| run.began + after);
        moments.filter(|at| *at > now).min()
    }

    /// Returns the work left of `taken` executions that take `mean` each.
    pub(super) fn backlog(
        &self,
        column: usize,
        taken: u32,
        mean: Duration,
        now: Mono,
    ) -> LaneBacklog {
        let (mut rest, mut shortest, mut known) = (0_u64, None, 0);
        for run in self.runs_of(column) {
            let left = nanos((run.began + mean).since(now));
            rest = rest.saturating_add(left.saturating_mul(u64::from(run.size())));
            shortest = Some(shortest.map_or(left, |shortest: u64| shortest.min(left)));
            known += run.size();
        }
        let behind = self.behind(column).min(taken.saturating_sub(known));
        // Of the others nobody knows when they began: they are taken for half done.
        let halves = behind * 2 + taken.saturating_sub(known + behind);
        let others = (nanos(mean) / 2).saturating_mul(u64::from(halves));
        LaneBacklog {
            rest: Duration::from_nanos(rest.saturating_add(others)),
            shortest: Duration::from_nanos(shortest.unwrap_or(0)),
        }
    }

    /// Forgets the lanes of a column, which is another variant's from now on.
    pub(super) fn forget_runs(&mut self, column: usize) {
        self.runs.retain(|run| usize::from(run.column) != column);
    }

    fn finish(&mut self, column: usize, ordinal: u32, slots: u32, now: Mono) -> Option<Mono> {
        const HALF: u32 = 1 << 31;
        let since = self.sent(column).wrapping_sub(ordinal);
        if since >= HALF {
            // LaneReport by the word of another table.
            return None;
        }
        if since < self.behind(column)
            && let Some(state) = self.columns.get_mut(column)
        {
            // It ended before others were seen to: all up to it had begun.
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
        let mut runs = 0;
        for run in self.runs.iter_mut().filter(of_it) {
            runs += 1;
            let near = began.since(run.began) <= JOIN && run.began <= began;
            if let Some(bit) = run.bit(ordinal).filter(|_| near) {
                run.present |= bit;
                return;
            }
        }
        if runs < RUNS_MAX {
            self.runs.push(Run {
                column: column as u16,
                first: ordinal,
                present: 1,
                began,
            });
        }
    }

    /// Takes out one that executes; when it began.
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

    /// Cuts down what is kept to what is taken: of those who died nobody is_measurement that they have ended.
    fn trim(&mut self, column: usize, slots: u32, taken: u32) {
        if taken == 0 {
            self.forget_runs(column);
            if let Some(state) = self.columns.get_mut(column) {
                (state.sent, state.begun) = (0, 0);
            }
            return;
        }
        let mut surplus = self.executing(column).saturating_sub(taken.min(slots));
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
    }

    fn sent(&self, column: usize) -> u32 {
        self.columns.get(column).map_or(0, |state| state.sent)
    }

    /// Tells whether anything of a column's lanes is another than before.
    fn lane_fingerprint(&self, column: usize) -> (u32, u32, u32, u64) {
        let state = self.columns.get(column);
        let sum = self.runs_of(column).fold(0_u64, |sum, run| {
            sum.wrapping_mul(31).wrapping_add(run.began.0)
        });
        (
            self.sent(column),
            state.map_or(0, |state| state.begun),
            self.executing(column),
            sum,
        )
    }
}
