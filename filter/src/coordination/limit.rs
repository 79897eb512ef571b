//! The **concurrency limit** of a variant: how many requests may be in flight at its servers. The plan's slots are where
//! the search starts; what the servers do decides.
//!
//! Wanted is the fewest in flight with which the servers answer as many as they can. More would wait in the servers'
//! queues, where nothing orders them any more. Fewer would leave servers idle: one that batches answers more with every
//! request in flight, up to two of its batches.
//!
//! With n in flight all the time, n/T(n) requests are answered in a second, where T(n) is the mean time of one (Little's
//! law). So the [server curve](super::curve) tells whether more in flight would do more. At times some newcomers *explore*:
//! they are sent beyond the limit, the first that come, because they have the most time left. If the server does one thing
//! after the other, they only change their order. If their time grows less than their number, the limit becomes theirs. At
//! other times the limit is lowered for some executions, and stays lower if the servers answer as many. A trial that
//! changes nothing makes the next one later, up to [`PAUSE_MAX`].

mod ended;
mod plan;
mod step;

pub use self::ended::Ended;
use crate::time::{Mono, Span};

/// Executions that decide a trial, by the part of the time, in 1/1024, that servers which do no more would take: the
/// clearer the gain, the fewer.
const SAMPLES: [(u16, u64); 3] = [(4, GAIN_CLEAR), (12, 900), (24, u64::MAX)];
/// Executions by which the time at the limit is measured, and by which it is measured at first.
const SAMPLES_BASE: u16 = 12;
const SAMPLES_FIRST: u16 = 4;
/// Factor on these numbers where some are late: chance then decides more.
const LATE_FACTOR: u16 = 4;
/// Part of the executions, one in so many, from which on the servers count as late with as many in flight as the limit.
const LATE_PART: u32 = 5;
/// Executions cut off at rest by which they do so before the next trial is due.
const LATE_MIN: u16 = 8;
/// Executions at rest that are remembered.
const REST_MAX: u16 = 64;
/// Executions cut off that took as long as if the servers did no more: so many are enough to end a trial.
const SLOW_MAX: u16 = 2;
/// Part of the time, in 1/1024, that servers which do no more with more in flight would take: what takes less than that
/// gains.
const GAIN: u64 = 952;
const GAIN_CLEAR: u64 = 820;
/// That part above which more in flight are clearly worse, and the executions that tell it.
const WORSE: u64 = 1_126;
const SAMPLES_WORSE: u16 = 6;
/// Part of the time, in 1/1024, that an execution may take with fewer in flight if nothing is lost.
const LOSS: u64 = 1_044;
/// Pauses between trials that change nothing.
const PAUSE_MIN: Span = Span::from_secs(4);
const PAUSE_MAX: Span = Span::from_secs(512);
/// Factor between two such pauses: what kind of server it is does not change.
const PAUSE_FACTOR_LOG2: u8 = 2;
/// Longest time of a phase.
const PHASE_MAX: Span = Span::from_secs(10);
/// Executions cut off that end a phase: those that were not are the shortest, and would decide wrongly.
const CUT_OFF_MAX: u16 = 4;
/// Fewest executions cut off in a row that lower the limit.
const LOST_MIN: u32 = 4;
/// Times that one which is cut off took, for which nothing has ended then.
const LOST_TIMES: u32 = 3;
const LOST_AFTER: Span = Span::from_millis(400);
/// Change of the time with as many in flight as the limit, in 1/1024, with which the servers count as others.
const CHANGED: u32 = 384;
/// Part of the limit, one in so many, up to which a step up that changes nothing is not halved.
const STEP_PART: u32 = 8;
/// Fewest that explore at once.
const MORE_MIN: u32 = 2;

/// Step of the search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The limit holds.
    #[default]
    Rest,
    /// The time with as many in flight as the limit is measured.
    Base,
    /// Another number in flight is tried.
    Trial,
}

/// Limit of one variant, and the search for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Planned slots under which it was found; 0 before the first plan.
    pub planned: u32,
    /// Limit found.
    pub found: u32,
    /// Number in flight on trial.
    pub trial: u32,
    /// Step of the search.
    pub phase: Phase,
    /// Executions of the phase that have ended.
    pub samples: u16,
    /// Executions of the phase that were cut off.
    pub cut_off: u16,
    /// Those of them that took as long as if the servers did no more with more in flight.
    pub slow: u16,
    /// Sum of the ratios of the phase's executions to their planned times, without the gap; of those that were cut off until
    /// then.
    pub sum: u64,
    /// That sum for each answer in time, with as many in flight as the limit.
    pub base: u32,
    /// Longest time that a request of the base had when it arrived, as a ratio to its planned time, without the gap.
    pub left: u32,
    /// Start of the phase: executions sent before it do not count.
    pub since: Mono,
    /// Time of the latest end of an execution.
    pub ended_at: Mono,
    /// Executions cut off since then.
    pub lost: u32,
    /// Time of the next trial.
    pub next_trial: Mono,
    /// Trials in a row that changed nothing.
    pub fruitless: u8,
    /// Halvings of the next step up, after a larger one was cut off.
    pub halvings: u8,
    /// Whether the next trial is a smaller limit.
    pub falls: bool,
    /// Whether many are late with as many in flight as the limit.
    pub late: bool,
}

