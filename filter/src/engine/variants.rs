//! The variants an engine knows: those of the plan, and those gone from it that still execute.
//! A variant keeps its number as long as anything refers to it.

use std::rc::Rc;
use std::time::Duration;

use weir_api::{Plan, VariantPlan};

use crate::coordination::lead::Lead;
use crate::engine::LOOK;
use crate::engine::completion::Landing;
use crate::engine::health::Avoid;
use crate::health::Health;
use crate::priority::Urgency;
use crate::routing::router::{Candidate, NoRoute, Wish};
use crate::routing::service_time::{Observed, Predicted};
use crate::slots::{Gate, latest_start};
use crate::time::Mono;
use crate::variant::Key;
use crate::variant::VariantId;
use crate::waiting::class::{ClassId, Classes};
use crate::waiting::queue::Place;
use crate::waiting::wait_queue::Room;

/// How long before the last moment a batch is closed that is not full, at the least: the timer that
/// comes for it counts whole ms and may be late by a few.
const BATCH_MARGIN: Duration = Duration::from_millis(5);
/// The same, as a part of the service time: a prediction is told to within a sixteenth, and who was
/// refused because the timer came a moment too late has waited for nothing but company.
const BATCH_MARGIN_PART: u32 = 16;
/// How long a router goes by what it has heard of a variant's gate.
const HEARSAY: Duration = Duration::from_secs(2);

/// A variant as the engine sees it.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: Rc<str>,
    pub(super) cluster: Rc<str>,
    /// The cluster that moves on to other variants where a connection is refused, where there is one.
    pub(super) failover: Option<Rc<str>>,
    pub(super) key: Key,
    /// The plan's service time.
    pub(super) planned: Duration,
    /// The same, corrected by what was seen.
    pub(super) predicted: Predicted,
    pub(super) batch: u32,
    pub(super) cancels: bool,
    pub(super) gate: Gate,
    /// Requests upstream whose bodies are still coming.
    pub(super) uploads: u32,
    /// Health of its servers, as the workers of the proxy know.
    pub(super) health: Health,
    /// Moment at which it was last probed from here.
    pub(super) probed_at: Option<Mono>,
    /// Since when the room has been waiting for a batch to fill.
    pub(super) company_since: Option<Mono>,
    /// The last execution that is over, until the board has told of it.
    pub(super) landing: Option<Landing>,
    observed: Observed,
    pub(super) heard: Option<(Duration, Mono)>,
    /// Shortest that it could take with all it may be given; `None` where the plan does not name it.
    shortest: Option<Duration>,
    share: f64,
    accuracy: f64,
}

/// What a variant is for, as requests are routed; how long it takes is asked of each anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Offer {
    share: f64,
    slots: u32,
    accuracy: f64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Variants {
    table: Vec<Variant>,
    classes: Classes,
    /// The end of failover clusters' names.
    failover: Option<String>,
}

impl Variants {
    /// None yet; their rooms will know these classes.
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &Variant> {
        self.table.iter()
    }

    pub(super) fn accuracy(&self, id: VariantId) -> f64 {
        self.get(id).map_or(0.0, |variant| variant.accuracy)
    }

    /// The variant of that public name.
    pub(super) fn named(&self, name: &str) -> Option<VariantId> {
        let place = self.table.iter().position(|known| *known.name == *name);
        place.map(|place| VariantId(place as u16))
    }

    /// The one variant that has slots, if there is but one.
    pub(super) fn only(&self) -> Option<VariantId> {
        let mut open = (0..).zip(&self.table).filter(|(_, v)| v.gate.slots() > 0);
        let (first, _) = open.next()?;
        open.next().is_none().then_some(VariantId(first))
    }

    /// What each would be for a request that takes this place in its room.
    pub(super) fn candidates(
        &self,
        class: ClassId,
        place: Place,
        avoid: Avoid,
        now: Mono,
    ) -> impl Iterator<Item = Candidate<impl Fn() -> Duration>> + Clone {
        self.table.iter().map(move |variant| Candidate {
            share: variant.share,
            has_slots: variant.gate.slots() > 0 && !avoid.bars(&variant.health),
            takes: move || variant.takes(class, place, now),
            accuracy: variant.accuracy,
        })
    }

