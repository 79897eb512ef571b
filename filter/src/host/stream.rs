//! One request: its headers in, a verdict out and carried out; its answer tagged; its end told once.

use std::borrow::Cow;
use std::hash::Hasher;
use std::time::Duration;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, GrpcStatusCode};

use crate::config::Role;
use crate::engine::{ANSWER_BUFFERED, Asked, End, Tags};
use crate::reason::Reason;
use crate::request::body::Received;
use crate::request::protocol;
use crate::request::wire::Wire;
use crate::time::{Now, millis, millis_up, nanos};
use crate::verdict::{Dispatch, Refusal, Stage, Verdict};

use super::call;
use super::response_origin::{
    DROPPED_REASON, EXPECTED, Spoke, end_by_flags, retried, served_by, who_spoke,
};
use super::service::{self, Handle, Service};

/// The largest number `grpc-timeout` can carry: eight digits.
const GRPC_TIMEOUT_MAX: u64 = 99_999_999;

pub(super) struct Stream {
    id: u32,
    service: Option<Handle>,
    /// Known to the engine: sent upstream or held, and not yet ended.
    open: bool,
    /// Whether it speaks gRPC, in which even Envoy's own answers have status 200.
    grpc: bool,
    /// Bytes of the answer's body that have come.
    answered: usize,
}

impl Stream {
    pub(super) fn new(id: u32, service: Option<Handle>) -> Stream {
        Stream {
            id,
            service,
            open: false,
            grpc: false,
            answered: 0,
        }
    }

    /// A part of the body has come; `size`: bytes so far, all of which Envoy holds.
    fn receive(&mut self, size: usize, complete: bool) -> Action {
        let Some(service) = self.service.as_ref().filter(|_| self.open) else {
            return Action::Continue;
        };
        if !complete && service.borrow_mut().hold_part(self.id, size) {
            return Action::Pause;
        }
        let received = Received {
            bytes: size as u64,
            complete,
        };
        let verdict = service.borrow_mut().on_body(self.id, received, call::now());
        match verdict {
            None => Action::Continue,
            Some(verdict) => self.carry_out(verdict),
        }
    }

    /// Carries out a verdict on this request, in its own callback.
    fn carry_out(&mut self, verdict: Verdict) -> Action {
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

    fn end(&mut self, end: End) {
        if let Some(service) = self.service.as_ref().filter(|_| self.open) {
            service::on_end(service, self.id, end, call::now());
        }
        self.open = false;
    }

    /// More of the answer has come than Envoy keeps for a client that does not read.
    fn bulk(&self) {
        if let Some(service) = self.service.as_ref().filter(|_| self.open) {
            service::on_bulk(service, self.id, call::now());
        }
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        let Some(service) = &self.service else {
            return Action::Continue;
        };
        #[cfg(feature = "trap")]
        if super::trap::on_request(self.id, service.borrow().engine().config()) {
            return Action::Pause;
        }
        let headers = call::request_headers();
        let verdict = {
            let mut service = service.borrow_mut();
            let claims = &service.engine().config().claim_headers;
            let named = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()));
            let wire = Wire::pick_with(named, claims);
            let wants = service.engine().wants(&wire);
            let proof = wants.proof.and_then(call::property);
            let source = wants.source.then(|| source(&service, &wire)).flatten();
            let sender = source.or_else(|| wants.source.then(peer).flatten());
            let asked = Asked {
                wire,
                source,
                sender,
                proof: proof.as_deref(),
                more: !end_of_stream && service.expects_body(&headers),
            };
            self.grpc = protocol::is_grpc(&wire);
            service.on_request(self.id, &asked, call::now())
        };
        self.carry_out(verdict)
    }

    fn on_http_request_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        self.receive(size, end_of_stream)
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        // With trailers the body has no end of its own.
        self.receive(0, true)
    }

    fn on_http_response_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        #[cfg(feature = "trap")]
        super::trap::on_response(self.id);
        let Some(service) = self.service.clone().filter(|_| self.open) else {
            return Action::Continue;
        };
        let (role, moves_on, retries) = {
            let service = service.borrow();
            let config = service.engine().config();
            (
                config.role,
                config.failover.is_some(),
                config.retries_max > 0,
            )
        };
        let served_by = moves_on.then(served_by).flatten();
        match who_spoke(role == Role::Router, self.grpc && end_of_stream) {
            Spoke::Envoy(end, reason) => {
                if let Some(reason) = reason {
                    call::set_response_header(DROPPED_REASON, Some(reason.label()));
                    if self.grpc {
                        // To gRPC Envoy calls its 504 unavailable too.
                        let status = (grpc_status(reason) as u32).to_string();
                        call::set_response_header("grpc-status", Some(&status));
                    }
                }
                self.end(end);
            }
            Spoke::Upstream(mut answer) => {
                if retries {
                    answer.retried = retried();
                }
                let now = call::now();
                let mut service = service.borrow_mut();
                answer.served_by = served_by.and_then(|name| service.engine().variant(&name));
                let tags = service.on_answer(self.id, answer, now);
                drop(service);
                if let Some(tags) = tags {
                    tag(&tags, now);
                }
                if end_of_stream {
                    self.end(End::Answered);
                }
            }
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        let before = self.answered;
        self.answered = before.saturating_add(size);
        if end_of_stream {
            self.end(End::Answered);
        } else if before <= ANSWER_BUFFERED && self.answered > ANSWER_BUFFERED {
            self.bulk();
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        self.end(End::Answered);
        Action::Continue
    }
}

