//! The invariants of a case: at each moment, at each publication, and at an end that is not the target.

use weir_api::Cores;

use super::super::backend::Backend;
use super::super::case::Phase;
use super::super::order::some_order_does;
use super::{Play, TOLERANCE, text};
use crate::capacity::{Allocation, Target};
use crate::rollout::SERVES_AT_ALL;

impl<B: Backend> Play<'_, B> {
    /// Checks an end that is not the target.
    pub(super) fn check_end(&mut self, phase: &Phase) {
        let actual = self.backend.allocations();
        let (now, then) = (
            self.carried(&actual, phase),
            self.carried(&phase.desired, phase),
        );
        let min = now.min(1.0) - TOLERANCE;
        let used = self.backend.used();
        let is_within = used <= self.case.budget || !self.is_plan(&phase.desired);
        self.ensure(is_within, "stays above the budget", || {
            format!("{used} cores")
        });
        let reachable = some_order_does(self.case, &actual, &phase.desired, phase.demand, min);
        let at_all = match now >= phase.arriving {
            true => phase.arriving.max(SERVES_AT_ALL),
            false => now.min(SERVES_AT_ALL),
        } - TOLERANCE;
        let better = now < 1.0 - TOLERANCE
            && then > now + TOLERANCE
            && some_order_does(self.case, &actual, &phase.desired, phase.demand, at_all);
        self.ensure(!better, "stays with less", || {
            format!("{} and not {}", text(&actual), text(&phase.desired))
        });
        self.ensure(!reachable, "missed", || {
            format!("stays at {}", text(&actual))
        });
        self.counts.unreachable += 1;
    }

    /// Checks a publication: nothing that is carried is lost if it could be kept.
    pub(super) fn check_publication(
        &mut self,
        now: &[Allocation],
        published: &[Allocation],
        (phase, targets): (&Phase, &[Target]),
    ) {
        let (before, after) = (self.carried(now, phase), self.carried(published, phase));
        if after >= before.min(1.0) - TOLERANCE {
            return;
        }
        let known: Cores = self.actual.iter().map(|one| one.reserved).sum();
        if known > self.case.budget {
            return;
        }
        let targets: Vec<Allocation> = targets
            .iter()
            .map(|target| Allocation::new(target.replicas, target.each))
            .collect();
        let then = self
            .carried(&phase.desired, phase)
            .max(self.carried(&targets, phase));
        let how = || {
            format!(
                "{before} by {}, {after} by {}, then {then}",
                text(now),
                text(published)
            )
        };
        self.ensure(before < 1.0 - TOLERANCE, "loses what is carried", how);
        let serves = before < phase.arriving - TOLERANCE || after >= phase.arriving - TOLERANCE;
        self.ensure(serves, "loses what arrives", how);
        self.ensure(then > before, "loses for nothing", how);
        self.counts.freed_capacity += 1;
    }

    pub(super) fn carried(&self, allocations: &[Allocation], phase: &Phase) -> f64 {
        self.case.carried(allocations, phase.demand)
    }

    /// Whether a plan can be made for these allocations.
    pub(super) fn is_plan(&self, allocations: &[Allocation]) -> bool {
        let serves = |index: usize| allocations[index] != Allocation::NONE;
        self.case
            .stages
            .iter()
            .all(|stage| stage.clone().any(serves))
    }

    /// Extends the allowed use to what may be in use from now on.
    pub(super) fn allow(&mut self) {
        let replicas = self.backend.replicas();
        let excess = self
            .case
            .limits
            .0
            .iter()
            .map(|limit| limit.excess(&replicas));
        self.allowed = (self.backend.used().max(self.case.budget), excess.collect());
    }

    /// Checks that cores and resources in use are allowed, and that the published plan can be served.
    pub(super) fn check_use(&mut self) {
        let (used, replicas) = (self.backend.used(), self.backend.replicas());
        let is_within = used <= self.allowed.0;
        self.ensure(is_within, "above the budget", || format!("{used} cores"));
        let limits = self.case.limits.0.iter().zip(&self.allowed.1);
        let resources_fit = limits
            .into_iter()
            .all(|(limit, allowed)| limit.excess(&replicas) <= *allowed);
        self.ensure(resources_fit, "too much is held", || {
            format!("by {replicas:?}")
        });
        for index in 0..self.published.len() {
            let published = self.published[index];
            let is_actual = self.undone[index] || self.backend.serves(index, published);
            self.ensure(is_actual, "published and not there", || {
                format!("{published} of {index}")
            });
        }
    }

    pub(super) fn ensure(&mut self, holds: bool, what: &str, how: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(format!("{what}: at {} ms, {}", self.now, how()));
        }
    }
}
