//! State of a proxy: its table, its workers, and executions of dead workers.

use crate::time::Span;
use std::fmt;

use super::steps::Step;
use super::worker::{ModelWorker, OneStepLater, StepResult, StoredTable};
use super::{AFTER, LONG_AGO, NOW, QUIET, SLOTS, STEPS, TICK, WORKERS};
use crate::coordination::{Run, Runs, SlotTable, WorkerRow};
use crate::time::Mono;

/// Remaining number of each event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Requests.
    pub(super) arrivals: u8,
    /// Number of different deadlines.
    pub(super) urgencies: u8,
    /// Client disconnects.
    pub(super) abandons: u8,
    /// Deaths of workers.
    pub(super) deaths: u8,
    /// Writes with all swaps lost.
    pub(super) lost: u8,
    /// Ticks that come a step late.
    pub(super) slow: u8,
    /// Ticks that come a step early, and renewals apart from a tick.
    pub(super) early: u8,
    /// Corruptions of the table.
    pub(super) corruptions: u8,
}

/// Execution of a dead worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OrphanedExecution {
    pub(super) end: Mono,
    /// Time of dispatch; 0 without early sending.
    pub(super) sent: Mono,
    /// The table was corrupted since: no worker can know of it.
    pub(super) forgotten: bool,
}

/// State of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) table: SlotTable,
    pub(super) corrupted: bool,
    pub(super) workers: [Option<ModelWorker>; WORKERS],
    pub(super) left: Vec<OrphanedExecution>,
    /// Predicted time of an execution.
    pub(super) service: Span,
    /// Batch size.
    pub(super) batch: u32,
    /// Whether the next request is sent before a lane is free.
    pub(super) ahead: bool,
    pub(super) budget: Budget,
    /// Number of steps without executions or waiting requests.
    pub(super) quiet: u8,
    /// A slot was granted although a more urgent request was first.
    pub(super) out_of_order: bool,
    /// A request left although no batch was closed.
    pub(super) left_incomplete_batch: bool,
    /// More requests may leave than wait.
    pub(super) open_exceeds_waiting: bool,
}

impl State {
    /// All workers alive, with these slots taken.
    pub(super) fn new(
        taken: [u32; WORKERS],
        service: Span,
        batch: u32,
        ahead: bool,
        budget: Budget,
    ) -> State {
        let mut state = State {
            table: SlotTable::default(),
            corrupted: false,
            workers: std::array::from_fn(|_| Some(ModelWorker::default())),
            left: Vec::new(),
            service,
            batch: 1,
            ahead,
            budget: Budget {
                arrivals: u8::MAX,
                ..budget
            },
            quiet: 0,
            out_of_order: false,
            left_incomplete_batch: false,
            open_exceeds_waiting: false,
        };
        // The first to come finds no table at all; the model begins with an empty one.
        for (worker, taken) in taken.into_iter().enumerate() {
            for _ in 0..taken {
                let step = Step::Arrive {
                    worker,
                    urgency: 0,
                    lost: false,
                };
                state.take(step, &mut Vec::new());
            }
            if let Some(one) = &mut state.workers[worker] {
                let (table, corrupted) = (&mut state.table, &mut state.corrupted);
                one.renew(
                    worker,
                    &mut StoredTable {
                        table,
                        corrupted,
                        lost: false,
                        service,
                        batch: 1,
                        ahead,
                    },
                );
            }
        }
        (state.budget, state.batch) = (budget, batch);
        state
    }

    /// Slots with an actual execution.
    pub(super) fn executing(&self) -> u32 {
        let of = |one: &ModelWorker| {
            one.running.len() + one.orphans.iter().filter(|orphan| orphan.end > NOW).count()
        };
        let living: usize = self.workers.iter().flatten().map(of).sum();
        let known = |left: &&OrphanedExecution| !left.forgotten;
        (living + self.left.iter().filter(known).count()) as u32
    }

    /// Executions that may have another behind them by now, because they were sent long enough ago.
    pub(super) fn ending(&self) -> u32 {
        let living = self.workers.iter().flatten();
        let theirs = living.flat_map(|one| one.running.iter().chain(&one.orphans));
        let left = self.left.iter().filter(|left| !left.forgotten);
        let sent = theirs.map(|one| one.sent).chain(left.map(|left| left.sent));
        let ending = sent.filter(|sent| *sent > Mono(0) && *sent + AFTER <= NOW);
        SLOTS.min(ending.count() as u32)
    }

    /// Slots that the table counts as taken.
    pub(super) fn counted(&self) -> u32 {
        if self.table.columns.is_empty() {
            0
        } else {
            self.table.taken(0, NOW)
        }
    }

