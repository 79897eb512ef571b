//! A change under way, and what stands in its way. Pure.

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

/// Why a pod does not have what it is to have.
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
    /// Whether it may come to have it all the same.
    pub fn leaves_doubt(&self) -> bool {
        match self {
            Unmet::Refused(refused) => refused.leaves_doubt(),
            Unmet::NotPatchable(_) | Unmet::Left | Unmet::NoRoom => false,
            Unmet::Deferred(_) | Unmet::Infeasible(_) | Unmet::Failed(_) | Unmet::Late(_) => true,
        }
    }
}

/// A change under way.
pub(super) struct Try {
    pub(super) variant: usize,
    pub(super) dealt: Dealt,
    /// Something has been asked for, or may have been.
    pub(super) asked: bool,
    /// The answer to the scaling, if that was refused.
    pub(super) unscaled: Option<Refused>,
    /// Why fewer were taken away than are to go.
    pub(super) spared: Option<Allowed>,
    /// By uid: answers that were refusals.
    pub(super) refused: BTreeMap<String, Refused>,
    /// By uid: whose patches wait for their turn.
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

    /// What came up, after what had been asked for by then.
    pub(super) fn met(&self, error: ActuateError) -> ActuateError {
        match self.asked {
            true => ActuateError::Midway(Box::new(error)),
            false => error,
        }
    }

    /// What this pod is to have, if anything was wanted of it.
    fn wanted(&self, pod: &PodState) -> Option<Cores> {
        self.dealt.wanted.get(&pod.uid).copied().map(patch::step)
    }

    /// Whether nothing more is to be expected of this pod now.
    pub(super) fn is_decided(&self, pod: &PodState) -> bool {
        let Some(wanted) = self.wanted(pod).filter(|_| pod.stays()) else {
            return true;
        };
        match pod.desired.request == wanted {
            true => pod.resizing != Resizing::InProgress,
            // A lost answer may still turn out to have been a yes.
            false => pod.maybe.is_none(),
        }
    }

    /// What stands in this pod's way.
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
                // It was given that, and something else since.
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
