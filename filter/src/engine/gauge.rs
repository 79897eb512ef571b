//! What an engine holds and has in flight, for those who watch it from outside: it changes nothing.

use super::Engine;
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

    /// Requests held and in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        self.requests.len()
    }
}
