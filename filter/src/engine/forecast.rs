//! Forecasts for a new request: wait and service time; and the lane data for the slot table.

use super::variant::Variant;
use crate::coordination::{EndedExecutions, LaneRequest};
use crate::routing::group_times::Group;
use crate::routing::router::ResponseTime;
use crate::slots::latest_start;
use crate::time::{Mono, Span};
use crate::waiting::class::ClassId;
use crate::waiting::queue::Place;

/// Divisor of the standard deviation by which an execution may end early, as an urgent request may hope
/// for.
const SOONER_PART: u32 = 2;
/// Maximum age of the usage of other workers for refusing a newcomer.
const STALE: Span = Span::from_millis(1);
/// The same of slots that others have taken.
const STALE_TAKEN: Span = Span::from_millis(20);

impl Variant {
    /// Whether what other workers did is too old to choose by it: they had waiting requests, or slots that would long send a
    /// request to another variant; `refuses`: to refuse a request by it, whatever they had.
    pub(super) fn is_stale(&self, refuses: bool, now: Mono) -> bool {
        let (others, age) = (self.slots.others, now.since(self.slots.lanes.1));
        age > STALE && (refuses || others.waiting > 0) || age > STALE_TAKEN && others.taken > 0
    }

    /// Time before a lane is free at which the next request is sent to it. Zero for servers without lanes. Zero with several
    /// servers: the proxy chooses one of them at once, and cannot know at which of those that are all busy an execution will
    /// end next. Batches may be sent ahead, because they fill at the servers.
    fn lead_time(&self, now: Mono) -> Span {
        if self.replicas > 1 && self.batch <= 1 {
            return Span::ZERO;
        }
        if !self.has_lanes(now) {
            // Its slots are more than it executes at once: the next request waits at the server already.
            return Span::ZERO;
        }
        self.lead.lead(self.full.mean, now)
    }

