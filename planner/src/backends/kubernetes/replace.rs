//! Chooses the pod to replace because its node has no room for its target, and when. Pure.
//!
//! Follows the vertical pod autoscaler's `InPlaceOrRecreate` and its timeouts: at once if the node can never hold the
//! target, after [`DEFERRED_MAX`] if the kubelet defers it, after [`IN_PROGRESS_MAX`] if it does not finish. Only one
//! pod of a workload at a time, only while other pods of it serve, and only if the budget covers the new pod beside
//! the ending one. The new pod starts with its template's cores and is resized like any other. It may be scheduled on
//! the same node; therefore the wait doubles from one replacement to the next, until all pods have their targets.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use weir_api::Cores;

use super::deal::Seen;
use super::disruption::Allowed;
use super::pod::PodState;
use super::refused::Refused;
use crate::backends::kubernetes::actuate::Unmet;

/// Maximum time a kubelet may defer a resize (the vertical pod autoscaler's `DeferredResizeUpdateTimeout`).
pub const DEFERRED_MAX: Duration = Duration::from_secs(300);
/// Maximum time a resize may be in progress, failures and retries included (its `ResizeInProgressUpdateTimeout`).
pub const IN_PROGRESS_MAX: Duration = Duration::from_secs(3600);
/// Wait between two replacements in a workload, if the first did not help.
pub const AGAIN_AFTER: Duration = Duration::from_secs(300);
/// Maximum to which that wait doubles.
pub const AGAIN_MAX: Duration = Duration::from_secs(4800);
/// Wait after a refused eviction.
pub const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// Reasons why a pod is not replaced, although it does not have its target cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum Kept {
    #[error("it is replaced in {}", seconds(.0))]
    NotYet(Duration),
    #[error(
        "it is not replaced, as no other pod of {0} serves meanwhile: let it have two replicas"
    )]
    Alone(String),
    #[error("it is not replaced while another pod of {0} ends or starts")]
    Busy(String),
    #[error("it is not replaced: the {0} cores of another one would exceed the budget now")]
    NoRoom(Cores),
    #[error("it is not replaced: PodDisruptionBudget {0} lets none of its pods go now")]
    Protected(String),
    #[error("replacing another pod did not help; it is replaced in {}", seconds(.0))]
    Lately(Duration),
    #[error("it could not be replaced: {why}; it is tried again in {}", seconds(.again))]
    Refused { why: Refused, again: Duration },
    #[error(
        "it is not replaced: the template gives the container no CPU request, so nobody knows what another one costs"
    )]
    Unpriced,
}

fn seconds(duration: &Duration) -> String {
    format!("{} s", duration.as_secs().max(1))
}

/// State that keeps a pod from its target cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stuck {
    Never,
    Deferred,
    InProgress,
}

impl Stuck {
    fn of(unmet: &Unmet) -> Option<Stuck> {
        match unmet {
            Unmet::Infeasible(_) | Unmet::Refused(Refused::Infeasible { .. }) => Some(Stuck::Never),
            Unmet::Deferred(_) => Some(Stuck::Deferred),
            Unmet::Failed(_) | Unmet::Late(_) => Some(Stuck::InProgress),
            Unmet::Refused(_) | Unmet::NotPatchable(_) | Unmet::Left | Unmet::NoRoom => None,
        }
    }

    /// Returns how long that state may last.
    const fn patience(self) -> Duration {
        match self {
            Stuck::Never => Duration::ZERO,
            Stuck::Deferred => DEFERRED_MAX,
            Stuck::InProgress => IN_PROGRESS_MAX,
        }
    }
}

/// Replacement state of all workloads.
#[derive(Debug, Clone, Default)]
pub(super) struct Replacing {
    /// State of each blocked pod and when it began, by uid.
    stuck: BTreeMap<String, (Stuck, Instant)>,
    /// Pods that plans no longer count on, by uid.
    retired: BTreeMap<String, Instant>,
    /// Backoff by variant.
    paces: BTreeMap<usize, Pace>,
}

/// Result of the last replacement.
#[derive(Debug, Clone)]
struct Pace {
    last: Instant,
    /// Wait after it until the next one.
    wait: Duration,
    refused: Option<Refused>,
}

