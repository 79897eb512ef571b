//! One variant in the engine.

use std::rc::Rc;

use weir_api::VariantPlan;

use crate::coordination::lead::{LeadTimes, Measured};
use crate::engine::CHECK_PERIOD;
use crate::engine::completion::Completion;
use crate::engine::expiries::Expiries;
use crate::engine::ports::{Port, Ports};
use crate::health::Health;
use crate::priority::Urgency;
use crate::routing::group_times::{Group, GroupTimes};
use crate::routing::router::Requirements;
use crate::routing::service_time::{ServiceTime, ServiceTimeEstimator, Took};
use crate::slots::{VariantSlots, latest_start};
use crate::time::{Mono, Span};
use crate::variant::{VariantId, VariantKey};
use crate::waiting::class::Classes;
use crate::waiting::wait_queue::WaitQueue;

/// Time after a cut-off execution in which no request is tried that is predicted to be late.
pub(super) const TRY_AFTER: Span = Span::from_millis(500);
/// Minimum time before the latest start at which an incomplete batch is closed. The timer for it counts
/// whole ms and may be late by a few.
const BATCH_MARGIN: Span = Span::from_millis(5);
/// The same as a part of the service time. A prediction is accurate to a sixteenth, and a late timer must
/// not refuse a request that waited only for its batch to fill.
const BATCH_MARGIN_PART: u32 = 16;
/// Time for which a router uses the response time reported by a variant's gate.
const GATE_ESTIMATE_TTL: Span = Span::from_secs(2);

/// State of one variant.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: Rc<str>,
    pub(super) ports: Ports,
    /// Its servers' own name for the model.
    pub(super) model: Option<Rc<str>>,
    pub(super) key: VariantKey,
    /// Planned service time.
    pub(super) planned: Span,
    /// The same, corrected by measurements.
    pub(super) predicted: ServiceTime,
    pub(super) batch: u32,
    /// Servers behind its cluster.
    pub(super) replicas: u32,
    pub(super) cancels: bool,
    pub(super) slots: VariantSlots,
    /// Waiting requests for which it expires before their deadline.
    pub(super) expiries: Expiries,
    /// Requests upstream with incoming bodies.
    pub(super) uploads: u32,
    /// Health of its servers, as known to the workers of the proxy.
    pub(super) health: Health,
    /// Time of the last probe from this worker.
    pub(super) probed_at: Option<Mono>,
    /// Start of the batch window.
    pub(super) batch_open_since: Option<Mono>,
    /// Last completed execution, until the slot table has reported its start.
    pub(super) completion: Option<Completion>,
    /// Measurements of the gap, from the last lane report.
    pub(super) lead: LeadTimes,
    pub(super) service_time: ServiceTimeEstimator,
    /// The same by class and by size.
    pub(super) group_times: GroupTimes,
    /// Time until which no request is tried that is predicted to be late.
    pub(super) tries_from: Mono,
    /// Service time that all workers measured together, at the last renewal.
    common: Option<ServiceTime>,
    pub(super) gate_estimate: Option<(Span, Mono)>,
    /// Shortest service time with all the cores it may be given; `None` if the plan does not include it.
    pub(super) shortest: Option<Span>,
    pub(super) share: f64,
    pub(super) accuracy: f64,
}

impl Variant {
    /// Next time at which the engine must check it.
    pub(super) fn next_wake(&self, batch_wait: Option<Span>, now: Mono) -> Option<Mono> {
        if self.slots.reported.stale {
            return Some(now);
        }
        let wake = self.slots.next_wake(self.latest_start());
        if self.slots.queue.is_empty() {
            return wake;
        }
        let check_at = now + CHECK_PERIOD;
        let wake = wake.map_or(check_at, |wake| wake.min(check_at));
        let due = self.batch_due_at(batch_wait);
        Some(due.map_or(wake, |due| due.min(wake)))
    }

    /// Least urgent request whose batch window is over.
    pub(super) fn batch_due(&self, batch_wait: Option<Span>, now: Mono) -> Option<Urgency> {
        self.batch_due_at(batch_wait).filter(|at| *at <= now)?;
        let waited = self.batch_open_since.zip(batch_wait);
        let expires = self.expiries.first().map(|(at, _)| at);
        let expires = expires.map(|at| latest_start(at, self.batch_service()));
        if expires.is_some_and(|last| last <= now)
            || waited.is_some_and(|(since, wait)| since + wait <= now)
        {
            return Some(Urgency(u64::MAX));
        }
        Some(self.slots.queue.urgency_by(now + self.batch_service()))
    }

    /// End of the batch window: the latest start of the earliest deadline, or the configured maximum.
    fn batch_due_at(&self, batch_wait: Option<Span>) -> Option<Mono> {
        if self.batch <= 1 {
            return None;
        }
        let earliest = self.slots.queue.earliest()?;
        let expires = self.expiries.first().map(|(at, _)| at);
        let earliest = expires.map_or(earliest, |at| at.min(earliest));
        let last = latest_start(earliest, self.batch_service());
        let since = self.batch_open_since.zip(batch_wait);
        let patience = since.map(|(since, wait)| since + wait);
        patience.into_iter().chain([last]).min()
    }

    /// Service time of a batch, plus the margin for closing it.
    fn batch_service(&self) -> Span {
        let service = self.predicted.high;
        service + BATCH_MARGIN.max(service / BATCH_MARGIN_PART)
    }

    /// Whether it has its maximum of requests with incoming bodies: half of its slots, divided among the workers, and at
    /// least one.
    pub(super) fn has_max_streams(&self, workers: u32) -> bool {
        let max = self.slots.total() / 2 / workers.max(1);
        self.uploads >= max.max(1)
    }

