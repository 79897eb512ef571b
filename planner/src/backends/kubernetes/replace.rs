//! Chooses the pod to replace because its node has no capacity for its target, and when. Pure.
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

use super::api_failure::ApiFailure;
use super::disruption::DisruptionAllowance;
use super::distribute::WorkloadState;
use super::pod::PodState;
use crate::backends::kubernetes::actuate::{PodBlocker, WorkloadKey};

/// Maximum time a kubelet may defer a resize (the vertical pod autoscaler's `DeferredResizeUpdateTimeout`).
pub const DEFERRED_MAX: Duration = Duration::from_secs(300);
/// Maximum time a resize may be in progress, failures and retries included (its `ResizeInProgressUpdateTimeout`).
pub const IN_PROGRESS_MAX: Duration = Duration::from_secs(3600);
/// Wait between two replacements in a workload, if the first did not help.
pub const AGAIN_AFTER: Duration = Duration::from_secs(300);
/// Maximum to which that wait doubles.
const AGAIN_MAX: Duration = Duration::from_secs(4800);
/// Wait after a refused eviction.
pub const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// Reasons why a pod is not replaced, although it does not have its target cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ReplacementBlocker {
    #[error("it is replaced in {}", seconds(.0))]
    NotYet(Duration),
    #[error(
        "it is not replaced, as no other pod of {0} serves meanwhile: let it have two replicas"
    )]
    Alone(String),
    #[error("it is not replaced while another pod of {0} ends or starts")]
    Busy(String),
    #[error("it is not replaced: the {0} cores of another one would exceed the budget now")]
    OverBudget(Cores),
    #[error("it is not replaced: PodDisruptionBudget {0} lets none of its pods go now")]
    Protected(String),
    #[error("replacing another pod did not help; it is replaced in {}", seconds(.0))]
    BackingOff(Duration),
    #[error("it could not be replaced: {why}; it is tried again in {}", seconds(.again))]
    Refused { why: ApiFailure, again: Duration },
    #[error(
        "it is not replaced: the template gives the container no CPU request, so nobody knows what another one costs"
    )]
    NoTemplateRequest,
}

fn seconds(duration: &Duration) -> String {
    format!("{} s", duration.as_secs().max(1))
}

/// State that keeps a pod from its target cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockedResize {
    Never,
    Deferred,
    InProgress,
}

impl BlockedResize {
    fn of(blocker: &PodBlocker) -> Option<BlockedResize> {
        match blocker {
            PodBlocker::Infeasible(_) | PodBlocker::Refused(ApiFailure::Infeasible { .. }) => {
                Some(BlockedResize::Never)
            }
            PodBlocker::Deferred(_) => Some(BlockedResize::Deferred),
            PodBlocker::Failed(_) | PodBlocker::Late(_) => Some(BlockedResize::InProgress),
            PodBlocker::Refused(_)
            | PodBlocker::NotPatchable(_)
            | PodBlocker::RateLimited
            | PodBlocker::OverBudget => None,
        }
    }

    /// Returns how long that state may last.
    const fn timeout(self) -> Duration {
        match self {
            BlockedResize::Never => Duration::ZERO,
            BlockedResize::Deferred => DEFERRED_MAX,
            BlockedResize::InProgress => IN_PROGRESS_MAX,
        }
    }
}

/// Replacement state of all workloads.
#[derive(Debug, Clone, Default)]
pub(super) struct Replacements {
    /// State of each blocked pod and when it began, by uid.
    blocked: BTreeMap<String, (BlockedResize, Instant)>,
    /// Pods that plans no longer count on, by uid, with their workload.
    retired: BTreeMap<String, WorkloadKey>,
    /// Backoff by workload.
    backoffs: BTreeMap<WorkloadKey, Backoff>,
}

/// Result of the last replacement.
#[derive(Debug, Clone)]
struct Backoff {
    last: Instant,
    /// Wait after it until the next one.
    wait: Duration,
    refused: Option<ApiFailure>,
}

impl Backoff {
    /// Returns the reason to wait, until the wait is over.
    fn blocker(&self, now: Instant) -> Option<ReplacementBlocker> {
        let left = (self.last + self.wait).saturating_duration_since(now);
        let blocker = match self.refused.clone() {
            None => ReplacementBlocker::BackingOff(left),
            Some(why) => ReplacementBlocker::Refused { why, again: left },
        };
        Some(blocker).filter(|_| !left.is_zero())
    }
}

