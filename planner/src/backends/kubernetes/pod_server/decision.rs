//! Decision by the state of a pod that gets a number of cores: patch it, wait, or end. Pure.

use weir_api::Cores;

use super::PodServerError;
use crate::backends::kubernetes::actuate::PodBlocker;
use crate::backends::kubernetes::api_failure::ApiFailure;
use crate::backends::kubernetes::patch::{self, Change, NotPatchable};
use crate::backends::kubernetes::pod::{ActuatedCpu, PodState, Resizing};

/// Progress of one resize.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Whether a patch was accepted.
    pub(super) accepted: bool,
    /// State of the resize before the patch.
    pub(super) stale: Option<Resizing>,
    /// Whether the kubelet has confirmed the cores.
    pub(super) confirmed: bool,
    /// Failure of the last request.
    pub(super) failure: Option<ApiFailure>,
}

/// Next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// The pod is to be patched.
    Patch(Change),
    /// The kubelet has not confirmed it yet, or the pod is not ready.
    Wait,
    /// The pod is ready with the target cores.
    Done,
}

/// Decides by the pod's state. `possible` are the requests that this program may have given it.
pub(super) fn next(
    pod: &PodState,
    target: Cores,
    possible: &[Cores],
    progress: &Progress,
) -> Result<Next, PodServerError> {
    let blocked = |why| PodServerError::Blocked { cores: target, why };
    if !pod.stays() {
        return Err(blocked(PodBlocker::NotPatchable(NotPatchable::Ending)));
    }
    check_limit(pod)?;
    check_support(pod)?;
    let request = pod.desired.request;
    if request != target {
        if progress.accepted || !possible.contains(&request) {
            return Err(PodServerError::OtherWriter(request));
        }
        let change = patch::change(pod, target);
        let change = change.map_err(|why| blocked(PodBlocker::NotPatchable(why)))?;
        return Ok(change.map_or(Next::Wait, Next::Patch));
    }
    // Kubernetes 1.33 does not say which generation a condition is of.
    let is_stale = pod.observed.is_none() && progress.stale.as_ref() == Some(&pod.resizing);
    if is_stale && pod.resizing != Resizing::Settled {
        return Ok(Next::Wait);
    }
    match pod.resizing.clone() {
        Resizing::Settled if pod.ready && pod.actual == ActuatedCpu::Has(pod.desired) => {
            Ok(Next::Done)
        }
        Resizing::Settled | Resizing::InProgress => Ok(Next::Wait),
        Resizing::Deferred { why } => Err(blocked(PodBlocker::Deferred(why))),
        Resizing::Infeasible { why } => Err(blocked(PodBlocker::Infeasible(why))),
        Resizing::Failed { why } => Err(blocked(PodBlocker::Failed(why))),
    }
}

/// Refuses a container whose limit is not its request.
pub(super) fn check_limit(pod: &PodState) -> Result<(), PodServerError> {
    let request = pod.desired.request;
    let limit = match pod.desired.limit {
        Some(limit) if limit == request => return Ok(()),
        Some(limit) => format!("a limit of {limit}"),
        None => "no limit".to_owned(),
    };
    Err(PodServerError::Unlimited {
        container: pod.container.clone(),
        request,
        limit,
    })
}

/// Refuses a pod whose node does not report its amounts.
pub(super) fn check_support(pod: &PodState) -> Result<(), PodServerError> {
    let why = PodBlocker::NotPatchable(NotPatchable::NoSupport);
    match pod.actual {
        ActuatedCpu::Untold => Err(PodServerError::Blocked {
            cores: pod.desired.request,
            why,
        }),
        _ => Ok(()),
    }
}
