//! The state of a proxy: its board, its workers, and what executes though nobody is left to know.

use std::fmt;
use std::time::Duration;

use super::steps::Step;
use super::worker::{Done, Earlier, Kept, Worker};
use super::{AFTER, LONG_AGO, LOOK, NOW, QUIET, SLOTS, STEPS, WORKERS};
use crate::coordination::{Board, Entry};
use crate::time::Mono;

/// How much of each may still happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Requests.
    pub(super) arrivals: u8,
    /// How many different deadlines they have.
    pub(super) urgencies: u8,
    /// Clients that leave.
    pub(super) abandons: u8,
    /// Workers that die.
    pub(super) deaths: u8,
    /// Turns that lose all their swaps.
    pub(super) lost: u8,
    /// Looks that come a step late.
    pub(super) slow: u8,
    /// Looks that come a step early, and renewals apart from a look.
    pub(super) early: u8,
    /// Times the board is spoilt.
    pub(super) spoils: u8,
}

/// What executes for a worker that has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Left {
    pub(super) end: Mono,
    /// When it was sent; 0 where nobody is sent ahead.
    pub(super) sent: Mono,
    /// The board was spoilt since: nobody can know.
    pub(super) forgotten: bool,
}

/// All there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) board: Board,
    pub(super) spoilt: bool,
    pub(super) workers: [Option<Worker>; WORKERS],
    pub(super) left: Vec<Left>,
    /// How long an execution takes, as predicted.
    pub(super) service: Duration,
    /// How many leave together.
    pub(super) batch: u32,
    /// Whether the next is sent before a lane is free.
    pub(super) ahead: bool,
    pub(super) budget: Budget,
    /// For how many steps nothing executes and nobody waits.
    pub(super) quiet: u8,
    /// A slot went to somebody although another came first.
    pub(super) out_of_order: bool,
    /// Somebody left although no batch was closed.
    pub(super) left_alone: bool,
    /// More may leave than wait.
    pub(super) open_for_nobody: bool,
}

