//! What becomes of a request: the closed list of verdicts and reasons, and how each is answered.
//! One table serves the answer, the counter and the README.

use std::rc::Rc;
use std::time::Duration;

use crate::gate::VariantId;
use crate::time::Wall;

/// What the shell is to do with a request. Every request gets exactly one answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Let it through untouched, by Envoy's own routes: there is no plan to go by.
    Pass,
    /// Send it upstream now.
    Forward(Dispatch),
    /// Hold it; a later verdict follows for the same stream.
    Park,
    /// Answer it here.
    Reject(Refusal),
}

/// Where a request goes and what the next hop is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// The variant, for the metrics.
    pub variant: VariantId,
    /// Its public name (`x-slo-variant`).
    pub name: Rc<str>,
    /// Its Envoy cluster (`x-slo-cluster`); a gate leaves the route as it is.
    pub cluster: Option<Rc<str>>,
    /// Time left (`x-slo-remaining-ms`).
    pub remaining: Duration,
    /// What becomes of `x-slo-stage-ms`.
    pub stage: Stage,
    /// Time after which the answer is of no use to the client (this Envoy's router's timeout); an event
    /// stream may go on longer, once it has begun.
    pub timeout: Option<Duration>,
    /// When the client's time is up (`x-slo-deadline`).
    pub deadline: Wall,
    /// Whether `grpc-timeout` is rewritten: the request came with one.
    pub grpc_timeout: bool,
    /// The class it gets instead of the one it asked for (`x-slo-class`).
    pub class: Option<Rc<str>>,
    /// Most times that this Envoy's router may send it again.
    pub retries_max: u8,
}

/// `x-slo-stage-ms`, as the next hop gets it. To set or remove a header costs a call into the host: the
/// shell is told where there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// None came, and this is the last stage, or the only one.
    Absent,
    /// What came with the request was another stage's, or a client's: it is removed.
    Foreign,
    /// What this stage of a pipeline may take.
    Left(Duration),
}

/// Why a request was not served, and when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// `retry-after`, in whole seconds, with the reasons that shed load.
    pub retry_after_s: Option<u32>,
    /// Whether the client speaks gRPC: it is answered with trailers only.
    pub grpc: bool,
    /// What a gate says that a request takes there (`x-slo-expected-ms`): the router before it learns most
    /// from those that did not get through.
    pub expected: Option<Duration>,
}

impl Refusal {
    /// A refusal, for a client that speaks gRPC or plain HTTP.
    #[must_use]
    pub fn new(reason: Reason, grpc: bool) -> Refusal {
        let retry_after_s = (reason.status() == 429).then_some(RETRY_AFTER_S);
        Refusal {
            reason,
            retry_after_s,
            grpc,
            expected: None,
        }
    }
}

/// `retry-after` of shed requests, s: the least the header can say; by then the planner, which
/// turns once a second, has seen the load.
pub const RETRY_AFTER_S: u32 = 1;

/// Why a request was refused: `x-slo-dropped-reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its deadline was past on arrival, or came while it was held or served.
    Expired,
    /// No allowed variant can finish in time.
    Infeasible,
    /// As many requests are held as may be.
    QueueFull,
    /// Its class holds as many as it may.
    ClassLimit,
    /// Its source holds as many as it may.
    SourceLimit,
    /// As many bytes are held as may be.
    HeldBytes,
    /// The plan gives no slot.
    NoCapacity,
    /// The cluster is unknown, has no healthy host, or cannot be reached.
    NoBackend,
    /// There is no valid plan, and the configuration says to refuse then.
    NoPlan,
    /// This Envoy is shutting down.
    ShuttingDown,
}

impl Reason {
    /// All of them, in the order of the README's table.
    pub const ALL: [Reason; 10] = [
        Reason::Expired,
        Reason::Infeasible,
        Reason::QueueFull,
        Reason::ClassLimit,
        Reason::SourceLimit,
        Reason::HeldBytes,
        Reason::NoCapacity,
        Reason::NoBackend,
        Reason::NoPlan,
        Reason::ShuttingDown,
    ];

    /// HTTP status: 429 shed under contention, 503 no capacity or backend, 504 out of time.
    #[must_use]
    pub const fn status(self) -> u32 {
        match self {
            Reason::Expired | Reason::Infeasible => 504,
            Reason::QueueFull | Reason::ClassLimit | Reason::SourceLimit | Reason::HeldBytes => 429,
            Reason::NoCapacity | Reason::NoBackend | Reason::NoPlan | Reason::ShuttingDown => 503,
        }
    }

    /// The label on the wire and in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Reason::Expired => "expired",
            Reason::Infeasible => "infeasible",
            Reason::QueueFull => "queue-full",
            Reason::ClassLimit => "class-limit",
            Reason::SourceLimit => "source-limit",
            Reason::HeldBytes => "held-bytes",
            Reason::NoCapacity => "no-capacity",
            Reason::NoBackend => "no-backend",
            Reason::NoPlan => "no-plan",
            Reason::ShuttingDown => "shutting-down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shed_requests_are_told_when_to_come_back_and_others_are_not() {
        for reason in Reason::ALL {
            let retry = Refusal::new(reason, false).retry_after_s.is_some();
            assert_eq!(retry, reason.status() == 429, "{}", reason.label());
        }
    }

    #[test]
    fn labels_are_distinct_and_can_stand_in_a_metric_name() {
        for (i, reason) in Reason::ALL.iter().enumerate() {
            assert!(weir_api::plan::is_name(reason.label()));
            assert!(
                Reason::ALL[..i]
                    .iter()
                    .all(|other| other.label() != reason.label())
            );
        }
    }
}
