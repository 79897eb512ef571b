//! Variants of an engine: those of the plan, and those gone from it that still execute. A variant keeps its
//! id while anything refers to it.

use weir_api::{Plan, VariantPlan};

use crate::engine::health::Avoid;
use crate::engine::request::Request;
use crate::engine::variant::Variant;
use crate::routing::group_prior::GroupPrior;
use crate::routing::router::{Candidate, NoRoute, Requirements, ResponseTime};
use crate::time::{Mono, Span};
use crate::variant::VariantId;
use crate::waiting::class::{ClassId, Classes};
use crate::waiting::queue::Place;

/// Properties of a variant that routing depends on, besides its response time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoutingState {
    share: f64,
    slots: u32,
    accuracy: f64,
}

/// Table of variants.
#[derive(Debug, Default)]
pub(super) struct Variants {
    table: Vec<Variant>,
    classes: Classes,
    /// Suffix of failover clusters' names.
    failover: Option<String>,
}

impl Variants {
    /// Creates an empty table for these classes.
    pub(super) fn new(classes: &Classes, failover: Option<&str>) -> Variants {
        Variants {
            table: Vec::new(),
            classes: classes.clone(),
            failover: failover.map(str::to_owned),
        }
    }

    pub(super) fn len(&self) -> u16 {
        self.table.len() as u16
    }

    pub(super) fn get(&self, id: VariantId) -> Option<&Variant> {
        self.table.get(usize::from(id.0))
    }

    pub(super) fn get_mut(&mut self, id: VariantId) -> Option<&mut Variant> {
        self.table.get_mut(usize::from(id.0))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Variant> + Clone {
        self.table.iter()
    }

    /// Variants with their ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = (VariantId, &Variant)> + Clone {
        (0..).map(VariantId).zip(&self.table)
    }

    pub(super) fn accuracy(&self, id: VariantId) -> f64 {
        self.get(id).map_or(0.0, |variant| variant.accuracy)
    }

    /// Variant with that public name.
    pub(super) fn named(&self, name: &str) -> Option<VariantId> {
        let place = self.table.iter().position(|known| *known.name == *name);
        place.map(|place| VariantId(place as u16))
    }

    /// The only variant with slots, if there is exactly one.
    pub(super) fn only(&self) -> Option<VariantId> {
        let mut open = (0..).zip(&self.table).filter(|(_, v)| v.slots.total() > 0);
        let (first, _) = open.next()?;
        open.next().is_none().then_some(VariantId(first))
    }

    /// Candidates for a request with this place in the queue.
    pub(super) fn candidates(
        &self,
        class: ClassId,
        place: Place,
        avoid: Avoid,
        now: Mono,
    ) -> impl Iterator<Item = Candidate<impl Fn() -> ResponseTime>> + Clone {
        self.table.iter().map(move |variant| Candidate {
            share: variant.share,
            has_slots: variant.slots.total() > 0,
            failing: avoid.excludes(&variant.health),
            response_time: move || variant.response(class, place, now),
            accuracy: variant.accuracy,
            streams_full: false,
        })
    }

    /// Quickest variant with a free place for a request that is predicted to be late everywhere. `only`: this one alone.
    pub(super) fn tried(
        &self,
        requirements: Requirements<'_>,
        only: Option<VariantId>,
        avoid: Avoid,
        now: Mono,
    ) -> Option<VariantId> {
        let each = (0..).map(VariantId).zip(&self.table);
        let able = each.filter(|(id, variant)| {
            only.is_none_or(|only| only == *id)
                && variant.may_try(*id, requirements, now)
                && !avoid.excludes(&variant.health)
        });
        let quickest = able.min_by_key(|(_, variant)| variant.next_predicted(now).mean);
        Some(quickest?.0)
    }

    /// Marks as contended the variants that would have met these requirements but for the waiting requests. A
    /// request that no variant could serve in time says nothing about contention.
    pub(super) fn mark_contended(&mut self, requirements: Requirements<'_>, now: Mono) {
        for (id, variant) in (0..).zip(&mut self.table) {
            if variant.fits(VariantId(id), requirements) {
                variant.note_lost(now);
                variant.slots.queue.set_contended();
            }
        }
    }

    /// Shortest time before the deadline at which a variant that meets these requirements must start: its service
    /// time, and what its own budget ends earlier. `only`: this one alone; `may_try`: those count on which a request is tried.
    ///
    /// # Errors
    /// The reason why none does.
    pub(super) fn quickest(
        &self,
        requirements: Requirements<'_>,
        (only, may_try): (Option<VariantId>, bool),
        avoid: Avoid,
        now: Mono,
    ) -> Result<Span, NoRoute> {
        let allowed = (0..).map(VariantId).zip(&self.table);
        let allowed = allowed.filter(|(id, variant)| {
            only.is_none_or(|only| only == *id) && variant.slots.total() > 0
        });
        let mut any_slots = false;
        let times = allowed.filter_map(|(id, variant)| {
            any_slots = true;
            let left = requirements.left_for(id)?;
            let takes = match variant.fits(id, requirements) {
                _ if avoid.excludes(&variant.health) => None,
                true => Some(variant.alone_of(requirements.group).high),
                false => {
                    let tries = may_try && variant.may_try(id, requirements, now);
                    tries.then(|| variant.takes_if_tried(now))
                }
            };
            Some(takes? + requirements.left.saturating_sub(left))
        });
        match times.min() {
            Some(min) => Ok(min),
            None if any_slots => Err(NoRoute::Infeasible),
            None => Err(NoRoute::NoCapacity),
        }
    }

