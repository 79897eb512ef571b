//! Origin of a response, upstream or Envoy, and its meaning for the request and the server.

use crate::time::Span;
use weir_api::plan::HOUR_MS;

use crate::engine::{Answer, End};
use crate::health::HealthSignal;
use crate::reason::Reason;
use crate::request::protocol::is_stream;

use super::call;

/// Envoy's response flags, as in `response.flags`.
const UPSTREAM_TIMEOUT: u64 = 1 << 2;
/// The client's connection ended, or its HTTP/2 stream did.
const DOWNSTREAM_DISCONNECTED: u64 = 1 << 14 | 1 << 28;

/// Header with the reason of a refusal.
pub(super) const DROPPED_REASON: &str = "x-slo-dropped-reason";
/// Header in which Envoy's route names the endpoint that answered.
const SERVED_BY: &str = "x-slo-served-by";
/// Header with a gate's predicted response time, for the router before it.
pub(super) const EXPECTED: &str = "x-slo-expected-ms";

/// Returns the variant that answered, if Envoy may have failed over; removes the header, which is not for
/// the client.
pub(super) fn served_by() -> Option<String> {
    let value = call::response_header(SERVED_BY)?;
    call::set_response_header(SERVED_BY, None);
    String::from_utf8(value).ok()
}

/// Origin of the current response.
pub(super) enum ResponseOrigin {
    /// A server, or a gate before it.
    Upstream(Answer),
    /// Envoy itself: end of the request, and the reason for the client.
    Envoy(End, Option<Reason>),
}

/// Determines the origin. `trailers_only`: a gRPC response with trailers only, which may be Envoy's own
/// although its status is 200.
pub(super) fn response_origin(router: bool, trailers_only: bool) -> ResponseOrigin {
    let status = call::response_status().unwrap_or_default();
    // Most responses are upstream's and successful: the details are read only if Envoy may have answered.
    let failed = matches!(status.first(), Some(b'4' | b'5'));
    let details = (failed || trailers_only)
        .then(|| call::text(&["response", "code_details"]))
        .flatten();
    let timed_out = |details: &str| details.contains("timeout");
    match (details.as_deref(), status.as_slice()) {
        (None | Some("via_upstream"), _) => {
            let expected = router.then(expected_upstream).flatten();
            let sign = sign(status.as_slice(), failed || trailers_only);
            // A gRPC server that sends only trailers has no result.
            let failed = failed || trailers_only;
            let kind = (!failed).then(|| call::response_header("content-type"));
            ResponseOrigin::Upstream(Answer {
                failed,
                streams: kind.flatten().is_some_and(|kind| is_stream(&kind)),
                sign,
                expected,
                retried: 0,
                served_by: None,
                source: None,
            })
        }
        (_, b"504") => ResponseOrigin::Envoy(End::TimedOut, Some(Reason::Expired)),
        (Some(details), b"200") if timed_out(details) => {
            ResponseOrigin::Envoy(End::TimedOut, Some(Reason::Expired))
        }
        (Some(details), b"503" | b"200") => {
            ResponseOrigin::Envoy(end_by_details(details), Some(Reason::NoBackend))
        }
        _ => ResponseOrigin::Envoy(End::Failed, None),
    }
}

/// End of a request by Envoy's details: whether it reached a server.
fn end_by_details(details: &str) -> End {
    const UNREACHABLE_MESSAGES: [&str; 3] = [
        "cluster_not_found",
        "no_healthy_upstream",
        "upstream_reset_before_response_started",
    ];
    let unreached = UNREACHABLE_MESSAGES
        .iter()
        .any(|known| details.starts_with(known));
    // Overflow of Envoy's own limits is no signal of the server.
    if unreached && !details.contains("overflow") {
        End::Unreachable
    } else {
        End::Failed
    }
}

/// Returns the health signal of upstream's response. `bad`: it may be an error, which is rare.
fn sign(status: &[u8], bad: bool) -> Option<HealthSignal> {
    if !bad {
        return Some(HealthSignal::Served);
    }
    let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
    let grpc = call::response_header("grpc-status").and_then(|value| number(&value));
    let dropped = call::response_header(DROPPED_REASON);
    HealthSignal::of(number(status)?, grpc, dropped.as_deref())
}

/// Number of Envoy's retries of the current request.
pub(super) fn retried() -> u32 {
    let attempts = call::number(&["upstream", "request_attempt_count"]);
    u32::try_from(attempts.unwrap_or(1).saturating_sub(1)).unwrap_or(u32::MAX)
}

/// Returns the response time predicted by the gate before the server; removes the header, which is not for
/// the client.
fn expected_upstream() -> Option<Span> {
    let value = call::response_header(EXPECTED)?;
    call::set_response_header(EXPECTED, None);
    let ms: u64 = std::str::from_utf8(&value).ok()?.parse().ok()?;
    Some(Span::from_millis(ms.min(HOUR_MS)))
}

/// End of a stream without a complete response, by Envoy's flags.
pub(super) fn end_by_flags() -> End {
    match call::number(&["response", "flags"]) {
        Some(flags) if flags & UPSTREAM_TIMEOUT != 0 => End::TimedOut,
        Some(flags) if flags & DOWNSTREAM_DISCONNECTED != 0 => End::Disconnected,
        Some(0) | None => End::Disconnected,
        Some(_) => End::Failed,
    }
}
