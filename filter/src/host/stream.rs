//! Stream context: one request, from its headers to its end. A request that is no service's is left as it is,
//! and so is its response.

use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use crate::config::Role;
use crate::engine::{ANSWER_BUFFERED, End, IncomingRequest};
use crate::health::HealthSignal;
use crate::request::body::BodyChunk;
use crate::request::protocol;
use crate::request::wire::{Names, Wire};
use crate::shell::Phase;
use crate::verdict::{BodyVerdict, Verdict};

use super::call;
use super::effects::{GRPC, forward, pass, pass_to, refuse, refuse_instead, tag, type_trailers};
use super::messages::UNKNOWN;
use super::response_origin::{ResponseOrigin, end_by_flags, response_origin, retried, served_by};
use super::service::{self, Handle};
use super::services::Services;
use super::source::{peer, source};

pub(super) struct Stream {
    id: u32,
    services: Option<Rc<Services>>,
    /// Service of the request, since its headers.
    service: Option<Handle>,
    phase: Phase,
    /// Whether it speaks gRPC, in which Envoy's own responses have status 200 too.
    grpc: bool,
    /// Content type of answers to it, if it speaks gRPC-Web.
    grpc_web: Option<&'static str>,
    /// Whether Envoy's filter for gRPC-Web encodes answers to it.
    base64: bool,
    /// Body in place of that of Envoy's own answer.
    instead: Option<String>,
    /// Bytes of the response's body so far.
    answered: usize,
    /// Whether the response's headers are held for its first byte.
    awaits_byte: bool,
    /// Whether the response streams.
    streams: bool,
}

impl Stream {
    pub(super) fn new(id: u32, services: Option<Rc<Services>>) -> Stream {
        Stream {
            id,
            services,
            service: None,
            phase: Phase::Passing,
            grpc: false,
            grpc_web: None,
            base64: false,
            instead: None,
            answered: 0,
            awaits_byte: false,
            streams: false,
        }
    }

    /// Handles a chunk of the body; `size`: bytes so far, all of which Envoy holds; `None` at its trailers.
    fn receive(&mut self, size: Option<usize>, complete: bool) -> Action {
        let Some(service) = &self.service else {
            return Action::Continue;
        };
        let bytes = size.unwrap_or_default();
        let received = BodyChunk {
            bytes: bytes as u64,
            complete,
        };
        let verdict = match self.phase {
            Phase::Passing => BodyVerdict::Follows,
            Phase::Open if !complete && service.borrow_mut().hold_body(self.id, bytes) => {
                BodyVerdict::Unknown
            }
            phase => {
                let mut service = service.borrow_mut();
                service.on_body(self.id, phase, received, call::now())
            }
        };
        match verdict {
            BodyVerdict::Decided(verdict) => return self.carry_out(verdict),
            BodyVerdict::Unknown => return Action::Pause,
            BodyVerdict::Follows => {}
        }
        let goes_on = !self.grpc || {
            let mut service = service.borrow_mut();
            service.pass_body(self.id, size.unwrap_or(UNKNOWN), complete)
        };
        action(goes_on)
    }

    /// Carries out a verdict on this request, in its own callback.
    fn carry_out(&mut self, verdict: Verdict) -> Action {
        self.phase = Phase::after(&verdict);
        let (variant, model, follows) = match verdict {
            Verdict::Pass => {
                pass();
                return Action::Continue;
            }
            Verdict::PassTo(passage) => {
                pass_to(&passage);
                (passage.variant, passage.model, true)
            }
            Verdict::Forward(dispatch) => {
                forward(&dispatch);
                (dispatch.variant, dispatch.model, dispatch.body_follows)
            }
            Verdict::Park => return Action::Pause,
            Verdict::Reject(refusal) => {
                refuse(&refusal);
                return Action::Pause;
            }
        };
        let goes_on = self.service.as_ref().is_none_or(|service| {
            let mut service = service.borrow_mut();
            service.begin_messages(self.id, variant, model.as_ref(), follows)
        });
        action(goes_on)
    }

    fn end(&mut self, end: End) {
        if let Some(service) = self.open_at() {
            service::on_end(service, self.id, end, call::now());
        }
        self.phase = Phase::Passing;
    }

    /// Service whose engine knows of it.
    fn open_at(&self) -> Option<&Handle> {
        self.service.as_ref().filter(|_| self.phase == Phase::Open)
    }

    /// Reports that the response exceeds Envoy's buffer for a client that does not read.
    fn exceeds_buffer(&self) {
        if let Some(service) = self.open_at() {
            service::on_response_exceeds_buffer(service, self.id, call::now());
        }
    }
}

