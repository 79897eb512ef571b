//! Probes of failing variants: each is a GET.

use crate::engine::Probe;
use crate::health::{PROBE_PERIOD, ProbeResult};
use crate::request::model;
use crate::variant::VariantKey;

use super::call;

/// Bytes of an answer that are read to identify its author.
const MESSAGE_MAX: usize = 256;
/// Envoy's messages if it reached no server. A server that resets the stream, as gRPC servers may do for a
/// GET, was reached.
const UNREACHABLE_MESSAGES: [&str; 4] = [
    "no healthy upstream",
    "connection failure",
    "connection timeout",
    "connection termination",
];

/// Pending probes: calls, their variants and whether these fail for gRPC.
#[derive(Debug, Default)]
pub(super) struct Probes {
    calls: Vec<(u32, (VariantKey, bool))>,
}

impl Probes {
    /// Sends a probe; returns whether it could be sent.
    pub(super) fn send(&mut self, probe: &Probe, path: &str) -> bool {
        // The name of an Istio cluster ends in the host.
        let authority = probe.cluster.rsplit('|').next().unwrap_or_default();
        let own = probe.model.as_deref();
        let own = own.and_then(|name| model::rename(path.as_bytes(), name));
        let headers = vec![
            (":method", "GET"),
            (":path", own.as_deref().unwrap_or(path)),
            (":authority", authority),
        ];
        let call = call::get(&probe.cluster, headers, PROBE_PERIOD);
        self.calls
            .extend(call.map(|call| (call, (probe.variant, probe.grpc))));
        call.is_some()
    }

    /// Whether the answer to this call is a probe's.
    pub(super) fn expects(&self, token: u32) -> bool {
        self.calls.iter().any(|(call, _)| *call == token)
    }

    /// Handles the answer to a call; `None` if it is not a probe.
    pub(super) fn on_answer(&mut self, token: u32) -> Option<((VariantKey, bool), ProbeResult)> {
        let place = self.calls.iter().position(|(call, _)| *call == token)?;
        let (_, variant) = self.calls.swap_remove(place);
        Some((variant, probed()))
    }
}

/// Returns the result in the answer to the current call.
fn probed() -> ProbeResult {
    match call::call_status() {
        // Envoy's own message for a timeout.
        Some(504) if body_contains(&["upstream request timeout"]) => ProbeResult::Nobody,
        Some(503) if body_contains(&UNREACHABLE_MESSAGES) => ProbeResult::Nobody,
        Some(status) => ProbeResult::Status(status),
        None => ProbeResult::Nobody,
    }
}

fn body_contains(any: &[&str]) -> bool {
    let body = call::call_body(MESSAGE_MAX);
    let body = String::from_utf8_lossy(&body);
    any.iter().any(|words| body.contains(words))
}
