//! What an engine holds and has in flight, for those who watch it from outside: it changes nothing.

use weir_api::metrics::Metric;

use super::Engine;
use crate::coordination::Membership;
use crate::plan::PlanSource;
use crate::stats::Label;
use crate::time::{Mono, millis};
use crate::variant::VariantId;
use crate::waiting::class::ClassId;

/// One variant's slots and waiting room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    /// The proxy's slots, all its workers together.
    pub slots: u32,
    /// Slots this worker has taken, ghosts included.
    pub taken: u32,
    /// Requests held here.
    pub held: usize,
    /// The earliest deadline held here.
    pub earliest: Option<Mono>,
}

impl Engine {
    /// The variants' gauges, in the order of their numbers.
    pub fn gauges(&self) -> impl Iterator<Item = Gauge> + '_ {
        self.variants.iter().map(|variant| Gauge {
            slots: variant.slots.total(),
            taken: variant.slots.taken(),
            held: variant.slots.queue.len(),
            earliest: variant.slots.queue.earliest(),
        })
    }

    /// Says what all workers of the proxy hold and have taken. Set, not counted: what a VM that died
    /// had must not stay in a gauge for ever. What the board tells all VMs any of them may set; the rest
    /// only the one that reports, or a gauge would show whichever VM wrote last.
    pub(super) fn gauge(&mut self, membership: &Membership, now: Mono) {
        let held = u64::from(membership.held);
        self.stats.set(Metric::Held, Label::None, held);
        let tracks_health = self.tracks_health();
        for (index, variant) in (0..).zip(self.variants.iter()) {
            let label = Label::Variant(VariantId(index));
            let taken = self.worker.taken(variant.key, now);
            let waiting = self.worker.waiting(variant.key, now);
            let (taken, waiting) = (u64::from(taken), u64::from(waiting));
            self.stats.set(Metric::InFlight, label, taken);
            self.stats.set(Metric::Waiting, label, waiting);
            if tracks_health {
                let failing = u64::from(variant.health.failing.is_some());
                self.stats.set(Metric::Failing, label, failing);
            }
        }
        if membership.reports {
            self.report(now);
        }
    }

    /// What this VM knows for itself: the plan it goes by, what it has measured and chosen.
    fn report(&mut self, now: Mono) {
        if let PlanSource::Planner { received, .. } = self.source {
            let age = millis(now.since(received));
            self.stats.set(Metric::PlanAgeMs, Label::None, age);
        }
        for (index, variant) in (0..).zip(self.variants.iter()) {
            let label = Label::Variant(VariantId(index));
            let slots = u64::from(variant.slots.total());
            let predicted = millis(variant.predicted.high);
            self.stats.set(Metric::Slots, label, slots);
            self.stats.set(Metric::PredictedMs, label, predicted);
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
