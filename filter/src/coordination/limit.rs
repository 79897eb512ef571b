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

use crate::time::{Mono, Span};

/// Executions that decide a trial, by the part of the time, in 1/1024, that servers which do no more would take: the
/// clearer the gain, the fewer.
const SAMPLES: [(u16, u64); 3] = [(6, GAIN_CLEAR), (12, 900), (24, u64::MAX)];
/// Executions by which the time at the limit is measured.
const SAMPLES_BASE: u16 = 12;
/// Executions cut off that took as long as if the servers did no more: so many are enough to end a trial.
const SLOW_MAX: u16 = 2;
/// Part of the time, in 1/1024, that servers which do no more with more in flight would take: what takes less than that
/// gains.
const GAIN: u64 = 952;
const GAIN_CLEAR: u64 = 820;
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
    /// Sum of the ratios of those that ended to their planned times, without the gap.
    pub sum: u64,
    /// Mean ratio with as many in flight as the limit.
    pub base: u32,
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
}

/// Execution that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Requests in flight when it was sent, itself included.
    pub in_flight: u32,
    /// Time of dispatch.
    pub sent: Mono,
    /// Time that it took.
    pub took: Span,
    /// Ratio of the way to an idle server and back to the planned time: what no more in flight can save.
    pub gap: u32,
    /// Ratio of its time to its planned one, in 1/1024. The time counts from the end of the execution before it was sent: so
    /// it is as long as if it had been sent then, whatever part of those under way was over.
    pub ratio: u32,
    /// Whether it was completed; else it was cut off.
    pub completed: bool,
}

impl Limit {
    /// Requests that may be in flight now, under a plan of that many slots.
    #[must_use]
    pub fn now(&self, planned: u32) -> u32 {
        if planned == 0 || self.planned != planned {
            // In proportion until the next write: lanes come and go with the slots.
            return self.scaled(planned);
        }
        match self.phase {
            Phase::Trial => self.trial.min(self.found),
            Phase::Rest | Phase::Base => self.found,
        }
    }

    /// Requests that may be in flight with one that explores.
    #[must_use]
    pub fn exploring(&self, planned: u32) -> u32 {
        let now = self.now(planned);
        match self.phase {
            Phase::Trial if self.planned == planned => now.max(self.trial),
            _ => now,
        }
    }

