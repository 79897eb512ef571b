//! Verdicts: the closed list of outcomes for a request, and the data of each.

use std::rc::Rc;

use crate::explanation::Facts;
use crate::reason::Reason;
use crate::request::model::NamePlace;
use crate::time::{Span, Wall};
use crate::variant::VariantId;

/// Action for the shell. Every request gets exactly one final answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Pass through untouched, by Envoy's own routes: it is bypassed, or there is no plan.
    Pass,
    /// Pass through to a variant's servers: it is bypassed, and names a model for which they have a name of their own.
    PassTo(Passage),
    /// Send upstream now.
    Forward(Dispatch),
    /// Hold; a later verdict follows for the same stream.
    Park,
    /// Answer locally.
    Reject(Refusal),
}

/// What a chunk of a request's body leads to.
#[allow(
    clippy::large_enum_variant,
    reason = "made once a chunk and taken apart at once"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum BodyVerdict {
    /// A verdict on its request.
    Decided(Verdict),
    /// Its request is upstream, or passes: it follows.
    Follows,
    /// Its request is decided, but not yet sent or refused, or it has ended: it must not go on.
    Unknown,
}

impl BodyVerdict {
    /// Returns the verdict on the request, if there is one.
    #[must_use]
    pub fn decided(self) -> Option<Verdict> {
        match self {
            BodyVerdict::Decided(verdict) => Some(verdict),
            BodyVerdict::Follows | BodyVerdict::Unknown => None,
        }
    }
}

/// Variant's own name for the model, in place of the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnModel {
    /// The name.
    pub name: Rc<str>,
    /// Place of the client's.
    pub place: NamePlace,
}

/// Destination of a request that passes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// Variant, for the metrics.
    pub variant: VariantId,
    /// Envoy cluster (`x-slo-cluster`); `None` at a gate, which leaves the route as it is.
    pub cluster: Option<Rc<str>>,
    /// Variant's own name for the model; `None` if the client's stays.
    pub model: Option<OwnModel>,
}

/// Destination of a request, and the headers for the next hop.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// Variant, for the metrics.
    pub variant: VariantId,
    /// Public name of the variant (`x-slo-variant`).
    pub name: Rc<str>,
    /// Envoy cluster (`x-slo-cluster`); `None` at a gate, which leaves the route as it is.
    pub cluster: Option<Rc<str>>,
    /// Variant's own name for the model; `None` if the client's stays.
    pub model: Option<OwnModel>,
    /// Path of the variant's servers, without a query; `None` if the client's stays.
    pub path: Option<Rc<str>>,
    /// Whether more of its body follows.
    pub body_follows: bool,
    /// Time left (`x-slo-remaining-ms`).
    pub remaining: Span,
    /// Whether `x-slo-variants` came, and is removed: it names variants of this service only.
    pub lists_variants: bool,
    /// Change of `x-slo-stage-ms`.
    pub stage: StageHeader,
    /// Time within which its answer must begin (`x-envoy-upstream-rq-per-try-timeout-ms`): that until its deadline. Envoy's
    /// own timer ends it then, and counts a failure of the replica that it went to. `None` where routes may retry or hedge:
    /// their own time for a try holds.
    pub begins: Option<Span>,
    /// The client's deadline (`x-slo-deadline`).
    pub deadline: Wall,
    /// Whether `grpc-timeout` is rewritten, because the request carried one.
    pub grpc_timeout: bool,
    /// Class assigned instead of the requested one (`x-slo-class`).
    pub class: Option<Rc<str>>,
    /// Maximum number of retries by this Envoy's router.
    pub max_retries: u8,
}

/// Change of `x-slo-stage-ms` for the next hop. Setting or removing a header costs a hostcall, so `Absent`
/// spares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageHeader {
    /// Nothing to do: none came, and there is no later stage.
    Absent,
    /// Remove the value that came: it belongs to another stage, or to a client.
    Remove,
    /// Time for this stage of a pipeline.
    Set(Span),
}

/// Refusal of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Reason.
    pub reason: Reason,
    /// `retry-after` in whole seconds, where another try makes sense.
    pub retry_after_s: Option<u32>,
    /// Whether the client reads a gRPC status: then the answer has trailers only.
    pub trailers_only: bool,
    /// Time that a request takes at this gate (`x-slo-expected-ms`). A router learns most from the requests
    /// that a gate refuses.
    pub expected: Option<Span>,
    /// Variants of the request's list with the reasons why they did not serve it (`x-slo-variants`).
    pub variants: Option<Box<str>>,
    /// Headers of the request that were ignored because their values are invalid (`x-slo-ignored`).
    pub ignored: Option<Box<str>>,
    /// What explains it.
    pub facts: Facts,
}

/// Minimum of `retry-after`, s: the smallest value of the header. By then the planner, whose cycle takes one second, has
/// seen the load, and a failing variant has had its trial.
pub const RETRY_AFTER_S: u32 = 1;
/// Maximum of `retry-after`, s: a queue that needs longer is refused by its deadlines anyway.
pub const RETRY_AFTER_MAX_S: u32 = 30;
/// `retry-after` where the plan gives no slot, s: a plan takes a second, and a server that starts some more.
pub const RETRY_AFTER_NO_CAPACITY_S: u32 = 5;
const _: () = assert!(RETRY_AFTER_S >= 1 && RETRY_AFTER_NO_CAPACITY_S <= RETRY_AFTER_MAX_S);

impl Reason {
    /// `retry-after` of refusals for it, s, where nothing else is known; `None`: another try is of no use.
    #[must_use]
    pub const fn retry_after_s(self) -> Option<u32> {
        match self {
            Reason::NoCapacity => Some(RETRY_AFTER_NO_CAPACITY_S),
            _ => match self.status() {
                429 | 503 => Some(RETRY_AFTER_S),
                _ => None,
            },
        }
    }
}
