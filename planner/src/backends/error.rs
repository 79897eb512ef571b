//! Failures to read or change a variant's cores: a sentence for people, and one word for conditions.

use std::time::Duration;

/// Reasons why cores could not be read or changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ActuateError {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("not reachable: {0}")]
    Unreachable(String),
    #[error("status {0}, not 200: {1}")]
    Status(u16, String),
    #[error("the answer does not give the actual cores, {{\"cores\": 4}}: {0}")]
    Answer(String),
    #[error("it has no address where its cores are changed")]
    NoAddress,
    #[error("mode advisory changes nothing")]
    Advisory,
    #[error("this planner does not lead any more")]
    NotLeading,
    #[error("its pods are not known yet: {0}")]
    NotObserved(String),
    #[error(transparent)]
    Backend(BackendError),
}

/// Failure that only one kind of backend knows, in neutral terms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    /// Reason in one word.
    pub reason: Reason,
    /// Reason in a sentence.
    pub message: String,
    /// Whether the change may have taken effect all the same.
    pub indeterminate: bool,
}

/// Reason, in a sentence, why a backend does not replace the blocked part of a variant now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotReplaced(pub String);

impl ActuateError {
    /// Returns the reason in one word.
    pub fn reason(&self) -> Reason {
        match self {
            ActuateError::Timeout(_)
            | ActuateError::Unreachable(_)
            | ActuateError::Answer(_)
            | ActuateError::NotObserved(_)
            | ActuateError::NotLeading => Reason::Unknown,
            ActuateError::Status(..) => Reason::Refused,
            ActuateError::NoAddress | ActuateError::Advisory => Reason::NotResizable,
            ActuateError::Backend(error) => error.reason,
        }
    }

    /// Whether the change may have taken effect all the same.
    pub fn may_have_applied(&self) -> bool {
        match self {
            ActuateError::Timeout(_) | ActuateError::Unreachable(_) | ActuateError::Answer(_) => {
                true
            }
            ActuateError::Backend(error) => error.indeterminate,
            // A proxy on the way may have given up on a server that carries it out, such as with 504.
            ActuateError::Status(status, _) => *status >= 500,
            ActuateError::NoAddress
            | ActuateError::Advisory
            | ActuateError::NotLeading
            | ActuateError::NotObserved(_) => false,
        }
    }
}

/// Blocker of a variant: the reason why its actual capacity is not its target.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Blocker {
    /// Reason in one word.
    pub reason: Reason,
    /// Reason in a sentence.
    pub why: String,
}

/// Closed list of reasons, for conditions and metrics; the most urgent for an operator comes first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[schemars(rename = "BlockerReason")]
pub enum Reason {
    /// Another controller changes the workload.
    ConflictingWriter,
    /// The planner lacks permissions.
    Forbidden,
    /// It is not known whether another controller changes the workload.
    NotObserved,
    /// The workload does not exist.
    NoWorkload,
    /// The pods cannot be resized as they are.
    NotResizable,
    /// The nodes can never hold the target.
    Infeasible,
    /// No node has capacity for a replica.
    Unschedulable,
    /// The node has no capacity now.
    Deferred,
    /// The change was sent and refused.
    Refused,
    /// A server has not confirmed its cores.
    NotReconfigured,
    /// A disruption budget does not let replicas go.
    Protected,
    /// A pod is being replaced because its node has no capacity for the target.
    Replacing,
    /// The change waits for the rate limit, for a timer, or for free budget.
    Waiting,
    /// The actual capacity is not known.
    Unknown,
}

impl Blocker {
    /// Returns the blocker that an error describes.
    pub fn of(error: &ActuateError) -> Blocker {
        Blocker {
            reason: error.reason(),
            why: error.to_string(),
        }
    }

    /// Blocker of a variant that cannot take over load from others.
    pub fn rollout_blocked() -> Blocker {
        Blocker {
            reason: Reason::Waiting,
            why: "it waits: what serves cannot free capacity for it, within budget.cores and budget.resources, without carrying \
                  less of the demand"
                .to_owned(),
        }
    }
}

impl Reason {
    /// Name in conditions and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Reason::ConflictingWriter => "ConflictingWriter",
            Reason::Forbidden => "Forbidden",
            Reason::NotObserved => "NotObserved",
            Reason::NoWorkload => "NoWorkload",
            Reason::NotResizable => "NotResizable",
            Reason::Infeasible => "Infeasible",
            Reason::Unschedulable => "Unschedulable",
            Reason::Deferred => "Deferred",
            Reason::Refused => "Refused",
            Reason::NotReconfigured => "NotReconfigured",
            Reason::Protected => "Protected",
            Reason::Replacing => "Replacing",
            Reason::Waiting => "Waiting",
            Reason::Unknown => "Unknown",
        }
    }
}