impl Limit {
    /// Records an execution that has ended; may begin or end a phase. No limit above the planned slots and `max` is tried.
    pub fn observe(&mut self, ended: Ended, max: u32, now: Mono) {
        if ended.completed {
            self.ended_at = self.ended_at.max(now);
            self.lost = 0;
        } else {
            self.lost = self.lost.saturating_add(1);
            // Executions that end together are cut off together.
            let silent = now.since(self.ended_at) > LOST_AFTER.max(ended.took * LOST_TIMES);
            if silent && self.lost >= self.found.max(LOST_MIN) && self.found > 1 {
                return self.fall(now);
            }
        }
        let number = match self.phase {
            Phase::Rest => return self.watch(ended, now),
            Phase::Base => self.found,
            Phase::Trial => self.trial,
        };
        let explored = self.phase == Phase::Trial && ended.in_flight > self.found;
        if ended.sent < self.since || (ended.in_flight != number && !explored) {
            return;
        }
        if self.phase == Phase::Base {
            self.left = self.left.max(ended.left.saturating_sub(ended.gap));
        }
        if ended.in_flight == number {
            let ratio = ended.ratio.saturating_sub(ended.gap);
            self.sum = self.sum.saturating_add(u64::from(ratio));
            self.count(ended.completed);
        }
        if !ended.completed {
            self.slow = (self.slow).saturating_add(u16::from(explored && self.is_slow(ended)));
        }
        let is_slow = self.slow >= SLOW_MAX && times(self.slow, 2) > u32::from(self.samples);
        if is_slow || self.loses() || self.is_worse() {
            self.give_up(now + ended.took);
        } else if self.has_enough() {
            self.decide(ended, max, now);
        } else if now > self.since + PHASE_MAX {
            // With too few requests it tells nothing; fewer more may still be in flight.
            let more =
                self.phase == Phase::Trial && self.trial > self.found.saturating_add(MORE_MIN);
            self.halvings = self.halvings.saturating_add(u8::from(more));
            self.begin(Phase::Rest, now);
        }
    }

    /// Counts an execution at rest, and begins the next trial when it is due, or when many are late that were not.
    fn watch(&mut self, ended: Ended, now: Mono) {
        if ended.in_flight >= self.found && ended.sent >= self.since {
            self.count(ended.completed);
            if self.samples.saturating_add(self.cut_off) >= REST_MAX {
                (self.samples, self.cut_off) = (self.samples / 2, self.cut_off / 2);
                self.late &= self.is_late();
            }
        }
        let turned_late = !self.late && self.cut_off >= LATE_MIN && self.is_late();
        if turned_late || now >= self.next_trial {
            self.begin(Phase::Base, now);
        }
    }

    fn count(&mut self, completed: bool) {
        let count = if completed {
            &mut self.samples
        } else {
            &mut self.cut_off
        };
        *count = count.saturating_add(1);
    }

    fn is_late(&self) -> bool {
        times(self.cut_off, LATE_PART) > u32::from(self.samples) + u32::from(self.cut_off)
    }

    /// Whether too many were cut off: on trial a third, with as many in flight as the limit two thirds. A limit with which
    /// some are late still answers more than a smaller one.
    fn loses(&self) -> bool {
        match self.phase {
            Phase::Base => {
                self.cut_off >= SAMPLES_BASE && u32::from(self.cut_off) > times(self.samples, 2)
            }
            Phase::Rest | Phase::Trial => {
                self.cut_off >= CUT_OFF_MAX
                    && times(self.cut_off, 2) > u32::from(self.samples)
                    && self.part_of_linear() > 1024
            }
        }
    }

    /// Whether the servers answer clearly fewer with more in flight.
    fn is_worse(&self) -> bool {
        let rises = self.phase == Phase::Trial && self.trial > self.found;
        let count = self.samples.saturating_add(self.cut_off);
        rises && count >= SAMPLES_WORSE && self.samples > 0 && self.part_of_linear() > WORSE
    }

    /// Whether nothing is known of the times with as many in flight as the limit.
    fn is_first(&self) -> bool {
        self.base == 0 && self.fruitless == 0
    }

    fn has_enough(&self) -> bool {
        let any_late = self.cut_off > 0 || (self.phase == Phase::Trial && self.late);
        let factor = if any_late { LATE_FACTOR } else { 1 };
        let count = self.samples.saturating_add(self.cut_off) / factor;
        if self.phase == Phase::Base {
            let min = if self.is_first() {
                SAMPLES_FIRST
            } else {
                SAMPLES_BASE
            };
            return count >= min;
        }
        let rises = self.trial > self.found;
        let part = self.part_of_linear();
        let last = SAMPLES.len() - 1;
        (SAMPLES.iter().enumerate())
            .any(|(at, (min, max))| count >= *min && part < *max && (rises || at == last))
    }

