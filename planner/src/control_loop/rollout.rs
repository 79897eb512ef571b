//! State of the rollout: the actual capacity, the changes under way, and their blockers.

use std::time::Duration;

use weir_api::Cores;

use super::batches::Batches;
use crate::backends::{ActuateError, Blocker, Reason};
use crate::capacity::{Actual, Allocation};
use crate::error_log::ErrorLog;
use crate::policy::scale_down::ScaleDownStabilizer;
use crate::rollout::{Detour, UnderWay};
use crate::service::{Fallback, Service};

/// Time for which a variant whose nodes are full is planned with its actual cores (`fallback: move`). Adding a node
/// takes about as long.
pub const FULL_NODES_RETRY_AFTER: Duration = Duration::from_secs(60);

/// State of the rollout, kept from cycle to cycle. All lists are in the order of the variants.
#[derive(Debug)]
pub(super) struct Rollout {
    /// Actual state of each variant.
    pub(super) actual: Vec<Actual>,
    /// Variants whose actual state is known from their backends, or cannot be reported.
    observed: Vec<bool>,
    /// Allocations that the published plan counts on; empty before the first.
    pub(super) out: Vec<Allocation>,
    pub(super) stabilizer: ScaleDownStabilizer,
    pub(super) under_way: UnderWay,
    pub(super) detour: Detour,
    pub(super) batches: Batches,
    /// Blocker of each variant in this cycle.
    pub(super) blockers: Vec<Option<Blocker>>,
    /// Variants whose nodes are full, which are planned with at most their actual cores until that time.
    pub(super) full: Vec<Option<(Duration, Blocker)>>,
    /// Variant with a pod to be replaced whose replacement has not been confirmed.
    pub(super) retired: Option<usize>,
}

impl Rollout {
    /// Creates the state before the first cycle.
    pub(super) fn new(service: &Service) -> Rollout {
        let variants = service.variants.len();
        let initial = service.variants.iter();
        Rollout {
            actual: initial
                .map(|variant| match variant.workload {
                    // The pods report the actual state; nothing is counted on before.
                    Some(_) => Actual::default(),
                    None => Actual::certain(variant.initial),
                })
                .collect(),
            observed: vec![false; variants],
            out: Vec::new(),
            stabilizer: ScaleDownStabilizer::new(variants),
            under_way: UnderWay::new(variants),
            detour: Detour::default(),
            batches: Batches::new(variants),
            blockers: vec![None; variants],
            full: vec![None; variants],
            retired: None,
        }
    }

    /// Takes in the backends' answers at `at`; a variant without one keeps its last state.
    pub(super) fn observe(
        &mut self,
        service: &Service,
        answers: Vec<Option<Result<Actual, ActuateError>>>,
        at: Duration,
        troubles: &mut ErrorLog,
    ) {
        let blockers = self.blockers.iter_mut().zip(&mut self.full);
        let known = self.actual.iter_mut().zip(&mut self.observed).zip(blockers);
        let lists = answers.into_iter().zip(&service.variants).zip(known);
        for ((answer, variant), ((actual, observed), (known, full))) in lists {
            full.take_if(|(until, _)| *until <= at);
            *known = full.as_ref().map(|(_, blocker)| blocker.clone());
            let who = format!("cores of {}", variant.name);
            match answer {
                Some(Ok(reported)) => {
                    troubles.went_well(&who);
                    *actual = reported;
                    *observed = true;
                }
                Some(Err(error)) => {
                    troubles.failed(&who, &error, "those known last hold");
                    *known = Some(Blocker::of(&error));
                }
                // Cores that nobody reports are those of the service, unless pods report them.
                None => *observed |= variant.workload.is_none(),
            }
        }
        self.under_way.see(&self.actual);
    }

    /// Allocations that plans may count on.
    pub(super) fn ready(&self) -> Vec<Allocation> {
        self.actual.iter().map(|actual| actual.ready).collect()
    }

    /// Cores reserved by all variants; `None` until each has been observed.
    pub(super) fn reserved(&self) -> Option<Cores> {
        let all = self.observed.iter().all(|observed| *observed);
        all.then(|| self.actual.iter().map(|actual| actual.reserved).sum())
    }

    /// Whether a requested change has not been confirmed yet.
    pub(super) fn awaits_changes(&self) -> bool {
        let is_certain = |one: &Actual| one.reserved <= one.ready.cores();
        !self.actual.iter().all(is_certain)
    }

    /// Whether an actual state has changed; the following steps need not wait for the next cycle.
    pub(super) fn is_news(&self, answers: &[Option<Result<Actual, ActuateError>>]) -> bool {
        let mut each = answers.iter().zip(&self.actual);
        each.any(|(answer, known)| matches!(answer, Some(Ok(actual)) if actual != known))
    }

    /// Records the blocker of a variant; with `fallback: move`, also that its nodes are full.
    pub(super) fn obstructed(
        &mut self,
        service: &Service,
        variant: usize,
        blocker: Blocker,
        at: Duration,
    ) {
        let is_full = matches!(
            blocker.reason,
            Reason::Deferred | Reason::Infeasible | Reason::Unschedulable
        );
        let moves = service.fallback == Fallback::Move;
        if let Some(full) = self.full.get_mut(variant).filter(|_| is_full && moves) {
            *full = Some((at + FULL_NODES_RETRY_AFTER, blocker.clone()));
        }
        if let Some(known) = self.blockers.get_mut(variant) {
            *known = Some(blocker);
        }
    }
}