/// Envoy deletes a stream as soon as its answer has left, or it is given up. It would say so twice before
/// (`on_done`, `on_log`): calls into the VM that `xtask/src/trim.rs` saves.
impl Drop for Stream {
    fn drop(&mut self) {
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
    let mut digits = itoa::Buffer::new();
    let ms = |span: Duration| millis(span).max(1);
    if let Some(cluster) = &dispatch.cluster {
        call::set_request_header("x-slo-cluster", Some(cluster));
        call::set_request_header("x-slo-variant", Some(&dispatch.name));
    }
    let remaining = digits.format(ms(dispatch.remaining));
    call::set_request_header("x-slo-remaining-ms", Some(remaining));
    let deadline = digits.format(dispatch.deadline.as_ms());
    call::set_request_header("x-slo-deadline", Some(deadline));
    match dispatch.stage {
        Stage::Absent => {}
        Stage::Foreign => call::set_request_header("x-slo-stage-ms", None),
        Stage::Left(left) => {
            call::set_request_header("x-slo-stage-ms", Some(digits.format(ms(left))));
        }
    }
    if let Some(class) = &dispatch.class {
        call::set_request_header("x-slo-class", Some(class));
    }
    // Rounded up: an answer in the deadline's last millisecond is in time. 0: none.
    let timeout = dispatch
        .timeout
        .map_or(0, |timeout| millis_up(timeout).max(1));
    call::set_request_header(
        "x-envoy-upstream-rq-timeout-ms",
        Some(digits.format(timeout)),
    );
    // Takes precedence over the route's own; the router reads and removes it. Hedges are retries to it too.
    let retries_max = digits.format(dispatch.retries_max);
    call::set_request_header("x-envoy-max-retries", Some(retries_max));
    if dispatch.grpc_timeout {
        let ms = millis(dispatch.remaining).clamp(1, GRPC_TIMEOUT_MAX);
        call::set_request_header("grpc-timeout", Some(&format!("{ms}m")));
    }
    if dispatch.cluster.is_some() {
        call::clear_route_cache();
    }
}

fn refuse(refusal: Refusal) {
    let label = refusal.reason.label();
    let retry_after = refusal.retry_after_s.map(|s| s.to_string());
    let mut headers = vec![(DROPPED_REASON, label)];
    if let Some(retry_after) = &retry_after {
        headers.push(("retry-after", retry_after));
    }
    let expected = refusal.expected.map(|it| millis(it).to_string());
    if let Some(expected) = &expected {
        headers.push((EXPECTED, expected));
    }
    let body = format!("{{\"error\":\"refused by weir: {label}\"}}\n");
    if refusal.grpc {
        let says = format!("refused by weir: {label}");
        call::answer_grpc(grpc_status(refusal.reason), &says, headers);
    } else {
        headers.push(("content-type", "application/json"));
        call::answer(refusal.reason.status(), headers, body.as_bytes());
    }
}

/// What a refusal is called in gRPC.
fn grpc_status(reason: Reason) -> GrpcStatusCode {
    match reason.status() {
        504 => GrpcStatusCode::DeadlineExceeded,
        429 => GrpcStatusCode::ResourceExhausted,
        _ => GrpcStatusCode::Unavailable,
    }
}

fn tag(tags: &Tags, now: Now) {
    call::set_response_header("x-slo-variant", Some(&tags.variant));
    let mut digits = itoa::Buffer::new();
    let remaining = digits.format(millis(tags.remaining));
    call::set_response_header("x-slo-remaining-ms", Some(remaining));
    if let Some(waited) = tags.waited {
        call::add_response_header("server-timing", &queue_timing(waited));
    }
    if let Some(expected) = tags.expected {
        call::set_response_header(EXPECTED, Some(digits.format(millis(expected))));
    }
    if let Some(came) = tags.came {
        // As NTP's: by these two and its own two a client works out how far its clock is off.
        let clock = format!("in={};out={}", came.as_ms(), now.wall.as_ms());
        call::set_response_header("x-slo-clock", Some(&clock));
    }
}

/// The time held, in ms and tenths; almost nobody was held.
fn queue_timing(waited: Duration) -> Cow<'static, str> {
    match nanos(waited) / 100_000 {
        0 => Cow::Borrowed("queue;dur=0.0"),
        tenths => Cow::Owned(format!("queue;dur={}.{}", tenths / 10, tenths % 10)),
    }
}

/// Who sent the current request, hashed: the client a trusted proxy names, else the connection's other
/// end without its port. None where the proxy's header is repeated: the connection is the proxy's, and a
/// client that repeats it must not pass for all the others behind it.
fn source(service: &Service, wire: &Wire<'_>) -> Option<u64> {
    let mut hasher = fnv::FnvHasher::default();
    match service.engine().config().source_header() {
        Some(at) => hasher.write(wire.claim(at)?),
        None => return peer(),
    }
    Some(hasher.finish())
}

/// The source of the current request's body, hashed: as a trusted proxy names the client in `header`, else
/// the connection's other end. A list names nobody.
pub(super) fn body_source(header: Option<&str>) -> Option<u64> {
    let named = header.and_then(call::request_header);
    match named.filter(|value| !value.contains(&b',')) {
        Some(value) => {
            let mut hasher = fnv::FnvHasher::default();
            hasher.write(&value);
            Some(hasher.finish())
        }
        None => peer(),
    }
}

/// The connection's other end without its port, hashed.
fn peer() -> Option<u64> {
    let address = call::text(&["source", "address"])?;
    let host = address
        .rsplit_once(':')
        .map_or(address.as_str(), |(host, _)| host);
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(host.as_bytes());
    Some(hasher.finish())
}
