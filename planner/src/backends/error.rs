//! Failures to read or change a variant's cores: a sentence for people, and one word for conditions.

use std::time::Duration;

use weir_api::Cores;

use crate::backends::kubernetes::actuate::Unmet;
use crate::backends::kubernetes::pod::NotResizable;
use crate::backends::kubernetes::refused::Refused;

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
    #[error("the answer does not say the cores in force, {{\"cores\": 4}}: {0}")]
    Answer(String),
    #[error("it has no address where its cores are changed")]
    NoAddress,
    #[error("mode advisory changes nothing")]
    Advisory,
    #[error("this planner does not lead any more")]
    NotLeading,
    #[error("its pods are not known yet: {0}")]
    Unseen(String),
    #[error("there is no {0}")]
    NoWorkload(String),
    #[error(
        "{workload} has several containers in its template ({there}): name the model server's in workload.container"
    )]
    Unnamed { workload: String, there: String },
    #[error(
        "{workload} is left alone, as something else changes it: {who}; end that, or plan in mode advisory"
    )]
    AnotherWriter { workload: String, who: String },
    #[error("pod {pod}: {why}")]
    NotResizable { pod: String, why: NotResizable },
    #[error("pod {pod}: {why}")]
    Unmet {
        pod: String,
        why: Unmet,
        partly: bool,
    },
    #[error("{workload} is not scaled: {why}")]
    Unscaled {
        workload: String,
        why: Refused,
        partly: bool,
    },
    #[error(
        "{replicas} more replicas, each with the {template} cores that its template asks for, would be too many cores now"
    )]
    Unaffordable {
        replicas: u32,
        template: Cores,
        partly: bool,
    },
    #[error(
        "{workload} gets no more replicas: its template gives its container {container} no CPU request, so nobody knows what they would cost"
    )]
    Unpriced {
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
    Unreplaced { pod: String, why: Refused },
    #[error("pod {pod} has its cores, and its server could not be told: {why}")]
    Untuned { pod: String, why: String },
    #[error("{0}; some of it had been asked for by then")]
    Midway(Box<ActuateError>),
}

impl ActuateError {
    /// Returns the reason in one word.
    pub fn reason(&self) -> Reason {
        match self {
            ActuateError::Timeout(_) | ActuateError::Unreachable(_) | ActuateError::Answer(_) => {
                Reason::Unknown
            }
            ActuateError::Unseen(_) | ActuateError::NotLeading => Reason::Unknown,
            ActuateError::Status(..) | ActuateError::Untuned { .. } => Reason::Refused,
            ActuateError::NoAddress
            | ActuateError::Advisory
            | ActuateError::Unnamed { .. }
            | ActuateError::NotResizable { .. }
            | ActuateError::Unpriced { .. } => Reason::NotResizable,
            ActuateError::AnotherWriter { .. } => Reason::AnotherWriter,
            ActuateError::NoWorkload(_) => Reason::NoWorkload,
            ActuateError::Unaffordable { .. } => Reason::Waiting,
            ActuateError::Protected { .. } => Reason::Protected,
            ActuateError::Unmet { why, .. } => match why {
                Unmet::Refused(why) => of_refusal(why),
                Unmet::NotPatchable(_) => Reason::NotResizable,
                Unmet::Deferred(_) => Reason::Deferred,
                Unmet::Infeasible(_) => Reason::Infeasible,
                Unmet::Failed(_) => Reason::Refused,
                Unmet::Left | Unmet::NoRoom | Unmet::Late(_) => Reason::Waiting,
            },
            ActuateError::Unscaled { why, .. } | ActuateError::Unreplaced { why, .. } => {
                of_refusal(why)
            }
            ActuateError::Midway(why) => why.reason(),
        }
    }

    /// Whether the change may have taken effect all the same.
    pub fn leaves_doubt(&self) -> bool {
        match self {
            ActuateError::Timeout(_)
            | ActuateError::Unreachable(_)
            | ActuateError::Answer(_)
            | ActuateError::Untuned { .. }
            | ActuateError::Midway(_) => true,
            ActuateError::Unmet { why, partly, .. } => *partly || why.leaves_doubt(),
            ActuateError::Unscaled { why, partly, .. } => *partly || why.leaves_doubt(),
            ActuateError::Unreplaced { why, .. } => why.leaves_doubt(),
            ActuateError::Unaffordable { partly, .. }
            | ActuateError::Unpriced { partly, .. }
            | ActuateError::Protected { partly, .. } => *partly,
            ActuateError::Status(..)
            | ActuateError::NoAddress
            | ActuateError::Advisory
            | ActuateError::NotLeading
            | ActuateError::Unseen(_)
            | ActuateError::NoWorkload(_)
            | ActuateError::AnotherWriter { .. }
            | ActuateError::Unnamed { .. }
            | ActuateError::NotResizable { .. } => false,
        }
    }
}

fn of_refusal(why: &Refused) -> Reason {
    match why {
        Refused::Infeasible { .. } => Reason::Infeasible,
        Refused::Forbidden { .. } => Reason::Forbidden,
        Refused::Gone | Refused::Conflict | Refused::Throttled { .. } => Reason::Waiting,
        Refused::Invalid { .. } => Reason::Refused,
        Refused::Protected { .. } => Reason::Protected,
        Refused::NotLeading | Refused::Unreachable { .. } => Reason::Unknown,
    }
}

/// Blocker of a variant: the reason why its actual capacity is not its target.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Obstacle {
    /// Reason in one word.
    pub reason: Reason,
    /// Reason in a sentence.
    pub why: String,
}

/// Closed list of reasons, for conditions and metrics; the most urgent for an operator comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum Reason {
    /// Another controller changes the workload.
    AnotherWriter,
    /// The planner lacks permissions.
    Forbidden,
    /// The workload does not exist.
    NoWorkload,
    /// The pods cannot be resized as they are.
    NotResizable,
    /// The nodes can never hold the target.
    Infeasible,
    /// No node has room for a replica.
    Unschedulable,
    /// The node has no room now.
    Deferred,
    /// The change was sent and refused.
    Refused,
    /// A disruption budget does not let replicas go.
    Protected,
    /// A pod is being replaced because its node has no room for the target.
    Replacing,
    /// The change waits for the rate limit, for a timer, or for room in the budget.
    Waiting,
    /// The actual capacity is not known.
    Unknown,
}

impl Obstacle {
    /// Returns the blocker that an error describes.
    pub fn of(error: &ActuateError) -> Obstacle {
        Obstacle {
            reason: error.reason(),
            why: error.to_string(),
        }
    }

    /// Blocker of a variant that cannot take over load from others.
    pub fn stuck() -> Obstacle {
        Obstacle {
            reason: Reason::Waiting,
            why: "it waits: what serves can make no room for it, within budget.cores and budget.held, without carrying \
                  less of the demand"
                .to_owned(),
        }
    }
}

impl Reason {
    /// Name in conditions and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Reason::AnotherWriter => "AnotherWriter",
            Reason::Forbidden => "Forbidden",
            Reason::NoWorkload => "NoWorkload",
            Reason::NotResizable => "NotResizable",
            Reason::Infeasible => "Infeasible",
            Reason::Unschedulable => "Unschedulable",
            Reason::Deferred => "Deferred",
            Reason::Refused => "Refused",
            Reason::Protected => "Protected",
            Reason::Replacing => "Replacing",
            Reason::Waiting => "Waiting",
            Reason::Unknown => "Unknown",
        }
    }
}
