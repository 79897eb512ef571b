//! Slots of one variant, as one worker accounts for them: slots taken, and requests waiting for one. The
//! slot table ([`coordination`](crate::coordination)) decides whether a slot is free, because it knows the
//! other workers too.
//!
//! A slot is taken at dispatch and released when the *server* is done. Most servers go on with an execution
//! that a client or a timeout has abandoned. Such a slot is orphaned: it stays taken until the server's
//! predicted end.

mod orphans;

use std::collections::BTreeSet;

use crate::coordination::limit::Limit;
use crate::coordination::{LaneBacklog, LaneReport, OtherWorkers};
use crate::priority::Urgency;
use crate::time::{Mono, Span};
use crate::waiting::wait_queue::WaitQueue;

/// The value 1 in the fixed point of [`VariantSlots::mean_rank`].
const RANK_ONE: u64 = 1 << 10;

/// Requests that must wait, besides the one sent ahead of a free lane, if every newcomer goes before all
/// waiting requests. With 8, and budgets between 100 and 600 ms, fewer than 1 % of pairs are out of order
/// at 0.95 × capacity (`engine/tests/lanes.rs`). With 0 it is up to 2.2 %, and 0.3 points more are on time.
const EARLY_SEND_BESIDES: u64 = 8;

/// State of a variant that the slot table last got from this worker.
#[derive(Debug, Default)]
pub struct Reported {
    /// Slots taken.
    pub taken: u32,
    /// Most urgent request that waits here.
    pub head: Option<Urgency>,
    /// Time of the last acquisition.
    pub at: Mono,
    /// Whether the state must be written on the next tick: the last update was not (all CAS attempts failed),
    /// or a change is not written yet.
    pub stale: bool,
}

/// Predicted end of an orphan's execution, a number that tells it apart, its ordinal, and the time of its dispatch.
type Orphan = (Mono, u64, u32, Mono);

/// Slots of a variant taken by this worker, and requests waiting here.
#[derive(Debug, Default)]
pub struct VariantSlots {
    planned: u32,
    limit: u32,
    /// The same with requests that explore.
    exploring: u32,
    in_flight: u32,
    orphans: BTreeSet<Orphan>,
    until: Mono,
    /// State that the slot table last got from this worker.
    pub reported: Reported,
    /// Other workers' usage, from the slot table's last reading.
    pub others: OtherWorkers,
    /// Lane report of the slot table, and the time of it.
    pub lanes: (LaneReport, Mono),
    /// Ordinals of completed executions that are not yet reported to the slot table.
    pub ended: Vec<u32>,
    /// Ordinals of executions with an unpredictable end: orphans and streams.
    open_ended: Vec<u32>,
    /// Whether `open_ended` has changed since the last report.
    open_ended_changed: bool,
    /// Mean fraction of the waiting requests ahead of a newcomer, in units of 1/[`RANK_ONE`].
    mean_rank: u32,
    /// Requests waiting for a slot.
    pub queue: WaitQueue,
}

impl VariantSlots {
    /// Creates the slots of a variant with this wait queue, and no slot.
    #[must_use]
    pub fn new(queue: WaitQueue) -> VariantSlots {
        VariantSlots {
            queue,
            mean_rank: RANK_ONE as u32 / 2,
            ..VariantSlots::default()
        }
    }

    /// Sets the number of slots that the plan gives the proxy. If more are taken, none is free until enough are released.
    pub fn set_planned(&mut self, slots: u32) {
        if slots != self.planned {
            (self.planned, self.limit, self.exploring) = (slots, slots, slots);
        }
    }

    /// Takes over the concurrency limit that was found, while the plan gives any slot.
    pub fn set_limit(&mut self, limit: &Limit) {
        if self.planned > 0 {
            self.limit = limit.now(self.planned);
            self.exploring = limit.exploring(self.planned);
        }
    }

    /// Requests that may be in flight with those that explore.
    #[must_use]
    pub fn exploring(&self) -> u32 {
        self.exploring
    }

    /// Whether a newcomer may be sent beyond the limit.
    #[must_use]
    pub fn may_explore(&self) -> bool {
        (self.limit..self.exploring).contains(&self.in_flight())
    }

    /// Slots that the plan gives the proxy.
    #[must_use]
    pub fn planned(&self) -> u32 {
        self.planned
    }

