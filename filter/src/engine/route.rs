//! Routing: by quota on arrival, by accuracy when the variant can no longer answer in time; by the request's list
//! where it has one.

use weir_api::metrics::Metric;

use super::health::Avoid;
use super::{Engine, Request};
use crate::config::Role;
use crate::reason::Reason;
use crate::routing::router::{self, NoRoute, Requirements, RouteChoice};
use crate::stats::Label;
use crate::time::{Mono, Now, Span};
use crate::variant::VariantId;

impl Engine {
    /// Chooses the variant for a request, by role: a gate has no choice. `arrives`: the request may be the
    /// trial of a failing variant.
    ///
    /// # Errors
    /// The reason why none fits.
    pub(super) fn choose(
        &mut self,
        request: &mut Request,
        arrives: bool,
        now: Now,
    ) -> Result<VariantId, Reason> {
        let class = request.class;
        let place = request.place();
        if self.config.role == Role::Gate {
            let id = self.gate_variant(request).ok_or(Reason::NoCapacity)?;
            let mut only = (self.variants).candidates(class, place, Avoid::None, now.mono);
            let only = only.nth(usize::from(id.0));
            return router::best(only.into_iter(), request.requirements(now.mono))
                .map(|_| id)
                .map_err(|no_route| self.reason(no_route, request));
        }
        if request.list.is_some() {
            return self.choose_listed(request, arrives, None, now);
        }
        let requirements = request.requirements(now.mono);
        let avoid = self.avoid(requirements, request.client());
        let all = (0..self.variants.len()).map(VariantId);
        if arrives && let Some(trial) = self.take_trial(requirements, avoid, all.clone(), now.mono)
        {
            return Ok(trial);
        }
        let candidates = self.variants.candidates(class, place, avoid, now.mono);
        let chosen = self.router.choose(candidates, requirements);
        if arrives
            && chosen.is_err()
            && let Some(silent) = self.silent_to_try(requirements, avoid, all)
        {
            return Ok(silent);
        }
        let RouteChoice {
            variant,
            instead_of,
        } = chosen.map_err(|no_route| self.reason(no_route, request))?;
        let chosen = VariantId(variant as u16);
        if let Some(before) = instead_of {
            self.downgraded(VariantId(before as u16), chosen);
        }
        Ok(chosen)
    }

    /// Variant with a free place for a request that is predicted to be late everywhere: a place that is free costs nobody
    /// anything, and only what the server lately did speaks against a try.
    pub(super) fn try_idle(&self, request: &Request, now: Mono) -> Option<VariantId> {
        // Without corrections the planned times hold.
        if !self.owns_slots() || !self.config.correct {
            return None;
        }
        let requirements = request.requirements(now);
        let avoid = self.avoid(requirements, request.client());
        let only = match self.config.role {
            Role::Gate => Some(self.gate_variant(request)?),
            Role::Both | Role::Router => None,
        };
        self.variants.tried(requirements, only, avoid, now)
    }

    /// Chooses the first variant of the request's list that can serve it, and records why those before it cannot.
    /// `except`: the variant that it leaves.
    fn choose_listed(
        &mut self,
        request: &mut Request,
        arrives: bool,
        except: Option<VariantId>,
        now: Now,
    ) -> Result<VariantId, Reason> {
        let requirements = request.requirements(now.mono);
        let avoid = self.avoid(requirements, request.client());
        let mut list = *request.list();
        let candidates =
            (self.variants).candidates(request.class, request.place(), avoid, now.mono);
        let streams = request.uploading && self.owns_slots();
        let stream = request.shape.upload;
        let table = self.variants.iter();
        let candidates = candidates.zip(table).map(|(mut candidate, variant)| {
            candidate.streams_full = streams && variant.has_max_uploads(stream);
            candidate
        });
        let chosen = (self.router).choose_listed(&mut list, candidates, requirements, except);
        let failing = list;
        let trial = arrives.then(|| {
            let trial = self.take_trial(requirements, avoid, failing.failing(), now.mono);
            let is_lost = trial.is_none() && chosen.is_err();
            let silent =
                is_lost.then(|| self.silent_to_try(requirements, avoid, failing.failing()));
            trial.or(silent.flatten())
        });
        if let Some(trial) = trial.flatten() {
            list.serve_by(trial);
        }
        if let Some(recorded) = request.list_mut() {
            *recorded = list;
        }
        let chosen = trial.flatten().map_or(chosen, Ok);
        let chosen = chosen.map_err(|no_route| self.reason(no_route, request))?;
        let before = if arrives {
            list.passed_over()
        } else {
            Some(request.variant)
        };
        if let Some(before) = before {
            self.downgraded(before, chosen);
        }
        Ok(chosen)
    }