    /// Returns the executions that have ended since the last acquisition.
    pub(super) fn ended_executions(&self, batches: bool, limit_max: u32) -> EndedExecutions<'_> {
        EndedExecutions {
            ended: &self.ended,
            planned: self.planned,
            batches,
            limit_max,
        }
    }

    /// Returns the lane data for the slot table, with `waiting_count` requests waiting here.
    pub(super) fn lane_request(&self, waiting_count: u32, now: Mono) -> LaneRequest<'_> {
        LaneRequest {
            after: self.sends_after(waiting_count, now),
            gap: self.lead.difference(),
            mean: self.full.mean,
            ended: &self.slots.ended,
            completed: self
                .completion
                .map(|completion| completion.execution())
                .filter(|execution| execution.ordinal > 0),
            planned: self.planned,
            open_ended: self.slots.open_ended(),
        }
    }

    /// Time from the start of an execution after which the next request may be sent; [`Span::MAX`]: never.
    pub(super) fn sends_after(&self, waiting_count: u32, now: Mono) -> Span {
        let all = waiting_count.saturating_add(self.slots.others.waiting);
        // A closed batch leaves as a whole.
        let few = self.batch <= 1 && all < self.slots.early_send_min();
        let lead = if few { Span::ZERO } else { self.lead_time(now) };
        if lead.is_zero() || self.is_pressed(now) {
            Span::MAX
        } else {
            let service = self.lead.service(self.full.mean);
            service.saturating_sub(lead)
        }
    }

    /// Earliest start of the execution of a request that is sent now.
    fn earliest_start(&self, now: Mono) -> Mono {
        now + self.slots.time_until_free(now)
    }

    /// Whether the first waiting request has no time to wait at the server for the execution that ends next. It
    /// is not sent early: the execution may end sooner than predicted, or another variant may take the request.
    fn is_pressed(&self, now: Mono) -> bool {
        let last = self.latest_start(now);
        last.is_some_and(|last| last < self.earliest_start(now))
    }

    /// Earliest of the latest starts of the requests that are first in their classes.
    #[inline(never)]
    pub(super) fn latest_start(&self, now: Mono) -> Option<Mono> {
        self.slots.queue.latest_start(|class, place| {
            let group = Group::waiting(class, place);
            self.predicted_of(group, now).high
        })
    }

    /// Time at which the first waiting request must be able to start, or else it is downgraded or refused.
    /// Outside the lead this is now. Within the lead it is the predicted end of the execution less half a
    /// standard deviation: a request that cannot wait that long leaves its place to one that can wait at the
    /// server.
    pub(super) fn must_begin(&self, now: Mono) -> Mono {
        let lead = self.lead_time(now);
        let begins = self.earliest_start(now);
        if begins > now + lead {
            return now;
        }
        let sooner = self.lead.spread(0) / SOONER_PART;
        now.max(begins - sooner)
    }

    /// Whether a waiting request may be late by [`must_begin`](Variant::must_begin), whatever the lead: a quick check,
    /// because in most cases none is. One for which the variant expires before its deadline may always be late.
    pub(super) fn may_be_late(&self, now: Mono) -> bool {
        let last = self.slots.queue.latest_start(|class, place| {
            let predicted = self.predicted_of(Group::waiting(class, place), now);
            predicted.high.max(predicted.safe)
        });
        last.is_some_and(|last| last <= self.earliest_start(now)) || self.expiries.first().is_some()
    }

    /// Predicted response time of a new request: its wait, by its place, and its service.
    pub(super) fn response_time(&self, class: ClassId, place: Place, now: Mono) -> Span {
        self.response(class, place, now).total
    }

    /// The same, with the service alone.
    pub(super) fn response(&self, class: ClassId, place: Place, now: Mono) -> ResponseTime {
        let service = self.service_of(class, place, now);
        let total = match self.gate_estimate {
            Some((expected, until)) if now < until => expected,
            _ => self.wait_for_service(class, place, now) + service,
        };
        ResponseTime { total, service }
    }

    /// Wait of a new request by its place: the predicted one with its margin.
    fn wait_for_service(&self, class: ClassId, place: Place, now: Mono) -> Span {
        // In most cases no request waits.
        let ahead = if self.slots.queue.is_empty() {
            0
        } else {
            self.slots.queue.ahead(class, place)
        };
        let mut wait = self.slots.wait(ahead, self.full.mean, self.batch, now);
        if wait.is_zero() && !self.is_flat && !self.slots.has_free_place() {
            // Where many are in flight, the next slot is soon free, and another request will come for it.
            wait = self.until_next_end(now);
        }
        let gap = self.lead.known_gap();
        if wait.is_zero() {
            return gap;
        }
        wait.max(gap) + self.wait_margin(ahead)
    }

    /// Predicted service time of a new request.
    fn service_of(&self, class: ClassId, place: Place, now: Mono) -> Span {
        let waiting = self.slots.queue.len() as u64;
        let keeps_busy = waiting >= u64::from(self.slots.total());
        let group = Group::waiting(class, place);
        let predicted = if self.slots.has_free_place() {
            self.predicted_of(group, now)
        } else {
            self.joining_of(group, now)
        };
        if (self.slots.queue.is_contended() && keeps_busy) || self.is_overloaded(now) {
            predicted.safe
        } else {
            predicted.high
        }
    }

    /// Whether a waiting request must have the 97th percentile of its service time left when it starts. While slots are
    /// contended, and more wait than are needed to keep the slots busy, and one of them has time enough, a request that
    /// is likely to be late would waste a slot.
    pub(super) fn needs_safe(&self, begins: Mono) -> bool {
        let queue = &self.slots.queue;
        let more = queue.len() as u64 > u64::from(self.slots.total());
        let safe = self.next_predicted(begins).safe;
        let has_safe = |deadline| latest_start(deadline, safe) >= begins;
        self.is_overloaded(begins)
            || (more && queue.is_contended() && queue.latest().is_some_and(has_safe))
    }

    /// Predicted response time of a new request that is last in order.
    pub(super) fn expected(&self, now: Mono) -> Span {
        let all = self.slots.queue.len() as u32;
        self.next_predicted(now).high + self.wait(all, now)
    }

    /// Time until a newcomer with `ahead` requests before it starts; at least the transfer to an idle server.
    fn wait(&self, ahead: u32, now: Mono) -> Span {
        let wait = self.slots.wait(ahead, self.full.mean, self.batch, now);
        wait.max(self.lead.known_gap())
    }

    /// Margin of a predicted wait, for chance and for requests that other workers got meanwhile: a request that
    /// is allowed to wait should not be refused in the end. For other workers it is one service time, because a
    /// request may have come there since the slot table was read.
    fn wait_margin(&self, ahead: u32) -> Span {
        if !self.slots.knows_lanes() {
            return Span::ZERO;
        }
        let others = if self.slots.others.waiting > 0 {
            self.full.mean
        } else {
            Span::ZERO
        };
        (self.lead.spread(ahead) + others) / self.slots.total().max(1)
    }
}
