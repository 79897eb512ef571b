//! Reasons of refusals: label, HTTP status and gRPC code, in one table for answers, counters and
//! `docs/reference/refusals.md`.
//!
//! These places refuse:
//! - `engine.rs` (`on_request`): [`NoPlan`](Reason::NoPlan), [`InvalidVariants`](Reason::InvalidVariants), and the
//!   reasons of `engine/parse.rs`;
//! - `engine/parse.rs`: [`Expired`](Reason::Expired), [`Infeasible`](Reason::Infeasible);
//! - `engine/route.rs`: [`NoCapacity`](Reason::NoCapacity), [`Infeasible`](Reason::Infeasible),
//!   [`Accuracy`](Reason::Accuracy);
//! - `engine/admit.rs`: [`QueueFull`](Reason::QueueFull), [`Infeasible`](Reason::Infeasible), and the
//!   reasons of `engine/route.rs` and `engine/limits.rs`;
//! - `engine/limits.rs`: [`QueueFull`](Reason::QueueFull), [`ClassLimit`](Reason::ClassLimit);
//! - `engine/slots.rs` (overdue requests): [`Expired`](Reason::Expired), [`Infeasible`](Reason::Infeasible);
//! - `engine/receive.rs` (bodies): [`BodyBytesLimit`](Reason::BodyBytesLimit), [`SourceLimit`](Reason::SourceLimit),
//!   [`QueueFull`](Reason::QueueFull), [`Expired`](Reason::Expired), and the reasons of `engine/route.rs`;
//! - `engine/plan_change.rs`: the reasons of `engine/route.rs`, for waiting requests;
//! - `engine/dispatch.rs`: [`NoCapacity`](Reason::NoCapacity), [`NoBackend`](Reason::NoBackend),
//!   [`Expired`](Reason::Expired);
//! - `engine/response.rs`: [`Expired`](Reason::Expired), at the deadline of a request in flight;
//! - `host/response_origin.rs`: [`NoBackend`](Reason::NoBackend), [`Expired`](Reason::Expired), for Envoy's own
//!   answers.

/// Reason of a refusal (`x-slo-dropped-reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The deadline had passed on arrival, or passed while the request was held or in flight.
    Expired,
    /// No allowed variant can finish in time.
    Infeasible,
    /// The worker holds the maximum number of requests.
    QueueFull,
    /// The worker holds the maximum number of requests of this class.
    ClassLimit,
    /// The worker holds the maximum number of bytes of this source.
    SourceLimit,
    /// The worker holds the maximum number of bytes.
    BodyBytesLimit,
    /// The plan gives no slot.
    NoCapacity,
    /// The cluster is unknown, has no healthy host, or cannot be reached.
    NoBackend,
    /// There is no valid plan, and the configuration says to refuse without one.
    NoPlan,
    /// The list of variants that the request names is not valid.
    InvalidVariants,
    /// No variant that may serve the request is as accurate as it demands.
    Accuracy,
}

/// gRPC status codes of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrpcCode {
    /// The request itself is wrong.
    InvalidArgument = 3,
    /// The deadline cannot be met.
    DeadlineExceeded = 4,
    /// Shed under contention.
    ResourceExhausted = 8,
    /// No variant of the plan is what the request demands. Another try is of no use before the plan changes.
    FailedPrecondition = 9,
    /// No capacity, no backend, or no plan.
    Unavailable = 14,
}

impl Reason {
    /// All reasons, in the order of `docs/reference/refusals.md`.
    pub const ALL: [Reason; 11] = [
        Reason::Expired,
        Reason::Infeasible,
        Reason::QueueFull,
        Reason::ClassLimit,
        Reason::SourceLimit,
        Reason::BodyBytesLimit,
        Reason::NoCapacity,
        Reason::NoBackend,
        Reason::NoPlan,
        Reason::InvalidVariants,
        Reason::Accuracy,
    ];

    /// HTTP status: 400 the request is malformed, 422 it is well-formed and demands what is not there, 429 shed under
    /// contention, 503 no capacity or backend, 504 out of time. No client library retries a 400 or a 422.
    #[must_use]
    pub const fn status(self) -> u32 {
        match self {
            Reason::Expired | Reason::Infeasible => 504,
            Reason::QueueFull
            | Reason::ClassLimit
            | Reason::SourceLimit
            | Reason::BodyBytesLimit => 429,
            Reason::NoCapacity | Reason::NoBackend | Reason::NoPlan => 503,
            Reason::InvalidVariants => 400,
            Reason::Accuracy => 422,
        }
    }

    /// gRPC status of the answer.
    #[must_use]
    pub const fn grpc_code(self) -> GrpcCode {
        match self {
            Reason::Expired | Reason::Infeasible => GrpcCode::DeadlineExceeded,
            Reason::QueueFull
            | Reason::ClassLimit
            | Reason::SourceLimit
            | Reason::BodyBytesLimit => GrpcCode::ResourceExhausted,
            Reason::NoCapacity | Reason::NoBackend | Reason::NoPlan => GrpcCode::Unavailable,
            Reason::InvalidVariants => GrpcCode::InvalidArgument,
            Reason::Accuracy => GrpcCode::FailedPrecondition,
        }
    }

    /// Label on the wire and in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Reason::Expired => "expired",
            Reason::Infeasible => "infeasible",
            Reason::QueueFull => "queue-full",
            Reason::ClassLimit => "class-limit",
            Reason::SourceLimit => "source-limit",
            Reason::BodyBytesLimit => "body-bytes-limit",
            Reason::NoCapacity => "no-capacity",
            Reason::NoBackend => "no-backend",
            Reason::NoPlan => "no-plan",
            Reason::InvalidVariants => "invalid-variants",
            Reason::Accuracy => "accuracy",
        }
    }

    /// Whether the proxy of a caller must not try the request again at once: it would meet the same plan. Other reasons
    /// have a status that proxies do not retry, or another try may reach a server.
    #[must_use]
    pub const fn forbids_retries(self) -> bool {
        matches!(self, Reason::NoCapacity | Reason::NoPlan)
    }
}

#[cfg(test)]
mod tests {
    use weir_api::metrics::REFUSAL_REASONS;

    use super::*;

    #[test]
    fn planner_knows_the_same_labels_in_the_same_order() {
        assert_eq!(Reason::ALL.map(Reason::label), REFUSAL_REASONS);
    }

    #[test]
    fn labels_are_distinct_valid_metric_labels() {
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
