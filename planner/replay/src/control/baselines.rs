//! Baselines: other control planes as their papers, programs and products define them, one file each. Each rule is
//! pure: an observation gives target cores. [`BaselineDriver`] reads the counters, keeps within the budget,
//! requests the cores and publishes the plan. No rule knows more than its source does.

mod decision;
mod histogram;
mod hpa;
pub(crate) mod infaas;
pub(crate) mod infadapter;
pub(crate) mod per_second;
mod plans;
mod sponge;
mod unit;
mod vpa;
pub(crate) mod vpa_plus;

use std::time::Duration;

use weir_api::Cores;
use weir_solve::sponge::input::Waiting;

pub(crate) use self::decision::Rule;
use self::decision::{Change, Decision};
use self::plans::Plans;
use self::unit::Unit;
use super::kubelet::{Kubelet, Loading};
use weir_planner::capacity::{Actual, Allocation, Resize, Target};
use weir_planner::service::Service;

/// Counters of a variant: core-seconds available and used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) core_seconds: f64,
    pub(crate) busy_core_seconds: f64,
}

/// Counters and queues at the beginning of a cycle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observation {
    /// Counters of each variant.
    pub(crate) usage: Vec<Usage>,
    /// Requests that have arrived so far.
    pub(crate) arrivals: u64,
    /// Requests that wait, where the rule asks for them.
    pub(crate) waiting: Vec<Waiting>,
    /// Network latency of the request that arrived last, in ms, where the rule asks for it.
    pub(crate) network_ms: f64,
}

/// Control plane that follows a rule.
pub(crate) struct BaselineDriver {
    rule: Rule,
    service: Service,
    /// Simulated backends.
    pub(crate) kubelet: Kubelet,
    plans: Plans,
    /// Units in which the cores of each variant change.
    units: Vec<Unit>,
    /// Target cores of each variant.
    pub(crate) target: Vec<Cores>,
    /// Shares that were decided; those of the capacities if none were.
    shares: Option<Vec<f64>>,
    /// Variant and batch that were decided.
    pub(crate) batch: Option<(usize, u32)>,
}

impl BaselineDriver {
    pub(crate) fn new(rule: Rule, service: &Service, kubelet: Kubelet) -> BaselineDriver {
        let ready = kubelet.ready();
        let units = service.variants.iter().map(Unit::of);
        BaselineDriver {
            rule,
            service: service.clone(),
            plans: Plans::new(service),
            units: units.collect(),
            target: ready.iter().map(|one| one.cores()).collect(),
            kubelet,
            shares: None,
            batch: None,
        }
    }

    /// Period of its cycle.
    pub(crate) fn period(&self) -> Duration {
        self.rule.period()
    }

    /// Whether its observations need the requests that wait.
    pub(crate) fn needs_waiting(&self) -> bool {
        self.rule.needs_waiting()
    }

    /// Decides by the observation, and requests the target cores.
    pub(crate) fn run_cycle(&mut self, now: u64, seen: Observation) {
        let ready: Vec<Cores> = self.kubelet.ready().iter().map(|one| one.cores()).collect();
        let state = decision::State {
            now: Duration::from_nanos(now),
            service: &self.service,
            units: &self.units,
            confirmed: &ready,
            target: &self.target,
            changing: self.kubelet.is_changing(),
        };
        if let Some(decision) = self.rule.decide(&state, seen) {
            let change = decision.change;
            self.take(decision);
            self.request(now, change);
        }
    }

    /// Takes in a decision.
    fn take(&mut self, decision: Decision) {
        self.shares = decision.shares.or(self.shares.take());
        self.batch = decision.batch.or(self.batch);
        if let Some((variant, batch)) = self.batch
            && self.units.get(variant).is_some_and(|unit| unit.is_replica)
        {
            self.kubelet.send_batch(variant, batch);
        }
        self.retarget(&decision.steps, decision.change);
    }

    /// Requests the target cores.
    fn request(&mut self, now: u64, change: Change) {
        let loading = match change {
            Change::InPlace => Loading::InPlace,
            Change::Replicas => Loading::Replicas,
            Change::Replacement => {
                let confirmed = self
                    .kubelet
                    .confirmed()
                    .iter()
                    .zip(&self.target)
                    .enumerate();
                let loads =
                    confirmed.filter(|(_, (has, target))| has != target && **target > Cores::ZERO);
                let ready_after = loads.map(|(variant, _)| self.kubelet.ready_after(variant));
                Loading::Replacement {
                    ready_after: ready_after.max().unwrap_or_default(),
                }
            }
        };
        for (variant, (target, unit)) in self.target.iter().zip(&self.units).enumerate() {
            if !unit.is_replica {
                self.kubelet.request_loading(now, variant, *target, loading);
                continue;
            }
            let replicas = Allocation::new(target.count(unit.cores), unit.cores);
            let change = Resize {
                variant,
                target: Target::of(replicas),
                ready: self.kubelet.actual(variant).ready,
                limited: self.service.limits.is_limited(variant),
            };
            // What is refused, or has to wait, is requested again in the next cycle.
            let _ = self.kubelet.resize(now, &change);
        }
    }

    /// Sets the target cores. Replicas and pods that are resized grow only by cores of the budget that no variant
    /// has or may still have, and replicas by other resources likewise: replicas one by one, a pod wholly or not at
    /// all. A replacement is within the budget by its rule; the cores of the servers that it replaces are not
    /// counted.
    fn retarget(&mut self, desired: &[Option<u32>], change: Change) {
        let all: Vec<Actual> = self.kubelet.all().collect();
        let held: Cores = all.iter().map(|one| one.reserved).sum();
        let mut free = self.service.budget_cores().saturating_sub(held);
        let mut replicas: Vec<u32> = all.iter().map(|one| one.replicas_reserved).collect();
        let each = desired.iter().zip(&all).zip(&self.units).enumerate();
        for (index, ((desired, actual), unit)) in each {
            let Some(desired) = *desired else { continue };
            let held = actual.reserved.count(unit.cores);
            let affordable = held + free.count(unit.cores);
            let within = match change {
                Change::Replacement => desired,
                Change::InPlace if desired > affordable => continue,
                Change::InPlace => desired,
                Change::Replicas if unit.is_replica => {
                    let most = self.service.limits.max_replicas(index, &replicas);
                    desired.min(affordable).min(most)
                }
                Change::Replicas => desired.min(affordable),
            };
            free = free.saturating_sub(unit.cores.times(within.saturating_sub(held)));
            if let (true, Some(known)) = (unit.is_replica, replicas.get_mut(index)) {
                *known = within.max(*known);
            }
            if let Some(target) = self.target.get_mut(index) {
                *target = unit.cores.times(within);
            }
        }
    }

    /// Returns the plans of the stages for the ready cores that are new to the filters. The quotas of a replacement
    /// follow when all of it is ready.
    pub(crate) fn plans(&mut self, at: Duration) -> Vec<(u16, weir_api::Plan)> {
        if self.shares.is_some() && self.kubelet.is_changing() {
            return Vec::new();
        }
        let decided = (self.shares.as_deref(), self.batch);
        self.plans
            .publish(&self.service, &self.kubelet.ready(), decided, at)
    }
}
