//! What an engine holds and has in flight, for those who watch it from outside: it changes nothing.

use weir_api::metrics::Metric;

use super::Engine;
use crate::board::Standing;
use crate::gate::VariantId;
use crate::stats::Label;
use crate::time::Mono;

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
            slots: variant.gate.slots(),
            taken: variant.gate.taken(),
            held: variant.gate.queue.len(),
            earliest: variant.gate.queue.earliest(),
        })
    }

    /// Says what all workers of the proxy hold and have taken. Set, not counted: what a VM that died
    /// had must not stay in a gauge for ever.
    pub(super) fn gauge(&mut self, standing: &Standing, now: Mono) {
        let held = u64::from(standing.held);
        self.stats.set(Metric::Held, Label::None, held);
        for (index, variant) in (0..).zip(self.variants.iter()) {
            let taken = u64::from(self.member.taken(variant.key, now));
            let label = Label::Variant(VariantId(index));
            self.stats.set(Metric::InFlight, label, taken);
        }
    }

    /// Requests held and in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        self.requests.len()
    }
}