    /// Whether another number in flight is on trial.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        self.phase == Phase::Trial
    }

    /// Whether times are measured, so that no request may be sent ahead of a free slot.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.phase != Phase::Rest
    }

    fn scaled(&self, planned: u32) -> u32 {
        if planned == 0 || self.planned == 0 {
            return planned;
        }
        let found = u64::from(self.found) * u64::from(planned);
        let found = (found + u64::from(self.planned) / 2) / u64::from(self.planned);
        u32::try_from(found).unwrap_or(u32::MAX).max(1)
    }

    /// Takes over a plan's slots, of which `start` times as many are the limit at first; returns whether they are others than
    /// before.
    pub fn plan(&mut self, planned: u32, start: u32) -> bool {
        if self.planned == planned || planned == 0 {
            return false;
        }
        let found = match self.planned {
            0 => planned.saturating_mul(start.max(1)),
            _ => self.scaled(planned),
        };
        *self = Limit {
            planned,
            found,
            next_trial: self.next_trial,
            fruitless: self.fruitless,
            falls: self.falls,
            ended_at: self.ended_at,
            ..Limit::default()
        };
        true
    }

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
            Phase::Rest => {
                if now >= self.next_trial {
                    self.begin(Phase::Base, now);
                }
                return;
            }
            Phase::Base => self.found,
            Phase::Trial => self.trial,
        };
        let explored = self.phase == Phase::Trial && ended.in_flight > self.found;
        if ended.sent < self.since || (ended.in_flight != number && !explored) {
            return;
        }
        if !ended.completed {
            // It took at least that long.
            self.cut_off = self.cut_off.saturating_add(1);
            self.slow = (self.slow).saturating_add(u16::from(explored && self.is_slow(ended)));
        } else if ended.in_flight == number {
            self.samples = self.samples.saturating_add(1);
            let ratio = ended.ratio.saturating_sub(ended.gap);
            self.sum = self.sum.saturating_add(u64::from(ratio));
        }
        if self.slow >= SLOW_MAX && times(self.slow, 2) > u32::from(self.samples) {
            self.pause(now);
        } else if self.has_enough() {
            self.decide(ended.took, max, now);
        } else if self.loses() {
            self.give_up(now);
        } else if now > self.since + PHASE_MAX {
            // With too few requests it tells nothing.
            self.begin(Phase::Rest, now);
        }
    }

    /// Whether too many were cut off: on trial a third, with as many in flight as the limit two thirds. A limit with which
    /// some are late still answers more than a smaller one.
    fn loses(&self) -> bool {
        match self.phase {
            Phase::Base => {
                self.cut_off >= SAMPLES_BASE && u32::from(self.cut_off) > times(self.samples, 2)
            }
            Phase::Rest | Phase::Trial => {
                self.cut_off >= CUT_OFF_MAX && times(self.cut_off, 2) > u32::from(self.samples)
            }
        }
    }

    fn has_enough(&self) -> bool {
        if self.phase == Phase::Base {
            return self.samples >= SAMPLES_BASE;
        }
        let rises = self.trial > self.found;
        let part = self.part_of_linear();
        let clear = |(samples, max): &(u16, u64)| self.samples >= *samples && part < *max;
        let last = SAMPLES.len() - 1;
        SAMPLES
            .iter()
            .enumerate()
            .any(|(at, one)| clear(one) && (rises || at == last))
    }

    /// Mean time on trial as a part, in 1/1024, of what it would be if the servers did as many as at the limit.
    fn part_of_linear(&self) -> u64 {
        let mean = self.sum / u64::from(self.samples.max(1));
        let linear = u64::from(self.base) * u64::from(self.trial);
        mean.saturating_mul(u64::from(self.found) * 1024) / linear.max(1)
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

    fn decide(&mut self, took: Span, max: u32, now: Mono) {
        let mean = self.sum / u64::from(self.samples.max(1));
        if self.phase == Phase::Base {
            let base = u32::try_from(mean).unwrap_or(u32::MAX);
            if self.base > 0 && self.base.abs_diff(base) > self.base.saturating_mul(CHANGED) / 1024
            {
                self.fruitless = 0;
            }
            self.base = base;
            return self.begin_trial(max, now);
        }
        let part = self.part_of_linear();
        let stays = if self.trial > self.found {
            // Those that were cut off were not the shortest.
            part < GAIN && (part < GAIN_CLEAR || times(self.cut_off, 8) <= u32::from(self.samples))
        } else {
            part <= LOSS
        };
        if stays {
            self.found = self.trial;
            (self.base, self.fruitless) = (0, self.fruitless.saturating_sub(1));
            // What was sent until now had another number in flight.
            self.begin(Phase::Base, now + took);
        } else {
            self.pause(now);
        }
    }

    /// Lowers the limit, after as many were cut off in a row as it is: nothing is answered in time with so many in flight.
    fn fall(&mut self, now: Mono) {
        self.found -= self.found.div_ceil(4);
        (self.lost, self.base, self.fruitless, self.next_trial) = (0, 0, 0, now);
        self.begin(Phase::Rest, now);
    }

    /// Ends a phase in which too many were cut off. Fewer more may still be in time.
    fn give_up(&mut self, now: Mono) {
        if self.phase == Phase::Trial && self.trial > self.found.saturating_add(MORE_MIN) {
            self.halvings = self.halvings.saturating_add(1);
            return self.begin(Phase::Base, now);
        }
        if self.phase == Phase::Base && self.found > 1 {
            return self.fall(now);
        }
        self.pause(now);
    }

    fn begin_trial(&mut self, max: u32, now: Mono) {
        // With two in flight none can be batched: one executes and one waits.
        let more = self.found >> self.halvings.min(31);
        let larger = self.found.saturating_add(more.max(MORE_MIN));
        // The planned slots are lanes: with fewer some would idle whenever the others tell them apart wrongly.
        let smaller = (self.found - self.found.div_ceil(4)).max(self.planned);
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
