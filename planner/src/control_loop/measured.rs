//! Durations that are measured while the service runs: of starts, of resizes and of executions.

use std::time::Duration;

use super::group_times::GroupTimes;
use super::horizon::Horizon;
use super::readiness::Readiness;
use super::service_times::ServiceTimes;
use crate::capacity::{Actual, Resize};
use crate::service::Service;

/// Measured durations, kept from cycle to cycle.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) readiness: Readiness,
    pub(super) horizon: Horizon,
    pub(super) service_times: ServiceTimes,
    pub(super) group_times: GroupTimes,
}

impl Measured {
    /// Creates the record of a service that has measured nothing.
    pub(super) fn new(service: &Service) -> Measured {
        let variants = service.variants.len();
        Measured {
            readiness: Readiness::new(variants),
            horizon: Horizon::new(variants),
            service_times: ServiceTimes::new(&service.variants),
            group_times: GroupTimes::new(variants),
        }
    }

    /// Records a change requested at `at`.
    pub(super) fn requested(&mut self, change: &Resize, at: Duration) {
        self.readiness.record_request(change, at);
        self.horizon.record_request(change, at);
    }

    /// Drops the pending change of a variant after its refusal.
    pub(super) fn refused(&mut self, variant: usize) {
        self.readiness.refused(variant);
        self.horizon.refused(variant);
    }

    /// Takes in the actual state at `at`.
    pub(super) fn observe(&mut self, actual: &[Actual], at: Duration) {
        self.readiness.see(actual, at);
        self.horizon.see(actual, at);
    }
}