    /// Port of its servers for a request.
    pub(super) fn port(&self, grpc: bool) -> &Port {
        self.ports.of(grpc)
    }

    /// Whether it, with its id, could meet these requirements without waiting.
    pub(super) fn fits(&self, id: VariantId, requirements: Requirements<'_>) -> bool {
        let left = requirements.left_for(id);
        let high = self.predicted_of(requirements.group).high;
        left.is_some_and(|left| high <= left) && self.accuracy >= requirements.min_accuracy
    }

    /// Predicted service time of a request of that group.
    pub(super) fn predicted_of(&self, group: Group) -> ServiceTime {
        self.group_times.of(group).unwrap_or(self.predicted)
    }

    /// Whether a request that is predicted to be late everywhere may be tried here: its slots are idle, so it takes
    /// none from another, and it would be in time if it took what completed executions take. Otherwise a stall, during
    /// which many executions are cut off, would close a variant for as long as it is remembered. Only measurements can
    /// be in doubt like that; the planned time holds.
    pub(super) fn may_try(&self, id: VariantId, requirements: Requirements<'_>, now: Mono) -> bool {
        let slots = &self.slots;
        let is_idle = slots.is_idle() && slots.others.taken == 0 && slots.others.waiting == 0;
        if !is_idle || slots.total() == 0 || now < self.tries_from {
            return false;
        }
        let is_measured = self.service_time.measured(self.planned).is_some();
        let left = requirements.left_for(id);
        (is_measured || self.common.is_some())
            && self.accuracy >= requirements.min_accuracy
            && left.is_some_and(|left| self.takes_if_tried(requirements.group) <= left)
    }

    /// Service time of a request that is tried: the mean of the executions that were completed, of its group if that has
    /// a prediction of its own, or else of all; or the mean of all workers, or the planned time.
    pub(super) fn takes_if_tried(&self, group: Group) -> Span {
        self.group_times
            .completed_mean(group, self.planned)
            .or_else(|| self.service_time.completed_mean(self.planned))
            .or(self.common.map(|common| common.mean))
            .unwrap_or(self.planned)
    }

    /// Whether the plan in force includes it.
    pub(super) fn is_planned(&self) -> bool {
        self.shortest.is_some()
    }

    /// Records the response time reported by a gate before its servers.
    pub(super) fn record_gate_estimate(&mut self, expected: Span, now: Mono) {
        let expected = match self.gate_estimate {
            // Several gates answer in turn, and none stands for all of them.
            Some((before, until)) if now < until => (before * 3 + expected) / 4,
            _ => expected,
        };
        self.gate_estimate = Some((expected, now + GATE_ESTIMATE_TTL));
    }

    /// Records the duration of an execution, completed or aborted.
    pub(super) fn observe(&mut self, group: Group, planned: Span, took: Took, now: Mono) {
        self.group_times.record(group, planned, took, now);
        if self.service_time.record(planned, took, now) {
            self.estimate();
        }
    }

    /// Takes over the service time that all workers have measured together, or none.
    pub(super) fn observe_common(&mut self, measured: Option<Measured>) {
        self.common =
            measured.map(|measured| ServiceTime::normal(measured.mean, measured.deviation));
    }

    /// Predicts anew, without what is too old.
    pub(super) fn predict(&mut self, now: Mono) {
        self.predicted = self.service_time.predict(self.planned, self.common, now);
        self.group_times.predict(self.planned, now);
    }

    fn estimate(&mut self) {
        self.predicted = self.service_time.estimate(self.planned, self.common);
    }

    pub(super) fn new(planned: &VariantPlan, suffix: Option<&str>, classes: &Classes) -> Variant {
        let mut variant = Variant {
            name: Rc::from(""),
            ports: Ports::default(),
            model: None,
            key: VariantKey::default(),
            planned: Span::ZERO,
            predicted: ServiceTime::default(),
            batch: 1,
            replicas: 1,
            cancels: false,
            slots: VariantSlots::new(WaitQueue::new(classes)),
            expiries: Expiries::default(),
            uploads: 0,
            health: Health::default(),
            probed_at: None,
            batch_open_since: None,
            completion: None,
            service_time: ServiceTimeEstimator::default(),
            group_times: GroupTimes::new(classes.list.len()),
            lead: LeadTimes::default(),
            tries_from: Mono(0),
            common: None,
            gate_estimate: None,
            shortest: None,
            share: 0.0,
            accuracy: 0.0,
        };
        variant.apply(planned, suffix);
        variant
    }

    pub(super) fn apply(&mut self, plan: &VariantPlan, suffix: Option<&str>) {
        if *self.name != *plan.name {
            self.name = Rc::from(plan.name.as_str());
            self.key = VariantKey::of(&plan.name);
            (self.service_time, self.gate_estimate) = (ServiceTimeEstimator::default(), None);
            self.group_times.clear();
            (self.health, self.probed_at) = (Health::default(), None);
            (self.lead, self.common) = (LeadTimes::default(), None);
        }
        self.ports.apply(plan, suffix);
        if self.model.as_deref() != plan.model.as_deref() {
            self.model = plan.model.as_deref().map(Rc::from);
        }
        let planned = Span::from_millis_f64(plan.service_ms);
        if planned != self.planned {
            (self.lead, self.common) = (LeadTimes::default(), None);
        }
        self.planned = planned;
        self.shortest = Some(Span::from_millis_f64(plan.service_min_ms));
        self.estimate();
        self.group_times.estimate(planned, plan.batch);
        self.batch = plan.batch;
        self.replicas = plan.replicas;
        self.cancels = plan.cancels;
        self.share = plan.share.0;
        self.slots.set_total(plan.slots);
        self.accuracy = plan.accuracy;
    }
}