    /// A request with this wish was refused: where it would have made it but for those who wait, slots
    /// are short. One that nobody could have served in time says nothing of them.
    pub(super) fn contend(&mut self, wish: Wish) {
        for variant in self.table.iter_mut().filter(|variant| variant.suits(wish)) {
            variant.gate.room.contend();
        }
    }

    /// How long the quickest that could serve this wish would take if nobody waited; `only` this one may.
    ///
    /// # Errors
    /// Why none could.
    pub(super) fn quickest(
        &self,
        wish: Wish,
        only: Option<VariantId>,
        avoid: Avoid,
    ) -> Result<Duration, NoRoute> {
        let allowed = (0..).zip(&self.table).filter(|(id, variant)| {
            only.is_none_or(|only| only.0 == *id) && variant.gate.slots() > 0
        });
        let mut any_slots = false;
        let times = allowed.filter_map(|(_, variant)| {
            any_slots = true;
            let able = variant.suits(wish) && !avoid.bars(&variant.health);
            able.then_some(variant.predicted.high)
        });
        match times.min() {
            Some(least) => Ok(least),
            None if any_slots => Err(NoRoute::Infeasible),
            None => Err(NoRoute::NoCapacity),
        }
    }

    /// Whether some variant of the plan could serve such a request if nobody else were there and it had all
    /// that it may be given: what it takes with what it has now says nothing, or a plan that is too small would
    /// hide the demand that it is too small for. Without a plan any request could be served.
    pub(super) fn could_serve(&self, wish: Wish) -> bool {
        let mut planned = self.table.iter().filter_map(|variant| {
            let shortest = variant.shortest?.min(variant.predicted.high);
            let heard = variant.heard.map_or(shortest, |(heard, _)| heard);
            Some((variant.accuracy, shortest.min(heard)))
        });
        let could = |(accuracy, takes): (f64, Duration)| {
            accuracy >= wish.min_accuracy && takes <= wish.left
        };
        let mut any = false;
        let could = planned.any(|one| {
            any = true;
            could(one)
        });
        could || !any
    }

    /// Renews the predictions.
    pub(super) fn predict(&mut self, now: Mono) {
        for variant in &mut self.table {
            variant.predicted = variant.observed.predict(variant.planned, now);
        }
    }

    /// What each variant's quota is.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> + '_ {
        self.table.iter().map(|variant| variant.share)
    }

    /// No variant has a share or a slot.
    pub(super) fn close(&mut self) {
        for variant in &mut self.table {
            variant.share = 0.0;
            variant.shortest = None;
            variant.gate.set_slots(0);
        }
    }

    /// Takes over a plan's variants. One the plan no longer names gets no share and no slot; its
    /// place is used again once nothing refers to it: no slot taken, and no request as `refers` says.
    pub(super) fn adopt(&mut self, plan: &Plan, refers: impl Fn(VariantId) -> bool) {
        self.close();
        let suffix = self.failover.as_deref();
        for planned in &plan.variants {
            let place = self.place(planned, plan, &refers);
            match place.and_then(|place| self.table.get_mut(place)) {
                Some(variant) => variant.follow(planned, suffix),
                None => {
                    let variant = Variant::new(planned, suffix, &self.classes);
                    self.table.push(variant);
                }
            }
        }
    }

    /// What each variant is for, as requests are routed.
    pub(super) fn offers(&self) -> impl Iterator<Item = Offer> + '_ {
        self.table.iter().map(|variant| Offer {
            share: variant.share,
            slots: variant.gate.slots(),
            accuracy: variant.accuracy,
        })
    }

    /// Rooms in which nobody waits do not wait for company either.
    pub(super) fn forget_company(&mut self) {
        for variant in &mut self.table {
            if variant.gate.room.is_empty() {
                variant.company_since = None;
            }
        }
    }

    /// Where the variant is, or else a place nothing refers to any more.
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
                !named && variant.gate.is_idle() && variant.gate.is_settled() && !refers(id)
            })
        })
    }
}

impl Variant {
    /// When the engine has to look at it by itself.
    pub(super) fn next_wake(&self, batch_wait: Option<Duration>, now: Mono) -> Option<Mono> {
        if self.gate.unsettled {
            return Some(now);
        }
        let look = (!self.gate.room.is_empty()).then(|| now + LOOK);
        let wake = self.gate.next_wake(self.predicted.high);
        let due = self.due_at(batch_wait);
        look.into_iter().chain(wake).chain(due).min()
    }