impl Replacements {
    /// Records the blocker of a pod, or that it has none.
    pub(super) fn record(&mut self, pod: &PodState, blocker: Option<&PodBlocker>, now: Instant) {
        let Some(state) = blocker.and_then(BlockedResize::of) else {
            self.blocked.remove(&pod.uid);
            return;
        };
        let entry = self.blocked.entry(pod.uid.clone()).or_insert((state, now));
        if entry.0 != state {
            *entry = (state, now);
        }
    }

    /// Records that all pods of a workload have their targets: the replacement has helped.
    pub(super) fn reset_backoff(&mut self, workload: &WorkloadKey) {
        self.backoffs.remove(workload);
    }

    /// Forgets which pods of a workload were to be replaced; the backoff stays.
    pub(super) fn restart(&mut self, workload: &WorkloadKey) {
        self.retired.retain(|_, of| of != workload);
    }

    /// Whether plans no longer count on this pod.
    pub(super) fn is_retired(&self, uid: &str) -> bool {
        self.retired.contains_key(uid)
    }

    /// Records that a pod's eviction was refused: plans count on it again.
    pub(super) fn record_refused_eviction(
        &mut self,
        workload: &WorkloadKey,
        uid: &str,
        why: ApiFailure,
        now: Instant,
    ) {
        self.retired.remove(uid);
        let backoff = Backoff {
            last: now,
            wait: REFUSED_AGAIN,
            refused: Some(why),
        };
        self.backoffs.insert(workload.clone(), backoff);
    }

    /// Chooses the pod of a workload to replace; plans no longer count on it. Returns the same pod until it ends.
    /// `None` if no pod is blocked.
    pub(super) fn retire(
        &mut self,
        key: &WorkloadKey,
        workload: &WorkloadState,
        spare: Cores,
        allowed: Option<&DisruptionAllowance>,
        now: Instant,
    ) -> Option<Result<PodState, ReplacementBlocker>> {
        let waits = |pod: &&PodState| !pod.ending && !pod.ended && self.is_retired(&pod.uid);
        if let Some(pod) = workload.pods.iter().find(waits) {
            return Some(Ok(pod.clone()));
        }
        let staying = || workload.pods.iter().filter(|pod| pod.stays());
        let left = |pod: &PodState| {
            let (state, since) = self.blocked.get(&pod.uid)?;
            let until = *since + state.timeout();
            Some(until.saturating_duration_since(now))
        };
        let each = staying().filter_map(|pod| Some((left(pod)?, pod)));
        let (left, pod) = each.min_by_key(|(left, _)| *left)?;
        let may = || {
            if !left.is_zero() {
                return Err(ReplacementBlocker::NotYet(left));
            }
            if !staying().any(|other| other.ready && other.uid != pod.uid) {
                return Err(ReplacementBlocker::Alone(key.to_string()));
            }
            let all = workload.pods.len() == workload.replicas as usize
                && workload.pending_replicas.is_none()
                && workload.leaving == 0;
            if !all || staying().any(|other| !other.ready && other.uid != pod.uid) {
                return Err(ReplacementBlocker::Busy(key.to_string()));
            }
            if workload.template == Cores::ZERO {
                return Err(ReplacementBlocker::NoTemplateRequest);
            }
            if workload.template
                > spare
                    + pod
                        .reserved()
                        .saturating_sub(pod.without_growth().reserved())
            {
                return Err(ReplacementBlocker::OverBudget(workload.template));
            }
            if let Some(allowed) = allowed.filter(|allowed| allowed.pods == 0) {
                return Err(ReplacementBlocker::Protected(allowed.budget.clone()));
            }
            let backoff = self.backoffs.get(key);
            match backoff.and_then(|backoff| backoff.blocker(now)) {
                Some(blocker) => Err(blocker),
                None => Ok(pod.clone()),
            }
        };
        let chosen = may();
        if chosen.is_ok() {
            self.retired.insert(pod.uid.clone(), key.clone());
            let done = |backoff: &&Backoff| backoff.refused.is_none();
            let before = self.backoffs.get(key).filter(done);
            let wait = before.map_or(AGAIN_AFTER, |backoff| backoff.wait * 2);
            let backoff = Backoff {
                last: now,
                wait: wait.min(AGAIN_MAX),
                refused: None,
            };
            self.backoffs.insert(key.clone(), backoff);
        }
        Some(chosen)
    }

    /// Forgets deleted pods.
    pub(super) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.blocked.retain(|uid, _| exists(uid));
        self.retired.retain(|uid, _| exists(uid));
    }
}

#[cfg(test)]
mod tests;
