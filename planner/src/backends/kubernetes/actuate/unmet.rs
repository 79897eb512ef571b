//! Change in progress, and its blockers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_api::Cores;

use crate::backends::ActuateError;
use crate::backends::kubernetes::deal::{Dealt, Refusals};
use crate::backends::kubernetes::disruption::Allowed;
use crate::backends::kubernetes::pace::{PATCHES_MAX_PER_S, POD_PATCHES_MAX, POD_WINDOW};
use crate::backends::kubernetes::patch::{self, NotPatchable};
use crate::backends::kubernetes::pod::{PodState, Resizing};
use crate::backends::kubernetes::refused::Refused;

/// Reasons why a pod does not have its target cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum Unmet {
    #[error("{0}")]
    Refused(Refused),
    #[error("{0}")]
    NotPatchable(NotPatchable),
    #[error(
        "it waits for its turn: there are at most {PATCHES_MAX_PER_S} patches a second, and {POD_PATCHES_MAX} of a pod in {POD_WINDOW:?}"
    )]
    Left,
    #[error("it would be too many cores before other pods have gone or have less")]
    NoRoom,
    #[error("its node has no room now, and its kubelet tries again by itself: {0}")]
    Deferred(String),
    #[error("its node can never hold it: {0}")]
    Infeasible(String),
    #[error("its kubelet failed: {0}")]
    Failed(String),
    #[error("not actuated within {0:?}")]
    Late(Duration),
}

impl Unmet {
    /// Whether it may still get them.
    pub fn leaves_doubt(&self) -> bool {
        match self {
            Unmet::Refused(refused) => refused.leaves_doubt(),
            Unmet::NotPatchable(_) | Unmet::Left | Unmet::NoRoom => false,
            Unmet::Deferred(_) | Unmet::Infeasible(_) | Unmet::Failed(_) | Unmet::Late(_) => true,
        }
    }
}

/// Change in progress.
pub(super) struct Try {
    pub(super) variant: usize,
    pub(super) dealt: Dealt,
    /// Whether anything has been sent, or may have been.
    pub(super) asked: bool,
    /// Answer to the scaling, if it was refused.
    pub(super) unscaled: Option<Refused>,
    /// Disruption budget that limited the scale-down.
    pub(super) spared: Option<Allowed>,
    /// Refusals by pod uid.
    pub(super) refused: BTreeMap<String, Refused>,
    /// Uids of pods whose patches wait for the rate limit.
    pub(super) left: BTreeSet<String>,
}

impl Try {
    pub(super) fn new(variant: usize, dealt: Dealt) -> Try {
        Try {
            variant,
            dealt,
            asked: false,
            unscaled: None,
            spared: None,
            refused: BTreeMap::new(),
            left: BTreeSet::new(),
        }
    }

    /// Adds to an error whether part of the change had been sent before it.
    pub(super) fn met(&self, error: ActuateError) -> ActuateError {
        match self.asked {
            true => ActuateError::Midway(Box::new(error)),
            false => error,
        }
    }

    /// Returns the target cores of this pod, if it has any.
    fn wanted(&self, pod: &PodState) -> Option<Cores> {
        self.dealt.wanted.get(&pod.uid).copied().map(patch::step)
    }

    /// Whether nothing more is expected of this pod now.
    pub(super) fn is_decided(&self, pod: &PodState) -> bool {
        let Some(wanted) = self.wanted(pod).filter(|_| pod.stays()) else {
            return true;
        };
        match pod.desired.request == wanted {
            true => pod.resizing != Resizing::InProgress,
            // A patch without an answer may still have been applied.
            false => pod.maybe.is_none(),
        }
    }

    /// Returns the blocker of this pod.
    pub(super) fn unmet(
        &self,
        pod: &PodState,
        refusals: &Refusals,
        timeout: Duration,
    ) -> Option<Unmet> {
        let wanted = self.wanted(pod)?;
        if pod.desired.request != wanted {
            if let Some(why) = self.dealt.unpatchable.get(&pod.uid) {
                return Some(Unmet::NotPatchable(why.clone()));
            }
            let refused = self.refused.get(&pod.uid);
            if let Some(why) = refused.or_else(|| refusals.of(pod, wanted)) {
                return Some(Unmet::Refused(why.clone()));
            }
            return Some(if self.left.contains(&pod.uid) {
                Unmet::Left
            } else if self.dealt.waiting.contains(&pod.uid) {
                Unmet::NoRoom
            } else {
                // It was applied, and something else has changed the pod since.
                Unmet::Refused(Refused::Conflict)
            });
        }
        match pod.resizing.clone() {
            Resizing::Settled => None,
            Resizing::Deferred { why } => Some(Unmet::Deferred(why)),
            Resizing::Infeasible { why } => Some(Unmet::Infeasible(why)),
            Resizing::Failed { why } => Some(Unmet::Failed(why)),
            Resizing::InProgress => Some(Unmet::Late(timeout)),
        }
    }
}