    /// The least urgent for whom a batch is to be closed though it is not full.
    pub(super) fn due(&self, batch_wait: Option<Duration>, now: Mono) -> Option<Urgency> {
        self.due_at(batch_wait).filter(|at| *at <= now)?;
        let waited = self.company_since.zip(batch_wait);
        if waited.is_some_and(|(since, wait)| since + wait <= now) {
            return Some(Urgency(u64::MAX));
        }
        Some(self.gate.room.urgency_by(now + self.batch_service()))
    }

    /// When the first who wait can wait for company no longer.
    fn due_at(&self, batch_wait: Option<Duration>) -> Option<Mono> {
        if self.batch <= 1 {
            return None;
        }
        let earliest = self.gate.room.earliest()?;
        let last = latest_start(earliest, self.batch_service());
        let since = self.company_since.zip(batch_wait);
        let patience = since.map(|(since, wait)| since + wait);
        patience.into_iter().chain([last]).min()
    }

    /// The service of a batch, and the time before by which it is closed.
    fn batch_service(&self) -> Duration {
        let service = self.predicted.high;
        service + BATCH_MARGIN.max(service / BATCH_MARGIN_PART)
    }

    /// Whether it could serve this wish if nobody waited.
    pub(super) fn suits(&self, wish: Wish) -> bool {
        self.predicted.high <= wish.left && self.accuracy >= wish.min_accuracy
    }

    /// Whether the plan in force names it.
    pub(super) fn is_planned(&self) -> bool {
        self.shortest.is_some()
    }

    /// A gate before this variant's servers says what a request takes there.
    pub(super) fn hear(&mut self, expected: Duration, now: Mono) {
        let expected = match self.heard {
            // Several gates take turns at answering: none of them for all.
            Some((before, until)) if now < until => (before * 3 + expected) / 4,
            _ => expected,
        };
        self.heard = Some((expected, now + HEARSAY));
    }

    /// An execution took, or was given up after, so long.
    pub(super) fn observe(&mut self, planned: Duration, took: Duration, now: Mono) {
        if self.observed.record(planned, took, now) {
            self.predicted = self.observed.foresee(self.planned);
        }
    }

    fn new(planned: &VariantPlan, suffix: Option<&str>, classes: &Classes) -> Variant {
        let mut variant = Variant {
            name: Rc::from(""),
            cluster: Rc::from(""),
            failover: None,
            key: Key::default(),
            planned: Duration::ZERO,
            predicted: Predicted::default(),
            batch: 1,
            cancels: false,
            gate: Gate::new(Room::new(classes)),
            uploads: 0,
            health: Health::default(),
            probed_at: None,
            company_since: None,
            landing: None,
            observed: Observed::default(),
            heard: None,
            shortest: None,
            share: 0.0,
            accuracy: 0.0,
        };
        variant.follow(planned, suffix);
        variant
    }

    fn follow(&mut self, plan: &VariantPlan, suffix: Option<&str>) {
        if *self.name != *plan.name {
            self.name = Rc::from(plan.name.as_str());
            self.key = Key::of(&plan.name);
            (self.observed, self.heard) = (Observed::default(), None);
            (self.health, self.probed_at) = (Health::default(), None);
            self.gate.sent.0.lead = Lead::default();
        }
        if *self.cluster != *plan.cluster {
            self.cluster = Rc::from(plan.cluster.as_str());
            self.failover = suffix.map(|suffix| Rc::from(plan.cluster.clone() + suffix));
        }
        let planned = Duration::from_secs_f64(plan.service_ms / 1e3);
        if planned != self.planned {
            self.gate.sent.0.lead = Lead::default();
        }
        self.planned = planned;
        self.shortest = Some(Duration::from_secs_f64(plan.service_min_ms / 1e3));
        self.predicted = self.observed.foresee(self.planned);
        self.batch = plan.batch;
        self.cancels = plan.cancels;
        self.share = plan.share.0;
        self.gate.set_slots(plan.slots);
        self.accuracy = plan.accuracy;
    }
}
