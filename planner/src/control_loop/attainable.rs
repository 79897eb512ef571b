//! The service file and observations → the service that decisions are made for.

use std::sync::Arc;
use std::time::Duration;

use super::Planner;
use crate::service::{Service, Variant};

/// Cycles from a sample until a replica that is started for it loads, and until the next ones are decided on.
const LEAD_CYCLES: u32 = 2;
/// Time for which a variant has failed before its cores are moved: most outages are shorter, such as the restart of a server.
const MOVES_AFTER: Duration = Duration::from_secs(10);

impl Planner {
    /// The service as it can be had now: a variant whose nodes are full is limited to its actual cores, measured
    /// readiness times replace those of the service file, and one that has been failing for some time counts as without
    /// capacity. It keeps the fewest cores that it can be tried with.
    pub(super) fn attainable(&self) -> Arc<Service> {
        self.attainable_of(&self.service)
    }

    /// The same of a service with another budget.
    pub(super) fn attainable_of(&self, service: &Arc<Service>) -> Arc<Service> {
        let learnt: Vec<Option<Duration>> = self.learnt();
        let out = self.out_of_service();
        let is_any = self.rollout.full.iter().any(Option::is_some)
            || learnt.iter().any(Option::is_some)
            || out.contains(&true);
        if !is_any {
            return Arc::clone(service);
        }
        let mut service = Service::clone(service);
        let known = self
            .rollout
            .actual
            .iter()
            .zip(&self.rollout.full)
            .zip(learnt.into_iter().zip(out));
        for (variant, ((actual, full), (learnt, out))) in service.variants.iter_mut().zip(known) {
            let actual_cores = actual.ready.each().count(variant.step);
            if full.is_some() {
                variant.max = actual_cores.clamp(variant.min.max(1), variant.max);
            }
            variant.readiness = learnt.unwrap_or(variant.readiness);
            if out {
                variant.profile.utilisation = 0.0;
                if actual.replicas() > 0 {
                    variant.min = variant.min.max(1);
                    variant.replicas.min = variant.replicas.min.max(1);
                }
            }
        }
        Arc::new(service)
    }

    /// Variants that have been failing for [`MOVES_AFTER`] while another one of their stage does not fail. Where all fail,
    /// moving cores helps nobody.
    pub(super) fn out_of_service(&self) -> Vec<bool> {
        let since = self.observations.failing_since();
        let mut out: Vec<bool> = since
            .iter()
            .map(|since| since.is_some_and(|since| self.now.saturating_sub(since) >= MOVES_AFTER))
            .collect();
        for stage in &self.service.stages {
            let serves = since.get(stage.variants.clone());
            let serves = serves.is_some_and(|all| all.iter().any(Option::is_none));
            if !serves && let Some(out) = out.get_mut(stage.variants.clone()) {
                out.fill(false);
            }
        }
        out
    }

    /// Time until replicas that start now serve, by the slowest variant that serves or starts, and until further ones could
    /// serve: a start takes effect after up to a cycle, and the next ones are decided on a cycle later.
    pub(super) fn lead(&self) -> Duration {
        let variants = self.service.variants.iter().zip(self.learnt());
        let used = variants
            .zip(&self.rollout.actual)
            .filter(|(_, actual)| actual.replicas() > 0);
        let readiness = used.map(|((variant, learnt), _)| learnt.unwrap_or(variant.readiness));
        readiness.max().unwrap_or_default() + self.service.cycle * LEAD_CYCLES
    }

    /// Measured readiness time of each variant, if it differs from the service file's.
    fn learnt(&self) -> Vec<Option<Duration>> {
        let each = self.service.variants.iter().enumerate();
        let learnt = |(index, variant): (usize, &Variant)| {
            let (configured, cycle) = (variant.readiness, self.service.cycle);
            self.measured.readiness.learnt(index, configured, cycle)
        };
        each.map(learnt).collect()
    }
}
