//! What can happen next, and what it does.

use super::state::{Left, State};
use super::worker::{Cause, Done, Kept, Running, Worker};
use super::{NOW, WORKERS};
use crate::priority::Urgency;

/// What can happen. `lost`: the worker's swaps are all lost, and it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A request comes.
    Arrive {
        worker: usize,
        urgency: u8,
        lost: bool,
    },
    /// An answer comes.
    Finish {
        worker: usize,
        index: usize,
        lost: bool,
    },
    /// The client of what executes leaves; the server goes on.
    Abandon { worker: usize, index: usize },
    /// The client of one who waits leaves, or its time is up.
    Leave { worker: usize, index: usize },
    /// A worker's tick.
    Look { worker: usize, lost: bool },
    /// A renewal alone: what else its tick does comes later.
    Renew { worker: usize },
    /// A ring is heard.
    Ring { worker: usize, lost: bool },
    /// A worker dies; its servers go on.
    Die { worker: usize },
    /// A worker claims at its tick, and dies before it can use what it claimed.
    ClaimAndDie { worker: usize },
    /// Another VM in its place.
    Return { worker: usize },
    /// The board's bytes are changed by somebody else.
    Spoil,
    /// Time goes by.
    Time,
}

impl State {
    /// All that can happen next.
    pub(super) fn steps(&self, steps: &mut Vec<Step>) {
        for worker in 0..WORKERS {
            match &self.workers[worker] {
                Some(one) => self.steps_of(worker, one, steps),
                None => steps.push(Step::Return { worker }),
            }
        }
        if self.budget.spoils > 0 {
            steps.push(Step::Spoil);
        }
        if self.can_wait() {
            steps.push(Step::Time);
        }
    }

