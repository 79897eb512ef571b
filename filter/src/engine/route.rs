//! Routing: by quota on arrival, by accuracy when the variant can no longer answer in time.

use std::time::Duration;

use weir_api::metrics::Metric;

use super::health::Avoid;
use super::{Engine, Request};
use crate::config::Role;
use crate::reason::Reason;
use crate::routing::router::{self, NoRoute, Requirements, RouteChoice};
use crate::stats::Label;
use crate::time::{Mono, Now};
use crate::variant::VariantId;

impl Engine {
    /// Chooses the variant for a request, by role: a gate has no choice. `arrives`: the request may be the
    /// trial of a failing variant.
    ///
    /// # Errors
    /// The reason why none fits.
    pub(super) fn choose(
        &mut self,
        request: &Request,
        arrives: bool,
        now: Now,
    ) -> Result<VariantId, Reason> {
        let requirements = request.requirements(now.mono);
        let class = request.class;
        let place = request.place();
        if self.config.role == Role::Gate {
            let id = self.gate_variant(request).ok_or(Reason::NoCapacity)?;
            let only = (self.variants).candidates(class, place, Avoid::None, now.mono);
            let only = only.skip(usize::from(id.0)).take(1);
            return router::best(only, requirements).map(|_| id).map_err(reason);
        }
        let avoid = self.avoid(requirements);
        if arrives && let Some(trial) = self.take_trial(requirements, avoid, now.mono) {
            return Ok(trial);
        }
        let candidates = self.variants.candidates(class, place, avoid, now.mono);
        let RouteChoice {
            variant,
            instead_of,
        } = self
            .router
            .choose(candidates, requirements)
            .map_err(reason)?;
        let chosen = VariantId(variant as u16);
        if let Some(before) = instead_of {
            self.downgraded(VariantId(before as u16), chosen);
        }
        Ok(chosen)
    }

    /// Most accurate other variant that can still answer in time; a gate has no other.
    pub(super) fn downgrade_target(&mut self, request: &Request, now: Now) -> Option<VariantId> {
        if self.config.role == Role::Gate {
            return None;
        }
        let from = usize::from(request.variant.0);
        let avoid = self.avoid(request.requirements(now.mono));
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

    /// Variant behind this gate: the configured one, or the one named by a router, or the only one.
    pub(super) fn gate_variant(&self, request: &Request) -> Option<VariantId> {
        let own = self.config.variant.as_deref();
        match own {
            Some(name) => self.variants.named(name),
            None => request.named.or_else(|| self.variants.only()),
        }
    }

    /// Shortest service time among the variants that may serve a request, without waiting.
    ///
    /// # Errors
    /// The reason why none could serve it in time.
    pub(super) fn quickest(&self, request: &Request, now: Now) -> Result<Duration, Reason> {
        let only = match self.config.role {
            Role::Gate => Some(self.gate_variant(request).ok_or(Reason::NoCapacity)?),
            Role::Both | Role::Router => None,
        };
        let requirements = request.requirements(now.mono);
        let avoid = self.avoid(requirements);
        self.variants
            .quickest(requirements, only, avoid)
            .map_err(reason)
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
    pub(super) fn requirements(&self, now: Mono) -> Requirements {
        Requirements {
            left: self.due.since(now),
            min_accuracy: self.min_accuracy,
        }
    }
}

fn reason(no_route: NoRoute) -> Reason {
    match no_route {
        NoRoute::NoCapacity => Reason::NoCapacity,
        NoRoute::Infeasible => Reason::Infeasible,
    }
}
