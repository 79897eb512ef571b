//! One variant in the engine.

mod predicted;
mod trial;

use std::rc::Rc;

use weir_api::VariantPlan;

use crate::coordination::CompletedExecution;
use crate::coordination::curve::Curve;
use crate::coordination::lead::{LeadTimes, Measured};
use crate::engine::CHECK_PERIOD;
use crate::engine::completion::Completion;
use crate::engine::expiries::Expiries;
use crate::engine::ports::{Port, Ports};
use crate::engine::served::ServedPaths;
use crate::engine::silence::Silence;
use crate::health::Healths;
use crate::priority::Urgency;
use crate::routing::group_times::{Group, GroupTimes};
use crate::routing::router::Requirements;
use crate::routing::service_time::{ServiceTime, ServiceTimeEstimator, Took};
use crate::slots::{VariantSlots, latest_start};
use crate::time::{Mono, Span};
use crate::variant::{VariantId, VariantKey};
use crate::waiting::class::Classes;
use crate::waiting::wait_queue::WaitQueue;

/// Maximum number of executions that are kept for the slot table: more of one moment tell nothing more.
pub(super) const ENDED_MAX: usize = 64;
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
    pub(super) key: VariantKey,
    /// Planned service time.
    pub(super) planned: Span,
    /// The same, corrected by measurements, however many are in flight.
    pub(super) predicted: ServiceTime,
    /// Prediction with all slots taken.
    pub(super) full: ServiceTime,
    /// Prediction for a request that is alone at the servers.
    alone: ServiceTime,
    /// Times by requests in flight, as all workers measured them.
    curve: Curve,
    /// Whether the curve is flat up to the limit: lanes that do not slow one another down.
    pub(super) is_flat: bool,
    /// Time of the last reading of the curve.
    curve_at: Mono,
    /// Time of the last answer to this worker.
    pub(super) answered_at: Mono,
    /// Time of the last request that this worker refused for want of time here.
    lost_at: Option<Mono>,
    pub(super) batch: u32,
    /// Servers behind its cluster.
    pub(super) replicas: u32,
    pub(super) cancels: bool,
    pub(super) slots: VariantSlots,
    /// Waiting requests for which it expires before their deadline.
    pub(super) expiries: Expiries,
    /// Slots that clients hold: of requests with incoming bodies, and of streams whose readers are behind.
    pub(super) uploads: u32,
    /// Health of its servers, as known to the workers of the proxy.
    pub(super) health: Healths,
    /// Paths that its servers have answered well, to this worker.
    pub(super) served: ServedPaths,
    /// What this worker has heard of its servers, and not.
    pub(super) silence: Silence,
    /// Time of the last probe from this worker.
    pub(super) probed_at: [Option<Mono>; 2],
    /// Start of the batch window.
    pub(super) batch_open_since: Option<Mono>,
    /// Last completed execution, until the slot table has reported its start.
    pub(super) completion: Option<Completion>,
    /// Executions that have ended and that the slot table does not know yet, at most [`ENDED_MAX`].
    pub(super) ended: Vec<CompletedExecution>,
    /// Measurements of the gap, from the last lane report.
    pub(super) lead: LeadTimes,
    pub(super) service_time: ServiceTimeEstimator,
    /// The same by class and by size.
    pub(super) group_times: GroupTimes,
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
        let wake = self.slots.next_wake(self.latest_start(now));
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
        let service = self.full.high;
        service + BATCH_MARGIN.max(service / BATCH_MARGIN_PART)
    }

    /// Maximum number of slots that clients hold, of all workers: half of its slots, and for those on a path that the
    /// service names as a stream at least one. A client chooses to upload without an end, and not on which paths that is
    /// served.
    pub(super) fn uploads_max(&self, stream: bool) -> u32 {
        (self.slots.total() / 2).max(u32::from(stream))
    }

    /// Whether it has that maximum, by the slot table's last reading.
    pub(super) fn has_max_uploads(&self, stream: bool) -> bool {
        let uploads = self.uploads.saturating_add(self.slots.others.uploads);
        uploads >= self.uploads_max(stream)
    }

    /// Whether any worker is known to have got an answer since then.
    pub(super) fn has_answered_since(&self, then: Mono) -> bool {
        self.curve.turned > then || self.curve.answered >= then
    }

    /// Port of its servers for a request.
    pub(super) fn port(&self, grpc: bool) -> &Port {
        self.ports.of(grpc)
    }

    /// Whether it, with its id, could meet these requirements without waiting.
    pub(super) fn fits(&self, id: VariantId, requirements: Requirements<'_>) -> bool {
        let left = requirements.left_for(id);
        let high = self.alone_of(requirements.group).high;
        left.is_some_and(|left| high <= left) && self.accuracy >= requirements.min_accuracy
    }

    /// Whether a request waits here for a lane, and not at the servers.
    pub(super) fn has_lanes(&self, now: Mono) -> bool {
        self.is_flat || self.curve.has_planned_lanes(self.slots.total(), now)
    }

    /// Takes over the server curve that all workers measured; `corrects`: predictions follow measurements.
    pub(super) fn adopt_curve(&mut self, curve: Curve, corrects: bool, now: Mono) {
        (self.curve_at, self.is_flat) = (now, true);
        if corrects {
            self.is_flat = curve.is_flat(self.slots.total(), now);
            self.curve = curve;
            if !self.is_flat {
                self.slots.release_passed(curve.answered);
            }
        }
        if self.is_flat && !self.service_time.is_known() {
            self.estimate();
        } else {
            self.update_points();
        }
    }

    fn update_points(&mut self) {
        self.full = self.at(self.slots.total(), Span::ZERO);
        self.alone = self.at(1, Span::ZERO);
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
        let known = self.known(now);
        self.predicted = self.service_time.predict(self.planned, known, now);
        self.group_times.predict(self.planned, now);
        self.update_points();
    }

    fn estimate(&mut self) {
        self.predicted = self
            .service_time
            .estimate(self.planned, self.known(self.curve_at));
        self.update_points();
    }

    /// What is known of the service time until this worker has measured enough for its own percentiles: a few executions
    /// say more than the plan. What is too old at `at` says nothing, so that one that has grown too large expires.
    fn known(&self, at: Mono) -> Option<ServiceTime> {
        self.common
            .or_else(|| self.by_curve(self.slots.total(), Span::ZERO, at))
    }

    pub(super) fn new(planned: &VariantPlan, suffix: Option<&str>, classes: &Classes) -> Variant {
        let mut variant = Variant {
            name: Rc::from(""),
            ports: Ports::default(),
            key: VariantKey::default(),
            planned: Span::ZERO,
            predicted: ServiceTime::default(),
            full: ServiceTime::default(),
            alone: ServiceTime::default(),
            curve: Curve::default(),
            is_flat: true,
            curve_at: Mono(0),
            lost_at: None,
            answered_at: Mono(0),
            batch: 1,
            replicas: 1,
            cancels: false,
            slots: VariantSlots::new(WaitQueue::new(classes)),
            expiries: Expiries::default(),
            uploads: 0,
            health: Healths::default(),
            served: ServedPaths::default(),
            silence: Silence::default(),
            probed_at: [None; 2],
            batch_open_since: None,
            completion: None,
            ended: Vec::new(),
            service_time: ServiceTimeEstimator::default(),
            group_times: GroupTimes::new(classes.list.len()),
            lead: LeadTimes::default(),
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
            (self.health, self.probed_at) = (Healths::default(), [None; 2]);
            self.silence = Silence::default();
            self.served = ServedPaths::default();
            (self.lead, self.common) = (LeadTimes::default(), None);
            (self.curve, self.is_flat) = (Curve::default(), true);
        }
        self.ports.apply(plan, suffix);
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
        self.slots.set_planned(plan.slots);
        self.accuracy = plan.accuracy;
    }
}
