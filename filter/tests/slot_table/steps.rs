//! Events, and their effects.

use super::state::{OrphanedExecution, State};
use super::worker::{Cause, ModelWorker, Running, StepResult, StoredTable};
use super::{NOW, WORKERS};
use crate::priority::Urgency;

/// Event. `lost`: all of the worker's swaps are lost, and it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A request arrives.
    Arrive {
        worker: usize,
        urgency: u8,
        lost: bool,
    },
    /// An answer arrives.
    Finish {
        worker: usize,
        index: usize,
        lost: bool,
    },
    /// The client of an execution disconnects; the server goes on.
    Abandon { worker: usize, index: usize },
    /// The client of a waiting request disconnects, or its deadline passes.
    Leave { worker: usize, index: usize },
    /// A worker ticks.
    Tick { worker: usize, lost: bool },
    /// A worker renews its lease; the rest of its tick comes later.
    Renew { worker: usize },
    /// A notification is received.
    Notified { worker: usize, lost: bool },
    /// A worker dies; its servers go on.
    Die { worker: usize },
    /// A worker acquires on its tick, and dies before it can use the slots.
    ClaimAndDie { worker: usize },
    /// Another VM takes its place.
    Return { worker: usize },
    /// Another program changes the table's bytes.
    Corrupt,
    /// Time advances.
    Time,
}

impl State {
    /// Appends all events that can happen next.
    pub(super) fn steps(&self, steps: &mut Vec<Step>) {
        for worker in 0..WORKERS {
            match &self.workers[worker] {
                Some(one) => self.worker_steps(worker, one, steps),
                None => steps.push(Step::Return { worker }),
            }
        }
        if self.budget.corruptions > 0 {
            steps.push(Step::Corrupt);
        }
        if self.can_advance_time() {
            steps.push(Step::Time);
        }
    }

    fn worker_steps(&self, worker: usize, one: &ModelWorker, steps: &mut Vec<Step>) {
        let budget = &self.budget;
        for lost in [false, true]
            .into_iter()
            .take(1 + usize::from(budget.lost > 0))
        {
            if budget.arrivals > 0 {
                let urgencies = 0..budget.urgencies;
                steps.extend(urgencies.map(|urgency| Step::Arrive {
                    worker,
                    urgency,
                    lost,
                }));
            }
            for index in distinct_indices(&one.running) {
                steps.push(Step::Finish {
                    worker,
                    index,
                    lost,
                });
            }
            if one.is_due() || one.stale || (budget.early > 0 && one.ticked > 0) {
                steps.push(Step::Tick { worker, lost });
            }
            if one.notification != (false, false) {
                steps.push(Step::Notified { worker, lost });
            }
        }
        if budget.early > 0 {
            steps.push(Step::Renew { worker });
        }
        if budget.abandons > 0 {
            steps.extend(
                distinct_indices(&one.running).map(|index| Step::Abandon { worker, index }),
            );
            let waiting = 0..one.waiting.len();
            steps.extend(waiting.map(|index| Step::Leave { worker, index }));
        }
        if budget.deaths > 0 && self.dead_rows_are_reusable() {
            steps.push(Step::Die { worker });
            if !one.waiting.is_empty() {
                steps.push(Step::ClaimAndDie { worker });
            }
        }
    }

    /// Applies an event; appends the situations that occurred to `met`.
    pub(super) fn take(&mut self, step: Step, met: &mut Vec<&'static str>) {
        let due = match step {
            Step::Tick { worker, .. } => self.workers[worker]
                .as_ref()
                .is_some_and(ModelWorker::is_due),
            _ => false,
        };
        match step {
            Step::Arrive {
                worker,
                urgency,
                lost,
            } => {
                self.budget.arrivals -= 1;
                let deadline = Urgency((NOW.0 << 1) + u64::from(urgency));
                let before = self.other_is_notified(worker);
                let done = self.run_write(worker, lost, met, |one, stored| {
                    one.arrive(worker, deadline, stored)
                });
                if done.granted > 0 && before {
                    met.push("an arrival ahead of a notified worker");
                }
            }
            Step::Finish {
                worker,
                index,
                lost,
            } => {
                let done = self.run_write(worker, lost, met, |one, stored| {
                    one.finish(index);
                    one.dispatch_waiting(worker, Cause::Event, stored)
                });
                if done.granted > 0 {
                    met.push("slot passed on within a worker, in one swap");
                }
            }
            Step::Abandon { worker, index } => {
                self.budget.abandons -= 1;
                self.run_write(worker, false, met, |one, stored| {
                    one.abandon(index);
                    one.dispatch_waiting(worker, Cause::Event, stored)
                });
                met.push("a request abandoned");
            }
            Step::Leave { worker, index } => {
                self.budget.abandons -= 1;
                self.run_write(worker, false, met, |one, stored| {
                    one.waiting.remove(index);
                    one.dispatch_waiting(worker, Cause::Event, stored)
                });
            }
            Step::Tick { worker, lost } => self.tick(worker, lost, met),
            Step::Notified { worker, lost } => {
                let done = self.run_write(worker, lost, met, |one, stored| {
                    one.notification = (false, false);
                    one.dispatch_waiting(worker, Cause::Notification, stored)
                });
                if done.granted > 0 {
                    met.push("slot passed to another worker, which was notified");
                }
            }
            Step::Renew { worker } => {
                self.budget.early -= 1;
                self.run_write(worker, false, met, |one, stored| one.renew(worker, stored));
            }
            Step::Die { worker } => self.die(worker, 0),
            Step::ClaimAndDie { worker } => {
                let done =
                    self.run_write(worker, false, met, |one, stored| one.tick(worker, stored));
                self.die(worker, done.granted as usize);
            }
            Step::Return { worker } => self.workers[worker] = Some(ModelWorker::default()),
            Step::Corrupt => self.corrupt(),
            Step::Time => self.advance_time(met),
        }
        self.note_passed_over(step, due);
    }

