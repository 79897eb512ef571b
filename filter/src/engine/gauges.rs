//! Gauges of an engine's state, for observers: they change nothing.

use weir_api::metrics::Metric;

use super::Engine;
use crate::coordination::Membership;
use crate::plan::PlanSource;
use crate::stats::Label;
use crate::time::Mono;
use crate::variant::VariantId;
use crate::waiting::class::ClassId;

/// Slots and wait queue of one variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    /// Slots of the proxy, all its workers together.
    pub slots: u32,
    /// Slots taken by this worker, orphans included.
    pub taken: u32,
    /// Requests held here.
    pub held: usize,
    /// Earliest deadline held here.
    pub earliest: Option<Mono>,
}

impl Engine {
    /// Gauges of the variants, in the order of their ids.
    pub fn gauges(&self) -> impl Iterator<Item = Gauge> + '_ {
        self.variants.iter().map(|variant| Gauge {
            slots: variant.slots.total(),
            taken: variant.slots.taken(),
            held: variant.slots.queue.len(),
            earliest: variant.slots.queue.earliest(),
        })
    }

    /// Sets the gauges of all workers of the proxy. They are set, not counted, because the state of a dead VM
    /// must not stay in a gauge. Any VM may set what the slot table tells all of them. The rest is set only by
    /// the VM that reports, or a gauge would show whichever VM wrote last.
    pub(super) fn gauge(&mut self, membership: &Membership, now: Mono) {
        let held = u64::from(membership.held);
        self.stats.set(Metric::HeldRequests, Label::None, held);
        let tracks_health = self.tracks_health();
        for (index, variant) in (0..).zip(self.variants.iter()) {
            let label = Label::Variant(VariantId(index));
            let taken = self.worker.taken(variant.key, now);
            let waiting = self.worker.waiting(variant.key, now);
            let (taken, waiting) = (u64::from(taken), u64::from(waiting));
            self.stats.set(Metric::SlotsInUse, label, taken);
            self.stats.set(Metric::WaitingRequests, label, waiting);
            if tracks_health {
                let failing = u64::from(variant.health.fails());
                self.stats.set(Metric::Failing, label, failing);
            }
        }
        if membership.reports {
            self.report(now);
        }
    }

    /// Sets the gauges of what this VM knows for itself: its plan, its measurements and choices.
    fn report(&mut self, now: Mono) {
        if let PlanSource::Planner { received, .. } = self.source {
            let age = now.since(received).as_millis();
            self.stats.set(Metric::PlanAgeMs, Label::None, age);
        }
        for (index, variant) in (0..).zip(self.variants.iter()) {
            let label = Label::Variant(VariantId(index));
            let slots = u64::from(variant.slots.planned());
            let predicted = variant.full.high.as_millis();
            self.stats.set(Metric::Slots, label, slots);
            self.stats.set(Metric::PredictedServiceMs, label, predicted);
        }
        for (index, share) in (0..).zip(self.variants.shares()) {
            let observed = self.router.observed_share(usize::from(index));
            let off = observed.map_or(0.0, |observed| observed - share);
            let label = Label::Variant(VariantId(index));
            let permille = (off.abs() * 1e3) as u64;
            self.stats.set(Metric::ShareDeviation, label, permille);
        }
    }

    /// Requests of a class held here.
    #[must_use]
    pub fn held_of(&self, class: ClassId) -> usize {
        self.held.of(class)
    }

    /// Requests held and in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        self.requests.len()
    }
}