impl Pace {
    /// Returns the reason to wait, until the wait is over.
    fn kept(&self, now: Instant) -> Option<Kept> {
        let left = (self.last + self.wait).saturating_duration_since(now);
        let kept = match self.refused.clone() {
            None => Kept::Lately(left),
            Some(why) => Kept::Refused { why, again: left },
        };
        Some(kept).filter(|_| !left.is_zero())
    }
}

impl Replacing {
    /// Records the blocker of a pod, or that it has none.
    pub(super) fn see(&mut self, pod: &PodState, unmet: Option<&Unmet>, now: Instant) {
        let Some(stuck) = unmet.and_then(Stuck::of) else {
            self.stuck.remove(&pod.uid);
            return;
        };
        let entry = self.stuck.entry(pod.uid.clone()).or_insert((stuck, now));
        if entry.0 != stuck {
            *entry = (stuck, now);
        }
    }

    /// Records that all pods of a variant have their targets: the replacement has helped.
    pub(super) fn settled(&mut self, variant: usize) {
        self.paces.remove(&variant);
    }

    /// Whether plans no longer count on this pod.
    pub(super) fn is_retired(&self, uid: &str) -> bool {
        self.retired.contains_key(uid)
    }

    /// Records that a pod's eviction was refused: plans count on it again.
    pub(super) fn keep(&mut self, variant: usize, uid: &str, why: Refused, now: Instant) {
        self.retired.remove(uid);
        let pace = Pace {
            last: now,
            wait: REFUSED_AGAIN,
            refused: Some(why),
        };
        self.paces.insert(variant, pace);
    }

    /// Chooses the pod of a variant to replace; plans no longer count on it. Returns the same pod until it ends.
    /// `None` if no pod is blocked. `label` names the workload in messages.
    pub(super) fn retire(
        &mut self,
        variant: usize,
        label: &str,
        seen: &Seen,
        room: Cores,
        allowed: Option<&Allowed>,
        now: Instant,
    ) -> Option<Result<PodState, Kept>> {
        let waits = |pod: &&PodState| !pod.ending && !pod.ended && self.is_retired(&pod.uid);
        if let Some(pod) = seen.pods.iter().find(waits) {
            return Some(Ok(pod.clone()));
        }
        let staying = || seen.pods.iter().filter(|pod| pod.stays());
        let left = |pod: &PodState| {
            let (stuck, since) = self.stuck.get(&pod.uid)?;
            let until = *since + stuck.patience();
            Some(until.saturating_duration_since(now))
        };
        let each = staying().filter_map(|pod| Some((left(pod)?, pod)));
        let (left, pod) = each.min_by_key(|(left, _)| *left)?;
        let may = || {
            if !left.is_zero() {
                return Err(Kept::NotYet(left));
            }
            if !staying().any(|other| other.ready && other.uid != pod.uid) {
                return Err(Kept::Alone(label.to_owned()));
            }
            let all = seen.pods.len() == seen.replicas as usize
                && seen.maybe.is_none()
                && seen.leaving == 0;
            if !all || staying().any(|other| !other.ready && other.uid != pod.uid) {
                return Err(Kept::Busy(label.to_owned()));
            }
            if seen.template == Cores::ZERO {
                return Err(Kept::Unpriced);
            }
            if seen.template > room + pod.at_most().saturating_sub(pod.without_wish().at_most()) {
                return Err(Kept::NoRoom(seen.template));
            }
            if let Some(allowed) = allowed.filter(|allowed| allowed.pods == 0) {
                return Err(Kept::Protected(allowed.budget.clone()));
            }
            let pace = self.paces.get(&variant);
            match pace.and_then(|pace| pace.kept(now)) {
                Some(kept) => Err(kept),
                None => Ok(pod.clone()),
            }
        };
        let chosen = may();
        if chosen.is_ok() {
            self.retired.insert(pod.uid.clone(), now);
            let done = |pace: &&Pace| pace.refused.is_none();
            let before = self.paces.get(&variant).filter(done);
            let wait = before.map_or(AGAIN_AFTER, |pace| pace.wait * 2);
            let pace = Pace {
                last: now,
                wait: wait.min(AGAIN_MAX),
                refused: None,
            };
            self.paces.insert(variant, pace);
        }
        Some(chosen)
    }

    /// Forgets pods that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.stuck.retain(|uid, _| is_there(uid));
        self.retired.retain(|uid, _| is_there(uid));
    }
}

#[cfg(test)]
mod tests;