    fn steps_of(&self, worker: usize, one: &Worker, steps: &mut Vec<Step>) {
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
            for index in firsts(&one.running) {
                steps.push(Step::Finish {
                    worker,
                    index,
                    lost,
                });
            }
            if one.is_due() || one.unsettled || (budget.early > 0 && one.looked > 0) {
                steps.push(Step::Look { worker, lost });
            }
            if one.ring != (false, false) {
                steps.push(Step::Ring { worker, lost });
            }
        }
        if budget.early > 0 {
            steps.push(Step::Renew { worker });
        }
        if budget.abandons > 0 {
            steps.extend(firsts(&one.running).map(|index| Step::Abandon { worker, index }));
            let waiting = 0..one.waiting.len();
            steps.extend(waiting.map(|index| Step::Leave { worker, index }));
        }
        if budget.deaths > 0 && self.all_dead_are_left() {
            steps.push(Step::Die { worker });
            if !one.waiting.is_empty() {
                steps.push(Step::ClaimAndDie { worker });
            }
        }
    }

    /// Takes a step; says in `met` what of interest was met.
    pub(super) fn take(&mut self, step: Step, met: &mut Vec<&'static str>) {
        let due = match step {
            Step::Look { worker, .. } => self.workers[worker].as_ref().is_some_and(Worker::is_due),
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
                let before = self.someone_else_is_rung(worker);
                let done = self.turn(worker, lost, met, |one, kept| {
                    one.arrive(worker, deadline, kept)
                });
                if done.granted > 0 && before {
                    met.push("an arrival before the one that was rung");
                }
            }
            Step::Finish {
                worker,
                index,
                lost,
            } => {
                let done = self.turn(worker, lost, met, |one, kept| {
                    one.finish(index);
                    one.hand_over(worker, Cause::Event, kept)
                });
                if done.granted > 0 {
                    met.push("hand-over within a worker, in one swap");
                }
            }
            Step::Abandon { worker, index } => {
                self.budget.abandons -= 1;
                self.turn(worker, false, met, |one, kept| {
                    one.abandon(index);
                    one.hand_over(worker, Cause::Event, kept)
                });
                met.push("a request abandoned");
            }
            Step::Leave { worker, index } => {
                self.budget.abandons -= 1;
                self.turn(worker, false, met, |one, kept| {
                    one.waiting.remove(index);
                    one.hand_over(worker, Cause::Event, kept)
                });
            }
            Step::Look { worker, lost } => self.look(worker, lost, met),
            Step::Ring { worker, lost } => {
                let done = self.turn(worker, lost, met, |one, kept| {
                    one.ring = (false, false);
                    one.hand_over(worker, Cause::Ring, kept)
                });
                if done.granted > 0 {
                    met.push("hand-over to another worker, rung");
                }
            }
            Step::Renew { worker } => {
                self.budget.early -= 1;
                self.turn(worker, false, met, |one, kept| one.renew(worker, kept));
            }
            Step::Die { worker } => self.die(worker, 0),
            Step::ClaimAndDie { worker } => {
                let done = self.turn(worker, false, met, |one, kept| one.look(worker, kept));
                self.die(worker, done.granted as usize);
            }
            Step::Return { worker } => self.workers[worker] = Some(Worker::default()),
            Step::Spoil => self.spoil(),
            Step::Time => self.age(met),
        }
        self.judge(step, due);
    }

    fn look(&mut self, worker: usize, lost: bool, met: &mut Vec<&'static str>) {
        let Some(before) = &self.workers[worker] else {
            return;
        };
        self.budget.early -= u8::from(!before.is_due() && !before.unsettled);
        let (rung, was_here) = (before.ring != (false, false), before.entry.is_some());
        let entries = self.board.entries.len();
        let done = self.turn(worker, lost, met, |one, kept| one.look(worker, kept));
        if done.granted > 0 && rung {
            met.push("a ring lost, and repaired by a look");
        }
        let joined = !was_here
            && self.workers[worker]
                .as_ref()
                .is_some_and(|one| one.entry.is_some());
        if joined && self.board.entries.len() == entries && !done.reset {
            met.push("an entry used again");
        }
    }

    /// A turn of a worker: what it does to the board, whom it rings.
    fn turn(
        &mut self,
        worker: usize,
        lost: bool,
        met: &mut Vec<&'static str>,
        act: impl FnOnce(&mut Worker, &mut Kept<'_>) -> Done,
    ) -> Done {
        let before = (!self.spoilt).then(|| self.board.clone());
        let Some(mut one) = self.workers[worker].take() else {
            return Done::default();
        };
        let (board, spoilt) = (&mut self.board, &mut self.spoilt);
        let mut kept = Kept {
            board,
            spoilt,
            lost,
            service: self.service,
            batch: self.batch,
            ahead: self.ahead,
        };
        let done = act(&mut one, &mut kept);
        let waits = !one.waiting.is_empty();
        if done.sent.behind > 0 {
            met.push("sent before a lane is free");
        }
        self.workers[worker] = Some(one);
        for entry in &done.rung {
            self.ring(*entry);
        }
        if lost {
            self.budget.lost -= 1;
            met.push("all tries of a turn lost");
        }
        if done.reset {
            met.push("a board begun anew");
        }
        if let Some(before) = before {
            self.note_order(worker, &before, &done);
            self.note_batch(worker, &before, &done, met);
            if self.has_struck(worker, &before) {
                met.push("a right struck off");
            }
            if waits && self.settles() && done.granted == 0 && self.has_free_slot() {
                met.push("refused while the board settles");
            }
        }
        done
    }

    /// The worker dies with what it runs, but for the last `unused` it claimed.
    fn die(&mut self, worker: usize, unused: usize) {
        self.budget.deaths -= 1;
        let Some(one) = self.workers[worker].take() else {
            return;
        };
        let own = Worker::incarnation(worker);
        let entry = self
            .board
            .entries
            .iter_mut()
            .find(|entry| entry.incarnation == own);
        // What had not been said anew when it died is not known to anybody.
        let forgotten = self.spoilt || entry.is_none();
        if let Some(entry) = entry {
            entry.incarnation = 0;
        }
        // The latest end is that of what it has just claimed.
        let ran = one.running.len() - unused;
        let ends = one.running.into_iter().take(ran).chain(one.ghosts);
        let left = ends.filter(|one| one.end > NOW);
        self.left.extend(left.map(|one| Left {
            end: one.end,
            sent: one.sent,
            forgotten,
        }));
        self.left.sort_unstable();
    }

    fn spoil(&mut self) {
        self.budget.spoils -= 1;
        self.spoilt = true;
        self.board = super::Board::default();
        self.left.iter_mut().for_each(|left| left.forgotten = true);
    }
}

/// The places of those that are not the same as the one before.
fn firsts(ends: &[Running]) -> impl Iterator<Item = usize> {
    let new = |index: &usize| *index == 0 || ends[*index] != ends[index - 1];
    (0..ends.len()).filter(new)
}