    /// Records why no variant of its list can serve a request, before it is refused.
    pub(super) fn record_skips(&mut self, request: &mut Request, now: Now) {
        let before = request.list.clone();
        if before.is_some() && self.choose_listed(request, false, None, now).is_ok() {
            // Only at its deadline, by a variant whose service time is unknown.
            request.list = before;
        }
    }

    /// Variant for a request that is late at its own: the next of its list that can still answer in time, else the
    /// most accurate other one. A gate has no other.
    pub(super) fn downgrade_target(
        &mut self,
        request: &mut Request,
        now: Now,
    ) -> Option<VariantId> {
        if self.config.role == Role::Gate {
            return None;
        }
        if request.list.is_some() {
            let except = Some(request.variant);
            return self.choose_listed(request, false, except, now).ok();
        }
        let from = usize::from(request.variant.0);
        let avoid = self.avoid(request.requirements(now.mono), request.client());
        let candidates = self
            .variants
            .candidates(request.class, request.place(), avoid, now.mono);
        let others = candidates.enumerate().map(|(index, mut candidate)| {
            candidate.has_slots &= index != from;
            candidate
        });
        let found = router::best(others, request.requirements(now.mono)).ok()?;
        let found = VariantId(found as u16);
        self.downgraded(request.variant, found);
        Some(found)
    }

    /// Variant behind this gate: the configured one, or the router's choice, or the only one.
    pub(super) fn gate_variant(&self, request: &Request) -> Option<VariantId> {
        let own = self.config.variant.as_deref();
        match own {
            Some(name) => self.variants.named(name),
            None => request.routed_to.or_else(|| self.variants.only()),
        }
    }

    /// Shortest time before the deadline at which a variant that may serve a request must start, without waiting.
    ///
    /// # Errors
    /// The reason why none could serve it in time.
    pub(super) fn quickest(&self, request: &Request, now: Now) -> Result<Span, Reason> {
        let only = match self.config.role {
            Role::Gate => Some(self.gate_variant(request).ok_or(Reason::NoCapacity)?),
            Role::Both | Role::Router => None,
        };
        let requirements = request.requirements(now.mono);
        let avoid = self.avoid(requirements, request.client());
        let tries = self.config.correct;
        self.variants
            .quickest(requirements, (only, tries), avoid, now.mono)
            .map_err(|no_route| self.reason(no_route, request))
    }

    /// Reason of a refusal because no variant was chosen.
    fn reason(&self, no_route: NoRoute, request: &Request) -> Reason {
        match no_route {
            NoRoute::StreamsFull => Reason::QueueFull,
            _ if self.demands_too_much(request) => Reason::Accuracy,
            NoRoute::NoCapacity => Reason::NoCapacity,
            NoRoute::Infeasible => Reason::Infeasible,
        }
    }

    fn downgraded(&mut self, from: VariantId, to: VariantId) {
        if self.variants.accuracy(to) >= self.variants.accuracy(from) {
            return;
        }
        self.stats
            .count(Metric::DowngradedFrom, Label::Variant(from));
        self.stats.count(Metric::DowngradedTo, Label::Variant(to));
    }
}

impl Request {
    /// Its requirements of a variant as of `now`.
    pub(super) fn requirements(&self, now: Mono) -> Requirements<'_> {
        Requirements {
            left: self.due.since(now),
            min_accuracy: self.min_accuracy,
            list: self.list(),
            after: now.since(self.arrived.mono),
            group: self.group(),
        }
    }
}
