//! Probes of variants that fail: each a GET, answered or not.

use crate::engine::Probe;
use crate::health::{PROBE_PERIOD, ProbeResult};
use crate::variant::VariantKey;

use super::call;

/// How much of an answer is read to tell whose it is.
const MESSAGE_MAX: usize = 256;
/// How Envoy body_contains that it reached no server. A server that resets the stream, as gRPC servers may do to a GET,
/// was reached.
const UNREACHABLE_MESSAGES: [&str; 4] = [
    "no healthy upstream",
    "connection failure",
    "connection timeout",
    "connection termination",
];

/// The probes under way: by call, the variant.
#[derive(Debug, Default)]
pub(super) struct Probes {
    calls: Vec<(u32, VariantKey)>,
}

impl Probes {
    /// Sends a probe; whether it could be sent.
    pub(super) fn send(&mut self, probe: &Probe, path: &str) -> bool {
        // An Istio cluster's name ends in the host.
        let authority = probe.cluster.rsplit('|').next().unwrap_or_default();
        let headers = vec![
            (":method", "GET"),
            (":path", path),
            (":authority", authority),
        ];
        let call = call::get(&probe.cluster, headers, PROBE_PERIOD);
        self.calls.extend(call.map(|call| (call, probe.variant)));
        call.is_some()
    }

    /// A call has been answered; `None` if it was no probe.
    pub(super) fn on_answer(&mut self, token: u32) -> Option<(VariantKey, ProbeResult)> {
        let place = self.calls.iter().position(|(call, _)| *call == token)?;
        let (_, variant) = self.calls.swap_remove(place);
        Some((variant, probed()))
    }
}

/// What the answer to the current call body_contains.
fn probed() -> ProbeResult {
    match call::call_status() {
        // Envoy's own words for a call that took too long.
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