    /// Whether a variant of the plan could meet these requirements without other load and with all the cores it
    /// may be given. Its present cores do not matter, or a plan that is too small would hide the demand it is
    /// too small for. Without a plan any request could be served.
    pub(super) fn could_serve(&self, requirements: Requirements<'_>) -> bool {
        let table = (0..).map(VariantId).zip(&self.table);
        let mut planned = table.filter_map(|(id, variant)| {
            let predicted = variant.usual_of(requirements.group);
            let shortest = variant.shortest?.min(predicted.high);
            let gate_estimate = variant
                .gate_estimate
                .map_or(shortest, |(gate_estimate, _)| gate_estimate);
            Some((id, variant.accuracy, shortest.min(gate_estimate)))
        });
        let could = |(id, accuracy, takes): (VariantId, f64, Span)| {
            let left = requirements.left_for(id);
            accuracy >= requirements.min_accuracy && left.is_some_and(|left| takes <= left)
        };
        let mut any = false;
        let could = planned.any(|one| {
            any = true;
            could(one)
        });
        could || !any
    }

    /// Whether any other variant may answer a request if its own refuses the connection: every variant of the
    /// plan meets its accuracy and its list, has the same name for the model that it names, and the same path. These
    /// cannot change any more.
    pub(super) fn may_fail_over(&self, request: &Request) -> bool {
        let all = (0..).map(VariantId).zip(&self.table);
        let mut planned = all.filter(|(_, variant)| variant.is_planned());
        let own = self.get(request.variant);
        let shape = &request.shape;
        let alike = |variant: &Variant| {
            own.is_some_and(|own| own.ports.are_named_alike(&variant.ports, shape))
        };
        let fits = |(id, variant): (VariantId, &Variant)| {
            request.list().allows_always(id)
                && variant.accuracy >= request.min_accuracy
                && alike(variant)
        };
        planned.all(fits)
    }

    /// Least accurate variant of the plan that has this accuracy, the first of equals; `None` if none has, or if all
    /// variants of the plan are equally accurate.
    pub(super) fn least_accurate(&self, min_accuracy: f64) -> Option<VariantId> {
        let planned = (0..).map(VariantId).zip(&self.table);
        let planned = planned.filter(|(_, variant)| variant.shortest.is_some());
        let mut each = planned.map(|(id, variant)| (id, variant.accuracy));
        let first = each.next()?;
        let (mut least, mut differ) = (Some(first).filter(|one| one.1 >= min_accuracy), false);
        for one in each {
            differ |= one.1.total_cmp(&first.1).is_ne();
            if one.1 >= min_accuracy && least.is_none_or(|least| one.1 < least.1) {
                least = Some(one);
            }
        }
        least.filter(|_| differ).map(|(id, _)| id)
    }

    /// Updates the predictions.
    pub(super) fn update_predictions(&mut self, now: Mono) {
        for variant in &mut self.table {
            variant.predict(now);
        }
    }

    /// Quotas of the variants.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> + '_ {
        self.table.iter().map(|variant| variant.share)
    }

    /// Takes share and slots from all variants.
    pub(super) fn withdraw_slots(&mut self) {
        for variant in &mut self.table {
            variant.share = 0.0;
            variant.shortest = None;
            variant.slots.set_planned(0);
        }
    }

    /// Adopts a plan's variants. A variant no longer in the plan has no share and no slot. Its index is reused
    /// once nothing refers to it: no slot taken, and no request as `refers` tells.
    pub(super) fn adopt(&mut self, plan: &Plan, refers: impl Fn(VariantId) -> bool) {
        self.withdraw_slots();
        let suffix = self.failover.as_deref();
        for planned in &plan.variants {
            let place = self.place(planned, plan, &refers);
            match place.and_then(|place| self.table.get_mut(place)) {
                Some(variant) => variant.apply(planned, suffix),
                None => {
                    let variant = Variant::new(planned, suffix, &self.classes);
                    self.table.push(variant);
                }
            }
        }
    }

    /// Takes over the service times by group that a plan tells.
    pub(super) fn observe_priors(&mut self, plan: &Plan) {
        for planned in &plan.variants {
            let prior = GroupPrior::new(&planned.groups, &self.classes);
            let id = self.named(&planned.name);
            if let Some(variant) = id.and_then(|id| self.get_mut(id)) {
                let planned = variant.planned;
                variant.group_times.observe_prior(prior, planned);
            }
        }
    }

    /// Properties of the variants that routing depends on.
    pub(super) fn routing_states(&self) -> impl Iterator<Item = RoutingState> + '_ {
        self.table.iter().map(|variant| RoutingState {
            share: variant.share,
            slots: variant.slots.planned(),
            accuracy: variant.accuracy,
        })
    }

    /// Resets the batch window of variants with empty queues.
    pub(super) fn reset_batch_windows(&mut self) {
        for variant in &mut self.table {
            if variant.slots.queue.is_empty() {
                variant.batch_open_since = None;
            }
        }
    }

    /// Index of the variant, or else a reusable one.
    fn place(
        &self,
        planned: &VariantPlan,
        plan: &Plan,
        refers: impl Fn(VariantId) -> bool,
    ) -> Option<usize> {
        let known = self
            .table
            .iter()
            .position(|variant| *variant.name == *planned.name);
        known.or_else(|| {
            let ids = (0..).map(VariantId);
            let mut table = ids.zip(&self.table);
            table.position(|(id, variant)| {
                let named = plan
                    .variants
                    .iter()
                    .any(|other| *other.name == *variant.name);
                !named && variant.slots.is_idle() && variant.slots.is_synced() && !refers(id)
            })
        })
    }
}
