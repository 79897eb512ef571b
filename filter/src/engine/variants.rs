//! The variants an engine knows: those of the plan, and those gone from it that still execute.
//! A variant keeps its number as long as anything refers to it.

use std::rc::Rc;
use std::time::Duration;

use weir_api::{Plan, VariantPlan};

use crate::engine::StreamId;
use crate::gate::{Gate, VariantId};
use crate::members::Part;
use crate::queue::Place;
use crate::route::Candidate;

/// A variant as the engine sees it.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: Rc<str>,
    pub(super) cluster: Rc<str>,
    pub(super) service: Duration,
    pub(super) gate: Gate,
    share: f64,
    slots: u32,
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

    /// Takes over a plan's variants. One the plan no longer names gets no share and no slot; its
    /// place is used again once nothing refers to it.
    pub(super) fn adopt(&mut self, plan: &Plan, part: Part) {
        for variant in &mut self.table {
            (variant.share, variant.slots) = (0.0, 0);
        }
        for planned in &plan.variants {
            let place = self.place(planned, plan);
            match place.and_then(|place| self.table.get_mut(place)) {
                Some(variant) => variant.follow(planned),
                None => self.table.push(Variant::new(planned)),
            }
        }
        self.divide(part);
    }

    /// Gives each variant this worker's part of its slots.
    pub(super) fn divide(&mut self, part: Part) {
        for (index, variant) in self.table.iter_mut().enumerate() {
            variant.gate.set_slots(part.of(variant.slots, index as u32));
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
                !named && variant.gate.is_idle()
            })
        })
    }
}

impl Variant {
    fn new(planned: &VariantPlan) -> Variant {
        let mut variant = Variant {
            name: Rc::from(""),
            cluster: Rc::from(""),
            service: Duration::ZERO,
            gate: Gate::default(),
            share: 0.0,
            slots: 0,
            accuracy: 0.0,
        };
        variant.follow(planned);
        variant
    }

    fn follow(&mut self, planned: &VariantPlan) {
        if *self.name != *planned.name {
            self.name = Rc::from(planned.name.as_str());
        }
        if *self.cluster != *planned.cluster {
            self.cluster = Rc::from(planned.cluster.as_str());
        }
        self.service = Duration::from_secs_f64(planned.service_ms / 1e3);
        self.share = planned.share.0;
        self.slots = planned.slots;
        self.accuracy = planned.accuracy;
    }
}
