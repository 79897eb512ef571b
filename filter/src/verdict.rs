//! What becomes of a request: the closed list of verdicts and reasons, and how each is answered.
//! One table serves the answer, the counter and the README.

use std::rc::Rc;
use std::time::Duration;

use crate::reason::Reason;
use crate::time::Wall;
use crate::variant::VariantId;

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
    pub stage: StageHeader,
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
pub enum StageHeader {
    /// None came, and this is the last stage, or the only one.
    Absent,
    /// What came with the request was another stage's, or a client's: it is removed.
    Remove,
    /// What this stage of a pipeline may take.
    Set(Duration),
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
}
