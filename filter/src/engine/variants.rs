//! The variants an engine knows: those of the plan, and those gone from it that still execute.
//! A variant keeps its number as long as anything refers to it.

use std::rc::Rc;
use std::time::Duration;

use weir_api::{Plan, VariantPlan};

use crate::board::Key;
use crate::engine::{LOOK, StreamId};
use crate::gate::{Gate, VariantId};
use crate::queue::Place;
use crate::route::Candidate;
use crate::time::Mono;

/// A variant as the engine sees it.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: Rc<str>,
    pub(super) cluster: Rc<str>,
    pub(super) key: Key,
    pub(super) service: Duration,
    pub(super) cancels: bool,
    pub(super) gate: Gate,
    share: f64,
    accuracy: f64,
}

#[derive(Debug, Default)]
pub(super) struct Variants {
    table: Vec<Variant>,
}

impl Variants {
    pub(super) fn len(&self) -> u16 {
        self.table.len() as u16
    }

    pub(super) fn get(&self, id: VariantId) -> Option<&Variant> {
        self.table.get(usize::from(id.0))
    }

    pub(super) fn get_mut(&mut self, id: VariantId) -> Option<&mut Variant> {
        self.table.get_mut(usize::from(id.0))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Variant> {
        self.table.iter()
    }

    pub(super) fn candidates(&self) -> impl Iterator<Item = Candidate> + Clone {
        self.table.iter().map(|variant| Candidate {
            share: variant.share,
            has_slots: variant.gate.slots() > 0,
            service: variant.service,
            accuracy: variant.accuracy,
        })
    }

    /// No variant has a share or a slot.
    pub(super) fn close(&mut self) {
        for variant in &mut self.table {
            variant.share = 0.0;
            variant.gate.set_slots(0);
        }
    }

    /// Takes over a plan's variants. One the plan no longer names gets no share and no slot; its
    /// place is used again once nothing refers to it.
    pub(super) fn adopt(&mut self, plan: &Plan) {
        self.close();
        for planned in &plan.variants {
            let place = self.place(planned, plan);
            match place.and_then(|place| self.table.get_mut(place)) {
                Some(variant) => variant.follow(planned),
                None => self.table.push(Variant::new(planned)),
            }
        }
    }

    /// Empties all queues: who was held, by deadline.
    pub(super) fn take_waiting(&mut self) -> Vec<StreamId> {
        let mut waiting: Vec<(Place, StreamId)> = Vec::new();
        for variant in &mut self.table {
            waiting.extend(std::iter::from_fn(|| variant.gate.queue.pop()));
        }
        waiting.sort_unstable_by_key(|(place, _)| *place);
        waiting.into_iter().map(|(_, stream)| stream).collect()
    }

    /// Where the variant is, or else a place nothing refers to any more.
    fn place(&self, planned: &VariantPlan, plan: &Plan) -> Option<usize> {
        let known = self
            .table
            .iter()
            .position(|variant| *variant.name == *planned.name);
        known.or_else(|| {
            self.table.iter().position(|variant| {
                let named = plan
                    .variants
                    .iter()
                    .any(|other| *other.name == *variant.name);
                !named && variant.gate.is_idle() && variant.gate.is_settled()
            })
        })
    }
}

impl Variant {
    /// When the engine has to look at it by itself.
    pub(super) fn next_wake(&self, now: Mono) -> Option<Mono> {
        if self.gate.unsettled {
            return Some(now);
        }
        let look = (!self.gate.queue.is_empty()).then(|| now + LOOK);
        let wake = self.gate.next_wake(self.service);
        look.into_iter().chain(wake).min()
    }

    fn new(planned: &VariantPlan) -> Variant {
        let mut variant = Variant {
            name: Rc::from(""),
            cluster: Rc::from(""),
            key: Key::default(),
            service: Duration::ZERO,
            cancels: false,
            gate: Gate::default(),
            share: 0.0,
            accuracy: 0.0,
        };
        variant.follow(planned);
        variant
    }

    fn follow(&mut self, planned: &VariantPlan) {
        if *self.name != *planned.name {
            self.name = Rc::from(planned.name.as_str());
            self.key = Key::of(&planned.name);
        }
        if *self.cluster != *planned.cluster {
            self.cluster = Rc::from(planned.cluster.as_str());
        }
        self.service = Duration::from_secs_f64(planned.service_ms / 1e3);
        self.cancels = planned.cancels;
        self.share = planned.share.0;
        self.gate.set_slots(planned.slots);
        self.accuracy = planned.accuracy;
    }
}