    /// Mean time of an answer in time.
    fn mean(&self) -> u64 {
        self.sum / u64::from(self.samples.max(1))
    }

    /// Mean time on trial as a part, in 1/1024, of what it would be if the servers did as many as at the limit.
    fn part_of_linear(&self) -> u64 {
        let linear = u64::from(self.base) * u64::from(self.trial);
        let part = (self.mean()).saturating_mul(u64::from(self.found) * 1024) / linear.max(1);
        if self.samples == 0 { u64::MAX } else { part }
    }

    /// Whether an execution with clearly more in flight than the limit took about as long as if the servers did no more.
    fn is_slow(&self, ended: Ended) -> bool {
        let (in_flight, found) = (u64::from(ended.in_flight), u64::from(self.found));
        if in_flight * 2 < found * 3 {
            return false;
        }
        let linear = u64::from(self.base).saturating_mul(in_flight);
        (u64::from(ended.ratio) * found).saturating_mul(1024) > linear.saturating_mul(GAIN)
    }

    /// Part of the time, in 1/1024, that servers which do no more would take, below which the number on trial gains.
    fn gain(&self) -> u64 {
        let (found, trial) = (u64::from(self.found), u64::from(self.trial.max(1)));
        let most = 1024 - found * 1024 / trial;
        GAIN.max(1024 - most * 2 / 5)
    }

    fn decide(&mut self, ended: Ended, max: u32, now: Mono) {
        let mean = u32::try_from(self.mean()).unwrap_or(u32::MAX);
        if self.phase == Phase::Base {
            if self.base > 0 && self.base.abs_diff(mean) > self.base.saturating_mul(CHANGED) / 1024
            {
                self.fruitless = 0;
            }
            let (late, is_first) = (self.is_late(), self.is_first());
            if late && is_first && !self.late {
                // Predictions of times that are not known let too many be late: once more with those learnt from these.
                self.late = true;
                return self.begin(Phase::Base, now);
            }
            self.base = mean;
            self.falls |= late && (is_first || !self.late);
            self.late = late;
            return self.begin_trial(ended.batches, max, now);
        }
        let part = self.part_of_linear();
        let rises = self.trial > self.found;
        let stays = part < if rises { self.gain() } else { LOSS + 1 };
        if !stays {
            return self.give_up(now + ended.took);
        }
        self.found = self.trial;
        self.fruitless = self.fruitless.saturating_sub(1);
        if rises && part < GAIN_CLEAR {
            self.base = mean;
            self.late = self.is_late();
            return self.begin_trial(ended.batches, max, now);
        }
        self.base = 0;
        // What was sent until now had another number in flight.
        self.begin(Phase::Base, now + ended.took);
    }

    /// Lowers the limit, after as many were cut off in a row as it is: nothing is answered in time with so many in flight.
    fn fall(&mut self, now: Mono) {
        self.found -= self.found.div_ceil(4);
        (self.lost, self.base, self.fruitless, self.next_trial) = (0, 0, 0, now);
        self.begin(Phase::Rest, now);
    }

    /// Ends a phase in which too many were cut off. Fewer more may still be in time.
    fn give_up(&mut self, now: Mono) {
        let step = self.trial.saturating_sub(self.found);
        if self.phase == Phase::Trial && step > MORE_MIN.max(self.found / STEP_PART) {
            let halved = (self.found / step).checked_ilog2().unwrap_or(0) + 1;
            self.halvings = u8::try_from(halved).unwrap_or(u8::MAX);
            return self.begin(Phase::Base, now);
        }
        if self.phase == Phase::Base && self.found > 1 {
            return self.fall(now);
        }
        self.pause(now);
    }

    fn begin_trial(&mut self, batches: bool, max: u32, now: Mono) {
        let larger = self.larger(batches);
        let smaller = self.smaller(batches);
        self.falls &= smaller < self.found;
        self.trial = if self.falls {
            smaller
        } else {
            larger.min(max.max(self.planned).max(self.found))
        };
        if self.trial == self.found {
            return self.pause(now);
        }
        self.begin(Phase::Trial, now);
    }

    fn begin(&mut self, phase: Phase, since: Mono) {
        (self.phase, self.since) = (phase, since);
        (self.samples, self.cut_off, self.slow, self.sum) = (0, 0, 0, 0);
        if phase == Phase::Base {
            self.left = 0;
        }
    }

    /// Ends a trial, and makes the next one, in the other direction, a later one.
    fn pause(&mut self, now: Mono) {
        self.begin(Phase::Rest, now);
        self.halvings = 0;
        self.falls = !self.falls;
        let pause = PAUSE_MIN * (1 << (PAUSE_FACTOR_LOG2 * self.fruitless.min(8)).min(14));
        self.next_trial = now + pause.min(PAUSE_MAX);
        self.fruitless = self.fruitless.saturating_add(1);
    }
}

fn times(count: u16, factor: u32) -> u32 {
    u32::from(count) * factor
}

#[cfg(test)]
mod tests;