    fn tick(&mut self, worker: usize, lost: bool, met: &mut Vec<&'static str>) {
        let Some(before) = &self.workers[worker] else {
            return;
        };
        self.budget.early -= u8::from(!before.is_due() && !before.stale);
        let (notified, was_here) = (before.notification != (false, false), before.row.is_some());
        let rows = self.table.rows.len();
        let done = self.run_write(worker, lost, met, |one, stored| one.tick(worker, stored));
        if done.granted > 0 && notified {
            met.push("a notification lost, and repaired by a tick");
        }
        let joined = !was_here
            && self.workers[worker]
                .as_ref()
                .is_some_and(|one| one.row.is_some());
        if joined && self.table.rows.len() == rows && !done.reset {
            met.push("a row reused");
        }
    }

    /// Runs a worker's write: its effect on the table, and its notifications.
    fn run_write(
        &mut self,
        worker: usize,
        lost: bool,
        met: &mut Vec<&'static str>,
        act: impl FnOnce(&mut ModelWorker, &mut StoredTable<'_>) -> StepResult,
    ) -> StepResult {
        let before = (!self.corrupted).then(|| self.table.clone());
        let Some(mut one) = self.workers[worker].take() else {
            return StepResult::default();
        };
        let (table, corrupted) = (&mut self.table, &mut self.corrupted);
        let mut stored = StoredTable {
            table,
            corrupted,
            lost,
            service: self.service,
            batch: self.batch,
            ahead: self.ahead,
        };
        let done = act(&mut one, &mut stored);
        let waiting_count = !one.waiting.is_empty();
        if done.lanes.behind > 0 {
            met.push("sent before a lane is free");
        }
        self.workers[worker] = Some(one);
        for row in &done.notified {
            self.notify(*row);
        }
        if lost {
            self.budget.lost -= 1;
            met.push("all swaps of a transaction lost");
        }
        if done.reset {
            met.push("a slot table reset");
        }
        if let Some(before) = before {
            self.note_order(worker, &before, &done);
            self.note_batch(worker, &before, &done, met);
            if self.has_revoked(worker, &before) {
                met.push("a reservation revoked");
            }
            if waiting_count && self.in_quarantine() && done.granted == 0 && self.has_free_slot() {
                met.push("refused during quarantine");
            }
        }
        done
    }

    /// The worker dies with its executions, except the last `unused` it acquired.
    fn die(&mut self, worker: usize, unused: usize) {
        self.budget.deaths -= 1;
        let Some(one) = self.workers[worker].take() else {
            return;
        };
        let own = ModelWorker::incarnation(worker);
        let row = self
            .table
            .rows
            .iter_mut()
            .find(|row| row.incarnation == own);
        // Usage not yet republished at its death is lost.
        let forgotten = self.corrupted || row.is_none();
        if let Some(row) = row {
            row.incarnation = 0;
        }
        // The latest end is that of the slot just acquired.
        let ran = one.running.len() - unused;
        let ends = one.running.into_iter().take(ran).chain(one.orphans);
        let left = ends.filter(|one| one.end > NOW);
        self.left.extend(left.map(|one| OrphanedExecution {
            end: one.end,
            sent: one.sent,
            forgotten,
        }));
        self.left.sort_unstable();
    }

    fn corrupt(&mut self) {
        self.budget.corruptions -= 1;
        self.corrupted = true;
        self.table = super::SlotTable::default();
        self.left.iter_mut().for_each(|left| left.forgotten = true);
    }
}

/// Indices of the executions that differ from the one before.
fn distinct_indices(ends: &[Running]) -> impl Iterator<Item = usize> {
    let new = |index: &usize| *index == 0 || ends[*index] != ends[index - 1];
    (0..ends.len()).filter(new)
}
