//! Forecast of a request that comes now: its wait and its service; and what is asked of its variant's lanes.

use std::time::Duration;

use super::variants::Variant;
use crate::board::Ahead;
use crate::class::ClassId;
use crate::gate::latest_start;
use crate::queue::Place;
use crate::time::Mono;

/// The part of a service by which the wait may be longer where others wait at other workers.
const DOUBT_PART: u32 = 3;
/// Greatest age of what is known of other workers by which a newcomer is refused.
const STALE: Duration = Duration::from_millis(1);

impl Variant {
    /// Whether what is known of other workers that have requests waiting is old.
    pub(super) fn is_stale(&self, now: Mono) -> bool {
        self.gate.others.waiting > 0 && now.since(self.gate.sent.1) > STALE
    }

    /// Returns what is said and asked of its lanes.
    pub(super) fn ahead(&self, now: Mono) -> Ahead<'_> {
        let service = self.lead.service(self.predicted.mean);
        let lead = self.lead.lead(self.predicted.mean, now);
        let after = if lead.is_zero() || self.is_pressed(lead, now) {
            Duration::MAX
        } else {
            service.saturating_sub(lead)
        };
        Ahead {
            after,
            gap: self.lead.difference(),
            mean: self.predicted.mean,
            ended: &self.gate.ended,
            landed: self.landing.map_or(0, |landing| landing.ordinal()),
            endless: self.gate.endless(),
        }
    }

    /// Whether the first in line has no time to lie behind what is left of an execution: here it could still be moved to
    /// another variant.
    fn is_pressed(&self, lead: Duration, now: Mono) -> bool {
        let last = |due| latest_start(due, self.predicted.high + lead);
        self.gate.room.earliest().is_some_and(|due| last(due) < now)
    }

    /// Time that a request takes that has come now: its wait, by its place, and its service.
    pub(super) fn takes(&self, class: ClassId, place: Place, now: Mono) -> Duration {
        if let Some((expected, until)) = self.heard
            && now < until
        {
            return expected;
        }
        // Almost always nobody waits.
        let ahead = if self.gate.room.is_empty() {
            0
        } else {
            self.gate.room.ahead(class, place)
        };
        let wait = self.gate.wait(ahead, self.predicted.mean, self.batch, now);
        if wait.is_zero() {
            return self.predicted.high + self.lead.known_gap();
        }
        self.predicted.high + wait.max(self.lead.known_gap()) + self.doubt(ahead)
    }

    /// Time that a request would take here that came now and were the last in order.
    pub(super) fn expected(&self, now: Mono) -> Duration {
        let all = self.gate.room.len() as u32;
        self.predicted.high + self.wait(all, now)
    }

    /// Time until a newcomer with so many before it is executed; the way to an idle server at least.
    fn wait(&self, ahead: u32, now: Mono) -> Duration {
        let wait = self.gate.wait(ahead, self.predicted.mean, self.batch, now);
        wait.max(self.lead.known_gap())
    }

    /// Time by which a wait may be longer than foreseen, by chance or by what has come to other workers: who
    /// is let wait is not to be refused in the end.
    fn doubt(&self, ahead: u32) -> Duration {
        if !self.gate.foresees() {
            return Duration::ZERO;
        }
        let others = if self.gate.others.waiting > 0 {
            self.predicted.mean / DOUBT_PART
        } else {
            Duration::ZERO
        };
        (self.lead.spread(ahead) + others) / self.gate.slots().max(1)
    }
}
