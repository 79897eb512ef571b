//! One variant as the engine sees it.

use std::rc::Rc;
use std::time::Duration;

use weir_api::VariantPlan;

use crate::coordination::lead::Lead;
use crate::engine::CHECK_PERIOD;
use crate::engine::completion::Completion;
use crate::health::Health;
use crate::priority::Urgency;
use crate::routing::router::Requirements;
use crate::routing::service_time::{ServiceTime, ServiceTimeEstimator};
use crate::slots::{VariantSlots, latest_start};
use crate::time::Mono;
use crate::variant::VariantKey;
use crate::waiting::class::Classes;
use crate::waiting::wait_queue::WaitQueue;

/// How long before the last moment a batch is closed that is not full, at the least: the timer that
/// comes for it counts complete_at ms and may be late by a few.
const BATCH_MARGIN: Duration = Duration::from_millis(5);
/// The same, as a part of the service time: a prediction is told to within a sixteenth, and who was
/// refused because the timer came a moment too late has waited for nothing but company.
const BATCH_MARGIN_PART: u32 = 16;
/// How long a router goes by what it has gate_estimate of a variant's slots.
const GATE_ESTIMATE_TTL: Duration = Duration::from_secs(2);

/// A variant as the engine sees it.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: Rc<str>,
    pub(super) cluster: Rc<str>,
    /// The cluster that moves on to other variants where a connection is refused, where there is one.
    pub(super) failover: Option<Rc<str>>,
    pub(super) key: VariantKey,
    /// The plan's service time.
    pub(super) planned: Duration,
    /// The same, corrected by what was seen.
    pub(super) predicted: ServiceTime,
    pub(super) batch: u32,
    pub(super) cancels: bool,
    pub(super) slots: VariantSlots,
    /// Requests upstream whose bodies are still coming.
    pub(super) uploads: u32,
    /// Health of its servers, as the workers of the proxy know.
    pub(super) health: Health,
    /// Moment at which it was last probed from here.
    pub(super) probed_at: Option<Mono>,
    /// Since when the room has been waiting for a batch to fill.
    pub(super) batch_open_since: Option<Mono>,
    /// The last execution that is over, until the board has told of it.
    pub(super) completion: Option<Completion>,
    pub(super) service_time: ServiceTimeEstimator,
    pub(super) gate_estimate: Option<(Duration, Mono)>,
    /// Shortest that it could take with all it may be given; `None` where the plan does not name it.
    pub(super) shortest: Option<Duration>,
    pub(super) share: f64,
    pub(super) accuracy: f64,
}

impl Variant {
    /// When the engine has to check_at at it by itself.
    pub(super) fn next_wake(&self, batch_wait: Option<Duration>, now: Mono) -> Option<Mono> {
        if self.slots.reported.stale {
            return Some(now);
        }
        let check_at = (!self.slots.queue.is_empty()).then(|| now + CHECK_PERIOD);
        let wake = self.slots.next_wake(self.predicted.high);
        let due = self.batch_due_at(batch_wait);
        check_at.into_iter().chain(wake).chain(due).min()
    }

    /// The least urgent for whom a batch is to be closed though it is not full.
    pub(super) fn due(&self, batch_wait: Option<Duration>, now: Mono) -> Option<Urgency> {
        self.batch_due_at(batch_wait).filter(|at| *at <= now)?;
        let waited = self.batch_open_since.zip(batch_wait);
        if waited.is_some_and(|(since, wait)| since + wait <= now) {
            return Some(Urgency(u64::MAX));
        }
        Some(self.slots.queue.urgency_by(now + self.batch_service()))
    }

    /// When the first who wait can wait for company no longer.
    fn batch_due_at(&self, batch_wait: Option<Duration>) -> Option<Mono> {
        if self.batch <= 1 {
            return None;
        }
        let earliest = self.slots.queue.earliest()?;
        let last = latest_start(earliest, self.batch_service());
        let since = self.batch_open_since.zip(batch_wait);
        let patience = since.map(|(since, wait)| since + wait);
        patience.into_iter().chain([last]).min()
    }

    /// The service of a batch, and the time before by which it is closed.
    fn batch_service(&self) -> Duration {
        let service = self.predicted.high;
        service + BATCH_MARGIN.max(service / BATCH_MARGIN_PART)
    }

    /// Whether it could serve this requirements if nobody waited.
    pub(super) fn fits(&self, requirements: Requirements) -> bool {
        self.predicted.high <= requirements.left && self.accuracy >= requirements.min_accuracy
    }

    /// Whether the plan in force names it.
    pub(super) fn is_planned(&self) -> bool {
        self.shortest.is_some()
    }

    /// A gate before this variant's servers says what a request takes there.
    pub(super) fn record_gate_estimate(&mut self, expected: Duration, now: Mono) {
        let expected = match self.gate_estimate {
            // Several gates take turns at answering: none of them for all.
            Some((before, until)) if now < until => (before * 3 + expected) / 4,
            _ => expected,
        };
        self.gate_estimate = Some((expected, now + GATE_ESTIMATE_TTL));
    }

    /// An execution took, or was given up after, so long.
    pub(super) fn observe(&mut self, planned: Duration, took: Duration, now: Mono) {
        if self.service_time.record(planned, took, now) {
            self.predicted = self.service_time.estimate(self.planned);
        }
    }

    pub(super) fn new(planned: &VariantPlan, suffix: Option<&str>, classes: &Classes) -> Variant {
        let mut variant = Variant {
            name: Rc::from(""),
            cluster: Rc::from(""),
            failover: None,
            key: VariantKey::default(),
            planned: Duration::ZERO,
            predicted: ServiceTime::default(),
            batch: 1,
            cancels: false,
            slots: VariantSlots::new(WaitQueue::new(classes)),
            uploads: 0,
            health: Health::default(),
            probed_at: None,
            batch_open_since: None,
            completion: None,
            service_time: ServiceTimeEstimator::default(),
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
            (self.health, self.probed_at) = (Health::default(), None);
            self.slots.lanes.0.lead = Lead::default();
        }
        if *self.cluster != *plan.cluster {
            self.cluster = Rc::from(plan.cluster.as_str());
            self.failover = suffix.map(|suffix| Rc::from(plan.cluster.clone() + suffix));
        }
        let planned = Duration::from_secs_f64(plan.service_ms / 1e3);
        if planned != self.planned {
            self.slots.lanes.0.lead = Lead::default();
        }
        self.planned = planned;
        self.shortest = Some(Duration::from_secs_f64(plan.service_min_ms / 1e3));
        self.predicted = self.service_time.estimate(self.planned);
        self.batch = plan.batch;
        self.cancels = plan.cancels;
        self.share = plan.share.0;
        self.slots.set_total(plan.slots);
        self.accuracy = plan.accuracy;
    }
}
