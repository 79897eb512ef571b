//! Baselines: other control planes as their papers, programs and products define them, one file each. Each rule is
//! pure: an observation gives target cores. [`BaselineDriver`] reads the counters, keeps within the budget,
//! requests the cores and publishes the plan. No rule knows more than its source does.

mod decision;
mod histogram;
mod hpa;
pub(crate) mod infadapter;
pub(crate) mod per_second;
mod sponge;
mod vpa;
pub(crate) mod vpa_plus;

use std::time::Duration;

use weir_api::plan::HOUR_MS;
use weir_api::{Cores, Plan};
use weir_solve::sponge::input::Waiting;

pub(crate) use self::decision::Rule;
use self::decision::{Change, Decision};
use super::kubelet::{Kubelet, Loading};
use crate::EPOCH_MS;
use weir_planner::capacity::Allocation;
use weir_planner::clock::Now;
use weir_planner::distribution::Publisher;
use weir_planner::plan::Draft;
use weir_planner::profile::Profile;
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
    publisher: Publisher,
    /// Target cores of each variant.
    pub(crate) target: Vec<Cores>,
    /// Shares that were decided; those of the capacities if none were.
    shares: Option<Vec<f64>>,
    /// Variant and batch that were decided.
    pub(crate) batch: Option<(usize, u32)>,
}

impl BaselineDriver {
    pub(crate) fn new(rule: Rule, service: &Service, kubelet: Kubelet) -> BaselineDriver {
        BaselineDriver {
            rule,
            service: service.clone(),
            publisher: Publisher::new(service),
            target: kubelet.confirmed().to_vec(),
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
        let changing = self.kubelet.is_changing();
        let state = decision::State {
            now: Duration::from_nanos(now),
            service: &self.service,
            confirmed: self.kubelet.confirmed(),
            target: &self.target,
            changing,
        };
        let Some(Decision {
            steps,
            change,
            shares,
            batch,
        }) = self.rule.decide(&state, seen)
        else {
            return;
        };
        (self.shares, self.batch) = (shares.or(self.shares.take()), batch.or(self.batch));
        self.retarget(&steps, change);
        let target = self.target.clone();
        let loading = match change {
            Change::InPlace => Loading::InPlace,
            Change::Replicas => Loading::Replicas,
            Change::Replacement => {
                let confirmed = self.kubelet.confirmed().iter().zip(&target).enumerate();
                let loads =
                    confirmed.filter(|(_, (has, target))| has != target && **target > Cores::ZERO);
                let ready_after = loads.map(|(variant, _)| self.kubelet.ready_after(variant));
                Loading::Replacement {
                    ready_after: ready_after.max().unwrap_or_default(),
                }
            }
        };
        for (index, target) in target.iter().enumerate() {
            self.kubelet.request_loading(now, index, *target, loading);
        }
    }

    /// Sets the target cores. Replicas and pods that are resized grow only by cores of the budget that no variant
    /// has or may still have: replicas one by one, a pod wholly or not at all. A replacement is within the budget by
    /// its rule; the cores of the servers that it replaces are not counted.
    fn retarget(&mut self, steps: &[Option<u32>], change: Change) {
        let step = self.service.step;
        let held = self.kubelet.held();
        let held: Vec<u32> = held.map(|cores| cores.count(step)).collect();
        let mut free = self.service.budget.saturating_sub(held.iter().sum());
        for (index, (desired, held)) in steps.iter().zip(held).enumerate() {
            let Some(desired) = *desired else { continue };
            let within = match change {
                Change::Replacement => desired,
                Change::Replicas => desired.min(held + free),
                Change::InPlace if desired > held + free => continue,
                Change::InPlace => desired,
            };
            free = free.saturating_sub(within.saturating_sub(held));
            if let Some(target) = self.target.get_mut(index) {
                *target = step.times(within);
            }
        }
    }

    /// Returns the plan for the confirmed cores, if it is new to the filters. The quotas of a replacement follow
    /// when all of it is ready.
    pub(crate) fn plan(&mut self, at: Duration) -> Option<Plan> {
        if self.shares.is_some() && self.kubelet.is_changing() {
            return None;
        }
        let actual = Allocation::ones(self.kubelet.confirmed());
        let mut draft = weir_planner::plan::draft(&self.service, &actual, None)?;
        self.amend(&mut draft);
        let ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let now = Now {
            at,
            unix_ms: EPOCH_MS.saturating_add(ms),
        };
        let receipt = self.publisher.publish(draft, now).ok()?;
        let newest = self.publisher.newest().filter(|_| receipt.new > 0)?;
        Some(newest.plan.clone())
    }

    /// Puts the decided shares and batch into a draft.
    fn amend(&self, draft: &mut Draft) {
        if let Some(shares) = &self.shares {
            for (part, share) in draft.variants.iter_mut().zip(shares) {
                part.share.0 = *share;
            }
        }
        let Some((index, batch)) = self.batch else {
            return;
        };
        if let (Some(part), Some(variant), Some(cores)) = (
            draft.variants.get_mut(index),
            self.service.variants.get(index),
            self.kubelet.confirmed().get(index),
        ) {
            let profile = Profile {
                batch,
                ..variant.profile
            };
            part.batch = batch;
            part.slots = profile.slots(*cores);
            part.service_ms = profile.service_ms(*cores).min(HOUR_MS as f64);
        }
    }
}
