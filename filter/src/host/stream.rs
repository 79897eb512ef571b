//! One request: its headers in, a verdict out and carried out; its answer tagged; its end told once.

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use crate::deadline::Wire;
use crate::engine::{End, Tags};
use crate::verdict::{Dispatch, Reason, Refusal, Verdict};

use super::call;
use super::service::{self, Handle};

/// Envoy's response flags, as `response.flags` has them.
const UPSTREAM_TIMEOUT: u64 = 1 << 2;
const DOWNSTREAM_GONE: u64 = 1 << 14;

/// The largest number `grpc-timeout` can carry: eight digits.
const GRPC_TIMEOUT_MAX: u128 = 99_999_999;

pub(super) struct Stream {
    id: u32,
    service: Option<Handle>,
    /// Known to the engine: sent upstream or held, and not yet ended.
    open: bool,
}

impl Stream {
    pub(super) fn new(id: u32, service: Option<Handle>) -> Stream {
        Stream {
            id,
            service,
            open: false,
        }
    }

    fn end(&mut self, end: End) {
        if let Some(service) = self.service.as_ref().filter(|_| self.open) {
            service::on_end(service, self.id, end, call::now());
        }
        self.open = false;
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let Some(service) = &self.service else {
            return Action::Continue;
        };
        #[cfg(feature = "trap")]
        if super::trap::on_request(self.id, &service.borrow().engine().config().service) {
            return Action::Pause;
        }
        let headers = call::request_headers();
        let wire = Wire::pick(
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice())),
        );
        let verdict = service.borrow_mut().on_request(self.id, &wire, call::now());
        self.open = matches!(verdict, Verdict::Forward(_) | Verdict::Park);
        match verdict {
            Verdict::Pass => pass(),
            Verdict::Forward(dispatch) => forward(&dispatch),
            Verdict::Park => return Action::Pause,
            Verdict::Reject(refusal) => {
                refuse(refusal);
                return Action::Pause;
            }
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        #[cfg(feature = "trap")]
        super::trap::on_response(self.id);
        let Some(service) = self.service.as_ref().filter(|_| self.open) else {
            return Action::Continue;
        };
        match own_reply() {
            Some((end, reason)) => {
                if let Some(reason) = reason {
                    call::set_response_header("x-slo-dropped-reason", reason.label());
                }
                self.end(end);
            }
            None => {
                let tags = service.borrow().engine().on_answer(self.id, call::now());
                if let Some(tags) = tags {
                    tag(&tags);
                }
                if end_of_stream {
                    self.end(End::Answered);
                }
            }
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, _: usize, end_of_stream: bool) -> Action {
        if end_of_stream {
            self.end(End::Answered);
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        self.end(End::Answered);
        Action::Continue
    }

    fn on_log(&mut self) {
        if self.open {
            self.end(end_by_flags());
        }
    }
}

/// Carries out a verdict on a held request, which is the current one.
pub(super) fn carry_out_held(verdict: &Verdict) {
    match verdict {
        Verdict::Pass => {
            pass();
            call::resume_request();
        }
        Verdict::Forward(dispatch) => {
            forward(dispatch);
            call::resume_request();
        }
        Verdict::Reject(refusal) => refuse(*refusal),
        Verdict::Park => debug_assert!(false, "a held request was told to wait"),
    }
}

/// A client's own route key must not choose a cluster.
fn pass() {
    call::set_request_header("x-slo-cluster", None);
    call::clear_route_cache();
}

fn forward(dispatch: &Dispatch) {
    let remaining_ms = dispatch.remaining.as_millis().max(1).to_string();
    // Rounded up: an answer in the deadline's last millisecond is in time.
    let timeout_ms = dispatch
        .timeout
        .as_nanos()
        .div_ceil(1_000_000)
        .max(1)
        .to_string();
    call::set_request_header("x-slo-cluster", Some(&dispatch.cluster));
    call::set_request_header("x-slo-variant", Some(&dispatch.name));
    call::set_request_header("x-slo-remaining-ms", Some(&remaining_ms));
    call::set_request_header(
        "x-slo-deadline",
        Some(&dispatch.deadline.as_ms().to_string()),
    );
    call::set_request_header("x-envoy-upstream-rq-timeout-ms", Some(&timeout_ms));
    if dispatch.grpc {
        let ms = dispatch.remaining.as_millis().clamp(1, GRPC_TIMEOUT_MAX);
        call::set_request_header("grpc-timeout", Some(&format!("{ms}m")));
    }
    call::clear_route_cache();
}

fn refuse(refusal: Refusal) {
    let label = refusal.reason.label();
    let retry_after = refusal.retry_after_s.map(|s| s.to_string());
    let mut headers = vec![
        ("x-slo-dropped-reason", label),
        ("content-type", "application/json"),
    ];
    if let Some(retry_after) = &retry_after {
        headers.push(("retry-after", retry_after));
    }
    let body = format!("{{\"error\":\"refused by weir: {label}\"}}\n");
    call::answer(refusal.reason.status(), headers, body.as_bytes());
}

fn tag(tags: &Tags) {
    let waited_ms = tags.waited.as_secs_f64() * 1e3;
    call::set_response_header("x-slo-variant", &tags.variant);
    call::set_response_header(
        "x-slo-remaining-ms",
        &tags.remaining.as_millis().to_string(),
    );
    call::add_response_header("server-timing", &format!("queue;dur={waited_ms:.1}"));
}

/// Whether the current answer is Envoy's own instead of upstream's: what that means for the slot,
/// and which reason the client is told.
fn own_reply() -> Option<(End, Option<Reason>)> {
    let status = call::response_status()?;
    // Upstream's answers are by far the most: only where Envoy might have spoken is it asked.
    if !matches!(status.first(), Some(b'4' | b'5')) {
        return None;
    }
    let details = call::text(&["response", "code_details"])?;
    match (details.as_str(), status.as_slice()) {
        ("via_upstream", _) => None,
        (_, b"504") => Some((End::TimedOut, Some(Reason::Expired))),
        (_, b"503") => Some((End::Failed, Some(Reason::NoBackend))),
        _ => Some((End::Failed, None)),
    }
}

/// How a stream ended that had no complete answer.
fn end_by_flags() -> End {
    match call::number(&["response", "flags"]) {
        Some(flags) if flags & UPSTREAM_TIMEOUT != 0 => End::TimedOut,
        Some(flags) if flags & DOWNSTREAM_GONE != 0 => End::Gone,
        Some(0) | None => End::Gone,
        Some(_) => End::Failed,
    }
}