fn action(goes_on: bool) -> Action {
    match goes_on {
        true => Action::Continue,
        false => Action::Pause,
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        let Some(services) = &self.services else {
            return Action::Continue;
        };
        service::ACTIONS.refill();
        let headers = call::request_headers();
        self.service = services.of(&headers);
        let Some(service) = &self.service else {
            return Action::Continue;
        };
        #[cfg(feature = "trap")]
        if super::trap::on_request(self.id, service.borrow().engine().config()) {
            return Action::Pause;
        }
        let verdict = {
            let mut service = service.borrow_mut();
            let config = service.engine().config();
            let names = Names {
                claims: &config.claim_headers,
                budgets: &config.budget_headers,
            };
            let named = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()));
            let wire = Wire::pick_with(named, names);
            let wants = service.engine().required_lookups(&wire);
            let proof = wants.proof.and_then(call::property);
            let source = wants.source.then(|| source(&service, &wire)).flatten();
            let sender = source.or_else(|| wants.source.then(peer).flatten());
            let incoming = IncomingRequest {
                wire,
                source,
                sender,
                proof: proof.as_deref(),
                body_follows: !end_of_stream && service.expects_body(&headers),
            };
            self.grpc = protocol::is_grpc(&wire);
            self.grpc_web = protocol::grpc_web_answer(&wire);
            self.base64 = self.grpc && protocol::accepts_base64(&headers);
            service.on_request(self.id, &incoming, call::now())
        };
        self.carry_out(verdict)
    }

    fn on_http_request_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        self.receive(Some(size), end_of_stream)
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        // With trailers the body has no end of its own.
        self.receive(None, true)
    }

    fn on_http_response_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        #[cfg(feature = "trap")]
        super::trap::on_response(self.id);
        if let Some(kind) = self.grpc_web {
            type_trailers(kind);
        }
        let Some(service) = self.open_at().cloned() else {
            return Action::Continue;
        };
        let (role, moves_on, retries) = {
            let service = service.borrow();
            let config = service.engine().config();
            (
                config.role,
                config.failover.is_some(),
                config.max_retries > 0,
            )
        };
        let served_by = moves_on.then(served_by).flatten();
        match response_origin(role == Role::Router, self.grpc && end_of_stream) {
            ResponseOrigin::Envoy(end, reason) => {
                let refusal = reason.and_then(|reason| {
                    let service = service.borrow();
                    let now = call::now().mono;
                    service.shell().refusal_instead(self.id, reason, now)
                });
                if let Some(refusal) = refusal {
                    let kind = self.grpc_web.unwrap_or(GRPC);
                    self.instead = refuse_instead(&refusal, !end_of_stream, kind, self.base64);
                }
                self.end(end);
            }
            ResponseOrigin::Upstream(mut answer) => {
                if retries {
                    answer.retried = retried();
                }
                let now = call::now();
                let mut service = service.borrow_mut();
                answer.served_by = served_by.and_then(|name| service.engine().variant(&name));
                if matches!(
                    answer.sign,
                    Some(HealthSignal::Erred | HealthSignal::NotFound)
                ) {
                    answer.source = service.source();
                }
                let tags = service.on_answer(self.id, answer, now);
                drop(service);
                if let Some(tags) = tags {
                    tag(&tags, now);
                    self.awaits_byte = tags.awaits_byte && !end_of_stream;
                    self.streams = tags.streams;
                }
                if end_of_stream {
                    self.end(End::Answered);
                }
            }
        }
        action(!self.awaits_byte)
    }

    fn on_http_response_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        if let Some(body) = &mut self.instead {
            call::replace_response_body(size, std::mem::take(body).as_bytes());
            return Action::Continue;
        }
        if self.awaits_byte {
            if size == 0 && !end_of_stream {
                return Action::Pause;
            }
            self.awaits_byte = false;
            if let Some(service) = self.open_at() {
                service.borrow_mut().on_first_byte(self.id, call::now());
            }
        }
        let before = self.answered;
        self.answered = before.saturating_add(size);
        let buffers = |bytes: usize| bytes.saturating_sub(1) / ANSWER_BUFFERED;
        if end_of_stream {
            self.end(End::Answered);
        } else if buffers(before) < buffers(self.answered) && (self.streams || buffers(before) == 0)
        {
            self.exceeds_buffer();
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        self.awaits_byte = false;
        self.end(End::Answered);
        Action::Continue
    }
}

/// Envoy deletes a stream as soon as its response has left, or it is aborted. It would report the end twice
/// before (`on_done`, `on_log`): calls into the VM that `xtask/src/trim.rs` saves.
impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(service) = self.service.as_ref().filter(|_| self.grpc) {
            service.borrow_mut().forget_messages(self.id);
        }
        if self.phase == Phase::Open {
            self.end(end_by_flags());
        }
    }
}
