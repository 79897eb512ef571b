//! Forecast of a request that comes now: its wait and its service; and what is incoming of its variant's lanes.

use std::time::Duration;

use super::variant::Variant;
use crate::coordination::LaneRequest;
use crate::coordination::lead::Lead;
use crate::slots::latest_start;
use crate::time::{Mono, nanos};
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

/// Part of a standard deviation by which an execution may end sooner, where a request with little time left hopes
/// for it.
const SOONER_PART: u32 = 2;
/// Greatest age of what is known of other workers by which a newcomer is refused.
const STALE: Duration = Duration::from_millis(1);

impl Variant {
    /// Whether what is known of other workers that have requests waiting is old.
    pub(super) fn is_stale(&self, now: Mono) -> bool {
        self.slots.others.waiting > 0 && now.since(self.slots.lanes.1) > STALE
    }

    /// Returns the measurements of its gap, as of the board's last word.
    pub(super) fn lead(&self) -> &Lead {
        &self.slots.lanes.0.lead
    }

    /// Returns what is said and incoming of its lanes, where so many wait here.
    pub(super) fn ahead(&self, waiting_count: u32, now: Mono) -> LaneRequest<'_> {
        let service = self.lead().service(self.predicted.mean);
        let lead = self.lead().lead(self.predicted.mean, now);
        let all = waiting_count.saturating_add(self.slots.others.waiting);
        // A batch that is closed leaves complete_at.
        let few = self.batch <= 1 && all < self.slots.early_send_min();
        let after = if lead.is_zero() || few || self.is_pressed(now) {
            Duration::MAX
        } else {
            service.saturating_sub(lead)
        };
        LaneRequest {
            after,
            gap: self.lead().difference(),
            mean: self.predicted.mean,
            ended: &self.slots.ended,
            completed: self
                .completion
                .and_then(|completion| completion.completed()),
            planned: self.planned,
            open_ended: self.slots.open_ended(),
        }
    }

    /// Earliest moment at which a request that is sent now begins to be executed.
    fn begins(&self, now: Mono) -> Mono {
        now + self.slots.time_until_free(now)
    }

    /// Whether the first in line has no time left to lie behind the execution that ends next. It is not sent ahead:
    /// the execution may end sooner than predicted, or another variant may take the request.
    fn is_pressed(&self, now: Mono) -> bool {
        let last = |due| latest_start(due, self.predicted.high);
        let earliest = self.slots.queue.earliest();
        earliest.is_some_and(|due| last(due) < self.begins(now))
    }

    /// Moment at which the first in line must be able to begin, or else it is moved or refused. Outside the lead this
    /// is now. Within the lead it is the predicted end of the execution, less half of a standard deviation: a
    /// request that cannot wait so long leaves its place to one that can lie at the server by then.
    pub(super) fn must_begin(&self, now: Mono) -> Mono {
        let lead = self.lead().lead(self.predicted.mean, now);
        let begins = self.begins(now);
        if begins > now + lead {
            return now;
        }
        let sooner = self.lead().spread(0) / SOONER_PART;
        now.max(Mono(begins.0.saturating_sub(nanos(sooner))))
    }

    /// Time that a request takes that has come now: its wait, by its place, and its service.
    pub(super) fn response_time(&self, class: ClassId, place: Place, now: Mono) -> Duration {
        if let Some((expected, until)) = self.gate_estimate
            && now < until
        {
            return expected;
        }
        // Almost always nobody waiting_count.
        let ahead = if self.slots.queue.is_empty() {
            0
        } else {
            self.slots.queue.ahead(class, place)
        };
        let wait = self.slots.wait(ahead, self.predicted.mean, self.batch, now);
        if wait.is_zero() {
            return self.predicted.high + self.lead().known_gap();
        }
        self.predicted.high + wait.max(self.lead().known_gap()) + self.wait_margin(ahead)
    }

    /// Time that a request would take here that came now and were the last in order.
    pub(super) fn expected(&self, now: Mono) -> Duration {
        let all = self.slots.queue.len() as u32;
        self.predicted.high + self.wait(all, now)
    }

    /// Time until a newcomer with so many before it is executed; the way to an idle server at least.
    fn wait(&self, ahead: u32, now: Mono) -> Duration {
        let wait = self.slots.wait(ahead, self.predicted.mean, self.batch, now);
        wait.max(self.lead().known_gap())
    }

    /// Time by which a wait may be longer than foreseen, by chance or by what has come to other workers: who
    /// is let wait is not to be refused in the end. For other workers it is one service: a request may have come
    /// there since the slot table was read.
    fn wait_margin(&self, ahead: u32) -> Duration {
        if !self.slots.knows_lanes() {
            return Duration::ZERO;
        }
        let others = if self.slots.others.waiting > 0 {
            self.predicted.mean
        } else {
            Duration::ZERO
        };
        (self.lead().spread(ahead) + others) / self.slots.total().max(1)
    }
}
