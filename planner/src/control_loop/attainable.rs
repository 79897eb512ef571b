//! The service file and observations → the service that decisions are made for.

use std::sync::Arc;
use std::time::Duration;

use super::Planner;
use crate::service::{Service, Variant};

/// Cycles from a sample until a replica that is started for it loads, and until the next ones are decided on.
const LEAD_CYCLES: u32 = 2;

impl Planner {
    /// The service as it can be had now: a variant whose nodes are full is limited to its actual cores, and measured
    /// readiness times replace those of the service file.
    pub(super) fn attainable(&self) -> Arc<Service> {
        self.attainable_of(&self.service)
    }

    /// The same of a service with another budget.
    pub(super) fn attainable_of(&self, service: &Arc<Service>) -> Arc<Service> {
        let learnt: Vec<Option<Duration>> = self.learnt();
        if self.rollout.full.iter().all(Option::is_none) && learnt.iter().all(Option::is_none) {
            return Arc::clone(service);
        }
        let mut service = Service::clone(service);
        let known = self
            .rollout
            .actual
            .iter()
            .zip(&self.rollout.full)
            .zip(learnt);
        for (variant, ((actual, full), learnt)) in service.variants.iter_mut().zip(known) {
            let actual_cores = actual.ready.each().count(variant.step);
            if full.is_some() {
                variant.max = actual_cores.clamp(variant.min.max(1), variant.max);
            }
            variant.readiness = learnt.unwrap_or(variant.readiness);
        }
        Arc::new(service)
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