    /// Slots of the proxy, all its workers together: its concurrency limit.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.limit
    }

    /// Requests in flight from all workers, by the slot table's last reading, orphans included.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.taken().saturating_add(self.others.taken)
    }

    /// Number of the next request in flight: at most the limit, for one that is sent ahead begins only then.
    #[must_use]
    pub fn next_in_flight(&self) -> u32 {
        self.in_flight().saturating_add(1).min(self.limit.max(1))
    }

    /// Whether no slot is free, whoever waits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.in_flight() >= self.limit && !self.may_explore()
    }

    /// Whether a slot is free, and no request waits for it.
    #[must_use]
    pub fn has_free_place(&self) -> bool {
        (!self.is_waited_for() && self.in_flight() < self.limit) || self.may_explore()
    }

    /// Slots that this worker has taken, orphans included.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.in_flight
            .saturating_add(u32::try_from(self.orphans.len()).unwrap_or(u32::MAX))
    }

    /// Latest predicted end of the executions in taken slots.
    #[must_use]
    pub fn until(&self) -> Mono {
        self.until
    }

    /// Whether no slot is taken and no request waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.taken() == 0 && self.queue.is_empty()
    }

    /// Whether a request waits for a slot, here or at another worker by the slot table's last reading.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.queue.is_empty() || self.others.waiting > 0
    }

    /// Whether the slot table is up to date, and no request waits that could ask for a slot.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.queue.is_empty() && self.reported.head.is_none() && self.is_reported()
    }

    /// Whether the slot table knows the slots taken, and all executions that have ended.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        !self.reported.stale
            && self.reported.taken == self.taken()
            && self.ended.is_empty()
            && !self.open_ended_changed
    }

    /// Takes a slot whose execution is predicted to end at `end`.
    pub fn take(&mut self, end: Mono) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.until = self.until.max(end);
    }

    /// Releases the slot of a completed execution.
    pub fn release(&mut self, ordinal: u32) {
        self.clear_open_ended(ordinal);
        self.end(ordinal);
        self.leave();
    }

    fn leave(&mut self) {
        debug_assert!(self.in_flight > 0, "a slot given back that was not taken");
        self.in_flight = self.in_flight.saturating_sub(1);
        self.reset_until();
    }

    fn end(&mut self, ordinal: u32) {
        if ordinal > 0 {
            self.ended.push(ordinal);
        }
    }

    /// Marks an execution as one with an unpredictable end.
    pub fn mark_open_ended(&mut self, ordinal: u32) {
        if ordinal > 0 && !self.open_ended.contains(&ordinal) {
            self.open_ended.push(ordinal);
            self.open_ended_changed = true;
        }
    }

    /// Clears that mark: the end can be predicted, or has come.
    pub fn clear_open_ended(&mut self, ordinal: u32) {
        self.open_ended.retain(|open_ended| *open_ended != ordinal);
    }

    /// Ordinals of executions with an unpredictable end.
    #[must_use]
    pub fn open_ended(&self) -> &[u32] {
        &self.open_ended
    }

    /// Requests that wait for a slot, here and at the other workers by the slot table's last reading.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let here = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        here.saturating_add(self.others.waiting)
    }

    /// Updates the usage of the other workers and the backlog of the lanes, after a reading of the slot table.
    pub fn set_other_workers(&mut self, others: OtherWorkers, busy: LaneBacklog, now: Mono) {
        self.others = others;
        (self.lanes.0.backlog, self.lanes.1) = (busy, now);
    }

    /// Marks all pending updates as reported.
    pub fn mark_reported(&mut self) {
        self.ended.clear();
        self.open_ended_changed = false;
    }

    /// Next time at which something changes by itself: the end of an orphan, which frees a slot for any worker;
    /// the start of a lane's lead; or the `latest_start` of the waiting requests, if any wait.
    #[must_use]
    pub fn next_wake(&self, latest_start: Option<Mono>) -> Option<Mono> {
        let orphan_end = self.orphans.first().map(|(end, ..)| *end);
        let Some(head) = latest_start else {
            return orphan_end;
        };
        let wake = self.lanes.0.lead_at.map_or(head, |lead| lead.min(head));
        Some(orphan_end.map_or(wake, |end| end.min(wake)))
    }

    /// Predicted wait of a newcomer with `ahead` requests before it here, where one execution takes `mean` and
    /// `batch` are executed together. Executions under way count with their remaining time, where the slot
    /// table tells it. More urgent requests that come later do not count.
    #[must_use]
    pub fn wait(&self, ahead: u32, mean: Span, batch: u32, now: Mono) -> Span {
        let taken = self.taken().saturating_add(self.others.taken);
        let nobody_waits = self.queue.is_empty() && self.others.waiting == 0;
        if self.limit == 0 || (nobody_waits && taken < self.limit) {
            return Span::ZERO;
        }
        if !self.knows_lanes() {
            return self.optimistic_wait(ahead, mean);
        }
        let ahead = u64::from(ahead) + self.others_ahead(ahead);
        if ahead == 0 {
            // It gets the next slot, which may be free at once. If it were refused, that slot would idle.
            return Span::ZERO;
        }
        self.backlog(mean.as_nanos().saturating_mul(ahead), mean, batch, now)
    }

    /// Predicted wait without information on the executions under way, which then count as ending now. A
    /// request refused without need is worse than one refused, or downgraded, at its latest start.
    fn optimistic_wait(&self, ahead: u32, mean: Span) -> Span {
        let here = self.queue.len() as u64;
        let others = u64::from(self.others.waiting);
        let others_ahead = match here {
            0 => others / 2,
            here => others * u64::from(ahead) / here,
        };
        let ahead = u64::from(ahead) + others_ahead;
        let work = mean.as_nanos().saturating_mul(ahead);
        Span::from_nanos(work / u64::from(self.limit.max(1)))
    }

    /// Whether the slot table reports the executions under way.
    #[must_use]
    pub fn knows_lanes(&self) -> bool {
        self.lanes.0.known
    }

    /// Time until everything sent is done, and `work` ns more.
    fn backlog(&self, work: u64, mean: Span, batch: u32, now: Mono) -> Span {
        let (sent, at) = &self.lanes;
        let (elapsed, total) = (now.since(*at).as_nanos(), u64::from(self.limit));
        let rest = sent
            .backlog
            .rest
            .as_nanos()
            .saturating_sub(elapsed.saturating_mul(total));
        let shortest = sent.backlog.shortest.as_nanos().saturating_sub(elapsed);
        // When the next one begins, each other lane is half done on average.
        let others = u64::from(self.limit.saturating_sub(batch.max(1)));
        let work = work.saturating_add(rest);
        let work = work.saturating_sub(mean.as_nanos() / 2 * others);
        Span::from_nanos((work / total.max(1)).max(shortest))
    }

    /// Requests of other workers that go before a newcomer with `ahead` requests before it here: the same
    /// proportion as here, or, if few wait here, the mean proportion of earlier newcomers.
    fn others_ahead(&self, ahead: u32) -> u64 {
        let others = u64::from(self.others.waiting);
        let here = self.queue.len() as u64;
        let (ahead, usual) = (u64::from(ahead), u64::from(self.mean_rank));
        others * (ahead * RANK_ONE + usual) / ((here + 1) * RANK_ONE)
    }

    /// Records the rank at which a newcomer entered the queue.
    pub fn record_rank(&mut self, ahead: u32) {
        let here = self.queue.len() as u64;
        if let Some(rank) = (u64::from(ahead) * RANK_ONE).checked_div(here) {
            let usual = u64::from(self.mean_rank) * 15 + rank.min(RANK_ONE);
            self.mean_rank = u32::try_from(usual / 16).unwrap_or(0);
        }
    }

    /// Minimum number of waiting requests, here and at other workers, before one is sent ahead of a free lane.
    /// A request that comes a moment later may be more urgent. The likelier that is, the more must wait,
    /// because among many the first is seldom overtaken. If all newcomers go last, one is enough.
    #[must_use]
    pub fn early_send_min(&self) -> u32 {
        let first = RANK_ONE - u64::from(self.mean_rank).min(RANK_ONE);
        1 + u32::try_from(first * EARLY_SEND_BESIDES / RANK_ONE).unwrap_or(0)
    }

    /// Time until the first lane is free, as far as the slot table tells; zero if one is free.
    #[must_use]
    pub fn time_until_free(&self, now: Mono) -> Span {
        let taken = self.taken().saturating_add(self.others.taken);
        let (sent, at) = &self.lanes;
        if taken < self.limit || !sent.known {
            return Span::ZERO;
        }
        sent.backlog.shortest.saturating_sub(now.since(*at))
    }

    fn reset_until(&mut self) {
        if self.taken() == 0 {
            self.until = Mono(0);
        }
    }
}

/// Latest start of an execution of length `service` that ends by the deadline.
#[must_use]
pub fn latest_start(deadline: Mono, service: Span) -> Mono {
    deadline - service
}

#[cfg(test)]
mod tests;
