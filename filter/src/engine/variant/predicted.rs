//! Predicted times of a variant's requests.

use super::Variant;
use crate::routing::group_times::Group;
use crate::routing::service_time::ServiceTime;
use crate::time::{Mono, Span};

/// Relation of the times with a number in flight to those with any, which are what groups are measured by.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct GroupScale {
    is_flat: bool,
    mean: Span,
}

impl GroupScale {
    /// Returns the time of a group with as many in flight as `common`, that of all groups, is for.
    pub(in crate::engine) fn of(self, group: ServiceTime, common: ServiceTime) -> ServiceTime {
        if self.is_flat || self.mean.is_zero() {
            return group;
        }
        let factor = common.mean.div_span_f64(self.mean);
        ServiceTime {
            high: group.high.mul_f64(factor),
            safe: group.safe.mul_f64(factor),
            mean: group.mean.mul_f64(factor),
        }
    }
}

impl Variant {
    /// Predicted service time of a request of that group that is sent now.
    pub(in crate::engine) fn predicted_of(&self, group: Group, now: Mono) -> ServiceTime {
        self.grouped(group, self.next_predicted(now))
    }

    /// The same for one that is sent when all slots are taken but its own, and another has just ended.
    pub(in crate::engine) fn full_of(&self, group: Group) -> ServiceTime {
        self.grouped(group, self.full)
    }

    /// The same for one that is alone at the servers.
    pub(in crate::engine) fn alone_of(&self, group: Group) -> ServiceTime {
        self.grouped(group, self.alone)
    }

    /// The same over all executions, whatever was in flight: unlike the others it was measured and not extrapolated.
    pub(in crate::engine) fn usual_of(&self, group: Group) -> ServiceTime {
        self.grouped(group, self.predicted)
    }

    /// The same for one that was sent as number `in_flight`, so long after another's end.
    pub(in crate::engine) fn predicted_at(
        &self,
        in_flight: u32,
        after_end: Span,
        group: Group,
    ) -> ServiceTime {
        self.grouped(group, self.at(in_flight, after_end))
    }

    /// Time since the execution that ends next is under way; zero if none is.
    pub(in crate::engine) fn after_end(&self, now: Mono) -> Span {
        if self.slots.in_flight() == 0 {
            return Span::ZERO;
        }
        now.since(self.curve.turned)
    }

    /// Records that an execution has just ended, before the slot table tells.
    pub(in crate::engine) fn note_end(&mut self, sent: Mono, now: Mono) {
        (self.curve).end(now.since(sent), self.slots.in_flight(), now);
    }

    /// Prediction for the next request, of any group.
    pub(in crate::engine) fn next_predicted(&self, now: Mono) -> ServiceTime {
        let waiting = self.slots.waiting();
        self.next_of(waiting, now)
    }

    /// Prediction for a new request of that group, which waits with the others.
    pub(in crate::engine) fn joining_of(&self, group: Group, now: Mono) -> ServiceTime {
        let waiting = self.slots.waiting().saturating_add(1);
        self.grouped(group, self.next_of(waiting, now))
    }

    fn next_of(&self, waiting: u32, now: Mono) -> ServiceTime {
        if self.is_flat {
            return self.predicted;
        }
        let full = self.slots.is_full();
        let left = (self.curve).left_in_flight(self.slots.in_flight(), full, now);
        // All that wait are sent together.
        let number = left.saturating_add(waiting.max(1));
        let number = number.min(self.slots.total().max(1));
        let after_end = if full {
            // It is sent when one ends.
            Span::ZERO
        } else {
            self.after_end(now)
        };
        self.at(number, after_end)
    }

    /// Time until the next execution ends: that of a batch by the throughput with all slots taken (Little's law), of which
    /// its requests are a part.
    pub(in crate::engine) fn until_next_end(&self, now: Mono) -> Span {
        let (in_flight, limit) = (self.slots.in_flight(), self.slots.total().max(1));
        let together = self.curve.ending_together(in_flight);
        if together <= 1 {
            return self.slots.time_until_free(now);
        }
        let each = self.full.mean / limit;
        (each * together).saturating_sub(self.after_end(now))
    }

    fn grouped(&self, group: Group, common: ServiceTime) -> ServiceTime {
        let of_group = self.group_times.of(group);
        of_group.map_or(common, |of_group| self.scale().of(of_group, common))
    }

    /// Relation of the times of groups, however many are in flight, to those with a number in flight.
    pub(in crate::engine) fn scale(&self) -> GroupScale {
        GroupScale {
            is_flat: self.is_flat,
            mean: self.predicted.mean,
        }
    }

    pub(super) fn at(&self, in_flight: u32, after_end: Span) -> ServiceTime {
        if self.is_flat {
            return self.predicted;
        }
        (self.by_curve(in_flight, after_end, self.curve_at)).unwrap_or(self.predicted)
    }

    /// The same by the server curve, if that is known at `at`.
    pub(super) fn by_curve(
        &self,
        in_flight: u32,
        after_end: Span,
        at: Mono,
    ) -> Option<ServiceTime> {
        let time = (self.curve).predict(in_flight, self.planned, after_end, at)?;
        Some(ServiceTime {
            mean: time.mean,
            high: time.high,
            safe: time.safe,
        })
    }
}