impl State {
    /// All workers alive, with so many slots taken.
    pub(super) fn new(
        taken: [u32; WORKERS],
        service: Duration,
        batch: u32,
        ahead: bool,
        budget: Budget,
    ) -> State {
        let mut state = State {
            board: Board::default(),
            spoilt: false,
            workers: std::array::from_fn(|_| Some(Worker::default())),
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
            left_alone: false,
            open_for_nobody: false,
        };
        // The first to come finds no board at all; the model begins with an empty one.
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
                let (board, spoilt) = (&mut state.board, &mut state.spoilt);
                one.renew(
                    worker,
                    &mut Kept {
                        board,
                        spoilt,
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

    /// Slots in which something executes, in truth.
    pub(super) fn executing(&self) -> u32 {
        let of = |one: &Worker| {
            one.running.len() + one.ghosts.iter().filter(|ghost| ghost.end > NOW).count()
        };
        let living: usize = self.workers.iter().flatten().map(of).sum();
        let known = |left: &&Left| !left.forgotten;
        (living + self.left.iter().filter(known).count()) as u32
    }

    /// Executions that may have another behind them by now: each was sent long enough ago.
    pub(super) fn ending(&self) -> u32 {
        let living = self.workers.iter().flatten();
        let theirs = living.flat_map(|one| one.running.iter().chain(&one.ghosts));
        let left = self.left.iter().filter(|left| !left.forgotten);
        let sent = theirs.map(|one| one.sent).chain(left.map(|left| left.sent));
        let ending = sent.filter(|sent| *sent > Mono(0) && *sent + AFTER <= NOW);
        SLOTS.min(ending.count() as u32)
    }

    /// Slots that the board counts as taken.
    pub(super) fn counted(&self) -> u32 {
        if self.board.columns.is_empty() {
            0
        } else {
            self.board.taken(0, NOW)
        }
    }

    pub(super) fn settles(&self) -> bool {
        NOW < self.board.settling_until
    }

    pub(super) fn has_free_slot(&self) -> bool {
        !self.spoilt && self.counted() < SLOTS
    }

    /// Whether time can go by: nobody has to do something first.
    pub(super) fn can_wait(&self) -> bool {
        let mut living = self.workers.iter().flatten();
        let late = self
            .workers
            .iter()
            .flatten()
            .filter(|one| one.is_due())
            .count();
        late <= usize::from(self.budget.slow)
            && living.all(|one| one.looked <= LOOK && one.running.iter().all(|one| one.end >= NOW))
    }

    /// Whether whoever has died is off the board.
    pub(super) fn all_dead_are_left(&self) -> bool {
        let mut entries = self.board.entries.iter().enumerate();
        self.workers.iter().all(Option::is_some)
            && entries.all(|(index, entry)| {
                let taken = self.board.cell(index, 0).counts(false, NOW);
                entry.incarnation != 0 || (!entry.lives(NOW) && taken == 0)
            })
    }

    pub(super) fn ring(&mut self, entry: usize) {
        let Some(entry) = self.board.entries.get(entry) else {
            return;
        };
        let whose = |worker: &usize| Worker::incarnation(*worker) == entry.incarnation;
        if let Some(worker) = (0..WORKERS).find(whose)
            && let Some(one) = &mut self.workers[worker]
        {
            one.ring.0 = true;
            one.rings += 1;
        }
    }

    pub(super) fn someone_else_is_rung(&self, worker: usize) -> bool {
        let own = Worker::incarnation(worker);
        self.board.entries.iter().enumerate().any(|(index, entry)| {
            let holds = self.board.cell(index, 0).head.is_some();
            entry.incarnation != own && entry.rung_at != Mono(0) && holds
        })
    }

    pub(super) fn has_struck(&self, worker: usize, before: &Board) -> bool {
        let own = Worker::incarnation(worker);
        before.entries.iter().enumerate().any(|(index, entry)| {
            let held = before.cell(index, 0).head.is_some();
            let others = entry.incarnation != own && entry.lives(NOW);
            others && held && self.board.cell(index, 0).head.is_none()
        })
    }

    /// Notes where a slot was granted although another, who lives and has not been passed over with
    /// right, holds an earlier deadline.
    pub(super) fn note_order(&mut self, worker: usize, before: &Board, done: &Done) {
        let own = Worker::incarnation(worker);
        let latest = done.deadlines.iter().max();
        let Some(latest) = latest.filter(|_| NOW >= before.settling_until) else {
            return;
        };
        let mut rivals = before.entries.iter().enumerate();
        self.out_of_order |= rivals.any(|(index, entry)| {
            let head = before.cell(index, 0).head;
            let stands = entry.incarnation != own && entry.lives(NOW) && !self.has_kept_away(entry);
            stands && head.is_some_and(|head| head < *latest)
        });
    }

    /// Notes where more left than were still open or make full batches, or more may leave than wait.
    pub(super) fn note_batch(
        &mut self,
        worker: usize,
        before: &Board,
        done: &Done,
        met: &mut Vec<&'static str>,
    ) {
        let Some((waited, due)) = done.asked.filter(|_| self.batch > 1) else {
            return;
        };
        let open = |board: &Board| board.columns.first().map_or(0, |column| column.open);
        let own = |entry: &Entry| entry.incarnation == Worker::incarnation(worker);
        let elsewhere = before.others_of(
            before.entries.iter().position(own).unwrap_or(usize::MAX),
            0,
            NOW,
        );
        let waiting = elsewhere.waiting + waited;
        let full = waiting.saturating_sub(open(before)) / self.batch * self.batch;
        self.left_alone |= !due && done.granted > open(before) + full;
        self.open_for_nobody |= open(&self.board) > self.board.waiting(0, NOW);
        if done.granted > 0 && open(before) == 0 && open(&self.board) > 0 {
            met.push("a batch of several workers closed");
        }
        if done.granted > 0 && due && waiting < self.batch {
            met.push("a batch closed because one was due");
        }
    }

    /// Whether it was rung, has had its grace, and has not come since.
    fn has_kept_away(&self, entry: &Entry) -> bool {
        let whose = |worker: &usize| Worker::incarnation(*worker) == entry.incarnation;
        let one = (0..WORKERS)
            .find(whose)
            .and_then(|worker| self.workers[worker].as_ref());
        let waited = entry.rung_at != Mono(0) && NOW.since(entry.rung_at) >= STEPS.grace;
        waited && one.is_none_or(|one| one.rings > 0)
    }

    /// A step of time goes by.
    pub(super) fn age(&mut self, met: &mut Vec<&'static str>) {
        let late = self
            .workers
            .iter()
            .flatten()
            .filter(|one| one.is_due())
            .count();
        self.budget.slow -= late as u8;
        self.workers.iter_mut().flatten().for_each(Worker::age);
        for left in &mut self.left {
            left.end.0 -= 1;
            left.sent = left.sent.earlier(LONG_AGO);
        }
        for run in &mut self.board.runs {
            run.began = run.began.earlier(LONG_AGO);
        }
        self.left.retain(|left| left.end > NOW);
        let settling = self.board.settling_until.earlier(NOW);
        self.board.settling_until = if settling > NOW { settling } else { Mono(0) };
        for column in &mut self.board.columns {
            (column.used_at, column.idle_since) = (NOW, column.idle_since.map(|_| NOW));
        }
        for index in 0..self.board.entries.len() {
            let entry = &mut self.board.entries[index];
            entry.lease = entry.lease.earlier(NOW);
            entry.rung_at = entry.rung_at.earlier(Mono(NOW.0 - 1));
            let (dead, lives) = (entry.incarnation == 0, entry.lives(NOW));
            assert!(dead || lives, "a worker that looks in time keeps its lease");
            let mut cell = self.board.cell(index, 0);
            cell.until = cell.until.earlier(NOW);
            if dead && cell.counts(lives, NOW) > 0 {
                met.push("a dead worker's slots counted");
            }
            if dead && !lives {
                cell.taken = cell.counts(false, NOW);
            }
            self.board.put_cell(index, 0, cell, true);
        }
    }

    /// After a step: who was passed over, and for how long it has been quiet.
    ///
    /// A look that comes early, within another's grace, is none of the two a free slot may wait.
    pub(super) fn judge(&mut self, step: Step, due: bool) {
        let free = self.has_free_slot() && !self.settles();
        for (worker, one) in self.workers.iter_mut().enumerate() {
            let Some(one) = one else { continue };
            if !free || one.waiting.is_empty() {
                one.passed_over = 0;
            } else if due
                && step
                    == (Step::Look {
                        worker,
                        lost: false,
                    })
            {
                one.passed_over += 1;
            }
        }
        let mut living = self.workers.iter().flatten();
        let idle = |one: &Worker| one.taken() == 0 && one.waiting.is_empty();
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
        for (index, entry) in self.board.entries.iter().enumerate() {
            let cell = self.board.cell(index, 0);
            let rung = (entry.rung_at != Mono(0)).then(|| from_now(entry.rung_at));
            let head = cell.head.map(|head| head.0 as i64 - (NOW.0 << 1) as i64);
            writeln!(
                f,
                "  entry {index}: vm {} lease {} rung {rung:?} taken {} until {} head {head:?}",
                entry.incarnation,
                from_now(entry.lease),
                cell.taken,
                from_now(cell.until),
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
            write!(f, "ghosts {}, ring {:?}, ", one.ghosts.len(), one.ring)?;
            writeln!(
                f,
                "looked {} ago, passed over {}",
                one.looked, one.passed_over
            )?;
        }
        write!(
            f,
            "  left {}, spoilt {}, settles {}",
            self.left.len(),
            self.spoilt,
            self.settles()
        )
    }
}