    pub(super) fn in_quarantine(&self) -> bool {
        NOW < self.table.quarantine_until
    }

    pub(super) fn has_free_slot(&self) -> bool {
        !self.corrupted && self.counted() < SLOTS
    }

    /// Whether time can advance: no worker must act first.
    pub(super) fn can_advance_time(&self) -> bool {
        let mut living = self.workers.iter().flatten();
        let late = self
            .workers
            .iter()
            .flatten()
            .filter(|one| one.is_due())
            .count();
        late <= usize::from(self.budget.slow)
            && living.all(|one| one.ticked <= TICK && one.running.iter().all(|one| one.end >= NOW))
    }

    /// Whether the rows of all dead workers are reusable.
    pub(super) fn dead_rows_are_reusable(&self) -> bool {
        let mut rows = self.table.rows.iter().enumerate();
        self.workers.iter().all(Option::is_some)
            && rows.all(|(index, row)| {
                let taken = self.table.usage(index, 0).counted(false, NOW);
                row.incarnation != 0 || (!row.is_alive(NOW) && taken == 0)
            })
    }

    pub(super) fn notify(&mut self, row: usize) {
        let Some(row) = self.table.rows.get(row) else {
            return;
        };
        let whose = |worker: &usize| ModelWorker::incarnation(*worker) == row.incarnation;
        if let Some(worker) = (0..WORKERS).find(whose)
            && let Some(one) = &mut self.workers[worker]
        {
            one.notification.0 = true;
            one.notifies += 1;
        }
    }

    pub(super) fn other_is_notified(&self, worker: usize) -> bool {
        let own = ModelWorker::incarnation(worker);
        self.table.rows.iter().enumerate().any(|(index, row)| {
            let holds = self.table.usage(index, 0).head.is_some();
            row.incarnation != own && row.notified_at != Mono(0) && holds
        })
    }

    pub(super) fn has_revoked(&self, worker: usize, before: &SlotTable) -> bool {
        let own = ModelWorker::incarnation(worker);
        before.rows.iter().enumerate().any(|(index, row)| {
            let held = before.usage(index, 0).head.is_some();
            let others = row.incarnation != own && row.is_alive(NOW);
            others && held && self.table.usage(index, 0).head.is_none()
        })
    }

    /// Records a slot granted although another live worker, which has not lost its reservation, has an earlier
    /// deadline.
    pub(super) fn note_order(&mut self, worker: usize, before: &SlotTable, done: &StepResult) {
        let own = ModelWorker::incarnation(worker);
        let latest = done.deadlines.iter().max();
        let Some(latest) = latest.filter(|_| NOW >= before.quarantine_until) else {
            return;
        };
        let mut rivals = before.rows.iter().enumerate();
        self.out_of_order |= rivals.any(|(index, row)| {
            let head = before.usage(index, 0).head;
            let stands =
                row.incarnation != own && row.is_alive(NOW) && !self.ignored_notification(row);
            stands && head.is_some_and(|head| head < *latest)
        });
    }

    /// Records more requests leaving than were open or make full batches, or more open places than waiting
    /// requests.
    pub(super) fn note_batch(
        &mut self,
        worker: usize,
        before: &SlotTable,
        done: &StepResult,
        met: &mut Vec<&'static str>,
    ) {
        let Some((waited, due)) = done.acquired.filter(|_| self.batch > 1) else {
            return;
        };
        let open = |table: &SlotTable| table.columns.first().map_or(0, |column| column.open);
        let own = |row: &WorkerRow| row.incarnation == ModelWorker::incarnation(worker);
        let elsewhere = before.other_workers(
            before.rows.iter().position(own).unwrap_or(usize::MAX),
            0,
            NOW,
        );
        let waiting = elsewhere.waiting + waited;
        let full = waiting.saturating_sub(open(before)) / self.batch * self.batch;
        self.left_incomplete_batch |= !due && done.granted > open(before) + full;
        self.open_exceeds_waiting |= open(&self.table) > self.table.waiting(0, NOW);
        if done.granted > 0 && open(before) == 0 && open(&self.table) > 0 {
            met.push("a batch of several workers closed");
        }
        if done.granted > 0 && due && waiting < self.batch {
            met.push("a batch closed because one was due");
        }
    }

    /// Whether it was notified, had its grace, and has not come since.
    fn ignored_notification(&self, row: &WorkerRow) -> bool {
        let whose = |worker: &usize| ModelWorker::incarnation(*worker) == row.incarnation;
        let one = (0..WORKERS)
            .find(whose)
            .and_then(|worker| self.workers[worker].as_ref());
        let waited = row.notified_at != Mono(0) && NOW.since(row.notified_at) >= STEPS.grace;
        waited && one.is_none_or(|one| one.notifies > 0)
    }

