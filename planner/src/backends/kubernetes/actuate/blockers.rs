//! Change in progress, and its blockers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_api::Cores;

use crate::backends::kubernetes::api_failure::ApiFailure;
use crate::backends::kubernetes::disruption::DisruptionAllowance;
use crate::backends::kubernetes::distribute::{PodChanges, Refusals};
use crate::backends::kubernetes::error::KubeError;
use crate::backends::kubernetes::patch::{self, NotPatchable};
use crate::backends::kubernetes::pod::{PodState, Resizing};
use crate::backends::kubernetes::rate_limit::{PATCHES_MAX_PER_S, POD_PATCHES_MAX, POD_WINDOW};

/// Reasons why a pod does not have its target cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum PodBlocker {
    #[error("{0}")]
    Refused(ApiFailure),
    #[error("{0}")]
    NotPatchable(NotPatchable),
    #[error(
        "it waits for its turn: there are at most {PATCHES_MAX_PER_S} patches a second, and {POD_PATCHES_MAX} of a pod in {POD_WINDOW:?}"
    )]
    RateLimited,
    #[error("it would be too many cores before other pods have gone or have less")]
    OverBudget,
    #[error("its node has no capacity now, and its kubelet tries again by itself: {0}")]
    Deferred(String),
    #[error("its node can never hold it: {0}")]
    Infeasible(String),
    #[error("its kubelet failed: {0}")]
    Failed(String),
    #[error("not actuated within {0:?}")]
    Late(Duration),
}

impl PodBlocker {
    /// Whether it may still get them.
    pub fn may_have_applied(&self) -> bool {
        match self {
            PodBlocker::Refused(refused) => refused.may_have_applied(),
            PodBlocker::NotPatchable(_) | PodBlocker::RateLimited | PodBlocker::OverBudget => false,
            PodBlocker::Deferred(_)
            | PodBlocker::Infeasible(_)
            | PodBlocker::Failed(_)
            | PodBlocker::Late(_) => true,
        }
    }
}

/// Change in progress.
pub(super) struct Attempt {
    pub(super) variant: usize,
    pub(super) changes: PodChanges,
    /// Whether anything has been sent, or may have been.
    pub(super) sent: bool,
    /// Answer to the scaling, if it was refused.
    pub(super) scaling_failure: Option<ApiFailure>,
    /// Disruption budget that limited the scale-down.
    pub(super) pdb_limit: Option<DisruptionAllowance>,
    /// Refusals by pod uid.
    pub(super) failures: BTreeMap<String, ApiFailure>,
    /// Uids of pods whose patches wait for the rate limit.
    pub(super) rate_limited: BTreeSet<String>,
}

impl Attempt {
    pub(super) fn new(variant: usize, changes: PodChanges) -> Attempt {
        Attempt {
            variant,
            changes,
            sent: false,
            scaling_failure: None,
            pdb_limit: None,
            failures: BTreeMap::new(),
            rate_limited: BTreeSet::new(),
        }
    }

    /// Adds to an error whether part of the change had been sent before it.
    pub(super) fn with_progress(&self, error: KubeError) -> KubeError {
        match self.sent {
            true => KubeError::PartlyApplied(Box::new(error)),
            false => error,
        }
    }

    /// Returns the target cores of this pod, if it has any.
    fn target_cores(&self, pod: &PodState) -> Option<Cores> {
        self.changes
            .target_cores
            .get(&pod.uid)
            .copied()
            .map(patch::step)
    }

    /// Whether nothing more is expected of this pod now.
    pub(super) fn is_decided(&self, pod: &PodState) -> bool {
        let Some(target_cores) = self.target_cores(pod).filter(|_| pod.stays()) else {
            return true;
        };
        match pod.desired.request == target_cores {
            true => pod.resizing != Resizing::InProgress,
            // A patch without an answer may still have been applied.
            false => pod.pending.is_none(),
        }
    }

    /// Returns the blocker of this pod.
    pub(super) fn blocker(
        &self,
        pod: &PodState,
        refusals: &Refusals,
        timeout: Duration,
    ) -> Option<PodBlocker> {
        let target_cores = self.target_cores(pod)?;
        if pod.desired.request != target_cores {
            if let Some(why) = self.changes.unpatchable.get(&pod.uid) {
                return Some(PodBlocker::NotPatchable(why.clone()));
            }
            let refused = self.failures.get(&pod.uid);
            if let Some(why) = refused.or_else(|| refusals.of(pod, target_cores)) {
                return Some(PodBlocker::Refused(why.clone()));
            }
            return Some(if self.rate_limited.contains(&pod.uid) {
                PodBlocker::RateLimited
            } else if self.changes.waiting.contains(&pod.uid) {
                PodBlocker::OverBudget
            } else {
                // It was applied, and something else has changed the pod since.
                PodBlocker::Refused(ApiFailure::Conflict)
            });
        }
        match pod.resizing.clone() {
            Resizing::Settled => None,
            Resizing::Deferred { why } => Some(PodBlocker::Deferred(why)),
            Resizing::Infeasible { why } => Some(PodBlocker::Infeasible(why)),
            Resizing::Failed { why } => Some(PodBlocker::Failed(why)),
            Resizing::InProgress => Some(PodBlocker::Late(timeout)),
        }
    }
}
