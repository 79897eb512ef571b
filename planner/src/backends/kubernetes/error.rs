//! Failures to read or change pods, with the details that only Kubernetes has; the port gets them in neutral terms.

use weir_api::Cores;

use super::actuate::PodBlocker;
use super::api_failure::ApiFailure;
use super::pod::NotResizable;
use super::watch::WatchFailure;
use crate::backends::{ActuateError, BackendError, Reason};

/// Reasons why a variant's pods could not be read or changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum KubeError {
    #[error(transparent)]
    Port(#[from] ActuateError),
    #[error("{kinds} cannot be listed: {why}; until they are known, nothing is scaled or resized")]
    Unlisted {
        kinds: &'static str,
        why: WatchFailure,
    },
    #[error("there is no {0}")]
    NoWorkload(String),
    #[error(
        "{workload} has several containers in its template ({containers}): name the model server's in workload.container"
    )]
    Unnamed {
        workload: String,
        containers: String,
    },
    #[error(
        "{workload} is left alone, as something else changes it: {who}; end that, or plan in mode advisory"
    )]
    ConflictingWriter { workload: String, who: String },
    #[error("pod {pod}: {why}")]
    NotResizable { pod: String, why: NotResizable },
    #[error("pod {pod}: {why}")]
    PodBlocked {
        pod: String,
        why: PodBlocker,
        partly: bool,
    },
    #[error("{workload} is not scaled: {why}")]
    NotScaled {
        workload: String,
        why: ApiFailure,
        partly: bool,
    },
    #[error(
        "{replicas} more replicas, each with the {template} cores that its template asks for, would be too many cores now"
    )]
    OverBudget {
        replicas: u32,
        template: Cores,
        partly: bool,
    },
    #[error(
        "{workload} gets no more replicas: its template gives its container {container} no CPU request, so nobody knows what they would cost"
    )]
    NoTemplateRequest {
        workload: String,
        container: String,
        partly: bool,
    },
    #[error(
        "{workload} keeps replicas that are to go: PodDisruptionBudget {budget} does not let so many go now; they go as it allows"
    )]
    Protected {
        workload: String,
        budget: String,
        partly: bool,
    },
    #[error("pod {pod} is to be replaced, and stays: {why}")]
    NotReplaced { pod: String, why: ApiFailure },
    #[error("pod {pod} has its cores, and its server could not be reconfigured: {why}")]
    NotReconfigured { pod: String, why: String },
    #[error("{0}; some of it had been requested by then")]
    PartlyApplied(Box<KubeError>),
}

impl KubeError {
    fn reason(&self) -> Reason {
        match self {
            KubeError::Port(error) => error.reason(),
            KubeError::Unlisted { .. } => Reason::NotObserved,
            KubeError::NoWorkload(_) => Reason::NoWorkload,
            KubeError::Unnamed { .. }
            | KubeError::NotResizable { .. }
            | KubeError::NoTemplateRequest { .. } => Reason::NotResizable,
            KubeError::ConflictingWriter { .. } => Reason::ConflictingWriter,
            KubeError::PodBlocked { why, .. } => of_blocker(why),
            KubeError::NotScaled { why, .. } | KubeError::NotReplaced { why, .. } => {
                of_failure(why)
            }
            KubeError::OverBudget { .. } => Reason::Waiting,
            KubeError::Protected { .. } => Reason::Protected,
            KubeError::NotReconfigured { .. } => Reason::NotReconfigured,
            KubeError::PartlyApplied(why) => why.reason(),
        }
    }

    /// Whether the change may have taken effect, in part or as a whole.
    fn may_have_applied(&self) -> bool {
        match self {
            KubeError::Port(error) => error.may_have_applied(),
            KubeError::NotReconfigured { .. } | KubeError::PartlyApplied(_) => true,
            KubeError::PodBlocked { why, partly, .. } => *partly || why.may_have_applied(),
            KubeError::NotScaled { why, partly, .. } => *partly || why.may_have_applied(),
            KubeError::NotReplaced { why, .. } => why.may_have_applied(),
            KubeError::OverBudget { partly, .. }
            | KubeError::NoTemplateRequest { partly, .. }
            | KubeError::Protected { partly, .. } => *partly,
            KubeError::NoWorkload(_)
            | KubeError::Unlisted { .. }
            | KubeError::ConflictingWriter { .. }
            | KubeError::Unnamed { .. }
            | KubeError::NotResizable { .. } => false,
        }
    }
}

fn of_blocker(blocker: &PodBlocker) -> Reason {
    match blocker {
        PodBlocker::Refused(why) => of_failure(why),
        PodBlocker::NotPatchable(_) => Reason::NotResizable,
        PodBlocker::Deferred(_) => Reason::Deferred,
        PodBlocker::Infeasible(_) => Reason::Infeasible,
        PodBlocker::Failed(_) => Reason::Refused,
        PodBlocker::RateLimited | PodBlocker::OverBudget | PodBlocker::Late(_) => Reason::Waiting,
    }
}

fn of_failure(failure: &ApiFailure) -> Reason {
    match failure {
        ApiFailure::Infeasible { .. } => Reason::Infeasible,
        ApiFailure::Forbidden { .. } => Reason::Forbidden,
        ApiFailure::NotFound | ApiFailure::Conflict | ApiFailure::Throttled { .. } => {
            Reason::Waiting
        }
        ApiFailure::Invalid { .. } => Reason::Refused,
        ApiFailure::Protected { .. } => Reason::Protected,
        ApiFailure::NotLeading | ApiFailure::Unreachable { .. } => Reason::Unknown,
    }
}

impl From<KubeError> for ActuateError {
    fn from(error: KubeError) -> ActuateError {
        match error {
            KubeError::Port(error) => error,
            error => ActuateError::Backend(BackendError {
                reason: error.reason(),
                message: error.to_string(),
                indeterminate: error.may_have_applied(),
            }),
        }
    }
}