    /// Advances time by a step.
    pub(super) fn advance_time(&mut self, met: &mut Vec<&'static str>) {
        let late = self
            .workers
            .iter()
            .flatten()
            .filter(|one| one.is_due())
            .count();
        self.budget.slow -= late as u8;
        self.workers
            .iter_mut()
            .flatten()
            .for_each(ModelWorker::advance_time);
        for left in &mut self.left {
            left.end.0 -= 1;
            left.sent = left.sent.one_step_later(LONG_AGO);
        }
        for runs in &mut self.table.runs {
            let later = |began: Mono| began.one_step_later(LONG_AGO);
            *runs = Runs::of(runs.iter().map(|run| Run {
                began: later(run.began),
                ..*run
            }));
        }
        self.left.retain(|left| left.end > NOW);
        let quarantine = self.table.quarantine_until.one_step_later(NOW);
        self.table.quarantine_until = if quarantine > NOW {
            quarantine
        } else {
            Mono(0)
        };
        for column in &mut self.table.columns {
            (column.used_at, column.idle_since) = (NOW, column.idle_since.map(|_| NOW));
            column.full_since = column.full_since.map(|_| NOW);
        }
        for index in 0..self.table.rows.len() {
            let row = &mut self.table.rows[index];
            row.lease = row.lease.one_step_later(NOW);
            row.notified_at = row.notified_at.one_step_later(Mono(NOW.0 - 1));
            let (dead, is_alive) = (row.incarnation == 0, row.is_alive(NOW));
            assert!(
                dead || is_alive,
                "a worker that ticks in time keeps its lease"
            );
            let mut usage = self.table.usage(index, 0);
            usage.until = usage.until.one_step_later(NOW);
            if dead && usage.counted(is_alive, NOW) > 0 {
                met.push("a dead worker's slots counted");
            }
            if dead && !is_alive {
                usage.taken = usage.counted(false, NOW);
            }
            self.table.set_usage(index, 0, usage, true);
        }
    }

    /// Updates, after a step, the counts of passed-over workers and of quiet steps.
    ///
    /// A tick that comes early, within another's grace, is none of the two for which a free slot may wait.
    pub(super) fn note_passed_over(&mut self, step: Step, due: bool) {
        let free = self.has_free_slot() && !self.in_quarantine();
        for (worker, one) in self.workers.iter_mut().enumerate() {
            let Some(one) = one else { continue };
            if !free || one.waiting.is_empty() {
                one.passed_over = 0;
            } else if due
                && step
                    == (Step::Tick {
                        worker,
                        lost: false,
                    })
            {
                one.passed_over += 1;
            }
        }
        let mut living = self.workers.iter().flatten();
        let idle = |one: &ModelWorker| one.taken() == 0 && one.waiting.is_empty();
        if !(self.left.is_empty() && living.all(idle)) {
            self.quiet = 0;
        } else if step == Step::Time {
            self.quiet = QUIET.min(self.quiet + 1);
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from_now = |at: Mono| at.0 as i64 - NOW.0 as i64;
        for (index, row) in self.table.rows.iter().enumerate() {
            let usage = self.table.usage(index, 0);
            let notified = (row.notified_at != Mono(0)).then(|| from_now(row.notified_at));
            let head = usage.head.map(|head| head.0 as i64 - (NOW.0 << 1) as i64);
            writeln!(
                f,
                "  row {index}: vm {} lease {} notified {notified:?} taken {} until {} head {head:?}",
                row.incarnation,
                from_now(row.lease),
                usage.taken,
                from_now(usage.until),
            )?;
        }
        for (index, one) in self.workers.iter().enumerate() {
            let Some(one) = one else { continue };
            let running: Vec<_> = one.running.iter().map(|one| from_now(one.end)).collect();
            let waiting: Vec<_> = one.waiting.iter().map(|at| at.0 - (NOW.0 << 1)).collect();
            write!(
                f,
                "  vm {}: runs {running:?}, waiting {waiting:?}, ",
                index + 1
            )?;
            write!(
                f,
                "orphans {}, notification {:?}, ",
                one.orphans.len(),
                one.notification
            )?;
            writeln!(
                f,
                "ticked {} ago, passed over {}",
                one.ticked, one.passed_over
            )?;
        }
        write!(
            f,
            "  orphaned {}, corrupted {}, quarantine {}",
            self.left.len(),
            self.corrupted,
            self.in_quarantine()
        )
    }
}
