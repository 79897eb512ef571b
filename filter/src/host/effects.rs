//! Effects of a verdict on the current stream: headers set, local replies, response tags.

use std::borrow::Cow;

use crate::engine::Tags;
use crate::request::model::{self, NamePlace};
use crate::request::wire::Field;
use crate::time::{Now, Span};
use crate::verdict::{Dispatch, OwnModel, Passage, Refusal, StageHeader};

use super::call;
use super::response_origin::{DROPPED_REASON, EXPECTED};

/// Content type of gRPC's answers.
pub(super) const GRPC: &str = "application/grpc";
/// A message of gRPC without content.
const EMPTY_MESSAGE: &str = "\0\0\0\0\0";

/// Maximum number in `grpc-timeout`: eight digits.
const GRPC_TIMEOUT_MAX: u64 = 99_999_999;

/// Header with the variants that a request names and, on answers, with what became of them.
const VARIANTS: &str = Field::Variants.name();

/// Header with the names of a request's headers that were ignored.
const IGNORED: &str = "x-slo-ignored";

/// Lets a request pass, without a client's own route key, which must not choose a cluster.
pub(super) fn pass() {
    call::set_request_header("x-slo-cluster", None);
    call::clear_route_cache();
}

/// Lets a request pass to a variant's servers.
pub(super) fn pass_to(passage: &Passage) {
    if let Some(cluster) = &passage.cluster {
        call::set_request_header("x-slo-cluster", Some(cluster));
    }
    rename_path(passage.model.as_ref());
    call::clear_route_cache();
}

/// Puts the variant's own name for the model into the path, if the client's is there.
fn rename_path(model: Option<&OwnModel>) {
    let Some(model) = model.filter(|model| model.place == NamePlace::Path) else {
        return;
    };
    let path = call::request_header(":path").unwrap_or_default();
    if let Some(renamed) = model::rename(&path, &model.name) {
        call::set_request_header(":path", Some(&renamed));
    }
}

pub(super) fn forward(dispatch: &Dispatch) {
    let mut digits = itoa::Buffer::new();
    let ms = |span: Span| span.as_millis().max(1);
    if let Some(cluster) = &dispatch.cluster {
        call::set_request_header("x-slo-cluster", Some(cluster));
        call::set_request_header("x-slo-variant", Some(&dispatch.name));
    }
    rename_path(dispatch.model.as_ref());
    if let Some(own) = &dispatch.path {
        let path = call::request_header(":path").unwrap_or_default();
        if let Some(replaced) = model::replace_path(&path, own) {
            call::set_request_header(":path", Some(&replaced));
        }
    }
    let remaining = digits.format(ms(dispatch.remaining));
    call::set_request_header("x-slo-remaining-ms", Some(remaining));
    let deadline = digits.format(dispatch.deadline.as_ms());
    call::set_request_header("x-slo-deadline", Some(deadline));
    if dispatch.lists_variants {
        call::set_request_header(VARIANTS, None);
    }
    match dispatch.stage {
        StageHeader::Absent => {}
        StageHeader::Remove => call::set_request_header("x-slo-stage-ms", None),
        StageHeader::Set(left) => {
            call::set_request_header("x-slo-stage-ms", Some(digits.format(ms(left))));
        }
    }
    if let Some(class) = &dispatch.class {
        call::set_request_header("x-slo-class", Some(class));
    }
    // None: only the answer's headers tell whether it streams. The engine ends one that does not.
    call::set_request_header("x-envoy-upstream-rq-timeout-ms", Some("0"));
    // As its own timer, so that Envoy counts a replica that hangs, and ejects it. Rounded up: an answer in the deadline's
    // last millisecond is in time.
    if let Some(begins) = dispatch.begins {
        let ms = digits.format(begins.as_millis_up().max(1));
        call::set_request_header("x-envoy-upstream-rq-per-try-timeout-ms", Some(ms));
    }
    // Overrides the route's own; Envoy's router reads and removes it. It counts hedges as retries too.
    let max_retries = digits.format(dispatch.max_retries);
    call::set_request_header("x-envoy-max-retries", Some(max_retries));
    if dispatch.grpc_timeout {
        let ms = dispatch.remaining.as_millis().clamp(1, GRPC_TIMEOUT_MAX);
        call::set_request_header("grpc-timeout", Some(&format!("{ms}m")));
    }
    if dispatch.cluster.is_some() {
        call::clear_route_cache();
    }
}

/// Answers the current request with a refusal.
pub(super) fn refuse(refusal: &Refusal) {
    let headers = refusal_headers(refusal);
    if refusal.trailers_only {
        call::answer_grpc(refusal.reason.grpc_code(), &headers);
    } else {
        let body = refusal.facts.body(refusal.reason);
        call::answer(refusal.reason.status(), &headers, body.as_bytes());
    }
}

/// Makes a refusal of the current response, an answer of Envoy's own; returns the body in place of its own, if it
/// has one: none can be added to a response of headers only, such as that for a missing cluster.
/// `content_type`: that of a client that reads a gRPC status; `base64`: Envoy's filter for gRPC-Web encodes its answer.
pub(super) fn refuse_instead(
    refusal: &Refusal,
    has_body: bool,
    content_type: &str,
    base64: bool,
) -> Option<String> {
    for (name, value) in refusal_headers(refusal) {
        call::set_response_header(name, Some(&value));
    }
    if refusal.trailers_only {
        call::set_response_header(":status", Some("200"));
        call::set_response_header("content-type", Some(content_type));
        call::set_response_header("content-length", None);
        // Envoy's filter for gRPC-Web waits for a message before it ends an answer in base64.
        return has_body.then(|| String::from(if base64 { EMPTY_MESSAGE } else { "" }));
    }
    // A refusal that was pending may have another reason than Envoy's answer.
    let status = refusal.reason.status().to_string();
    call::set_response_header(":status", Some(&status));
    if !has_body {
        call::set_response_header("content-type", None);
        return None;
    }
    let body = refusal.facts.body(refusal.reason);
    call::set_response_header("content-length", Some(&body.len().to_string()));
    Some(body)
}

/// Headers of a refusal; those of a gRPC status too, because Envoy adds them only where it takes the request for gRPC
/// itself, which it decides before the filter for gRPC-Web has made gRPC of it.
fn refusal_headers(refusal: &Refusal) -> Vec<(&'static str, Cow<'_, str>)> {
    let reason = refusal.reason;
    let number = |number: u64| Cow::Owned(number.to_string());
    let mut headers = vec![(DROPPED_REASON, Cow::Borrowed(reason.label()))];
    if let Some(seconds) = refusal.retry_after_s {
        headers.push(("retry-after", number(seconds.into())));
    }
    if reason.forbids_retries() {
        headers.push(("x-envoy-ratelimited", Cow::Borrowed("true")));
    }
    if let Some(waited) = refusal.facts.in_queue() {
        headers.push(("server-timing", queue_timing(waited)));
    }
    if let Some(expected) = refusal.expected {
        headers.push((EXPECTED, number(expected.as_millis())));
    }
    if let Some(variants) = &refusal.variants {
        headers.push((VARIANTS, Cow::Borrowed(variants)));
    }
    if let Some(ignored) = &refusal.ignored {
        headers.push((IGNORED, Cow::Borrowed(ignored)));
    }
    if refusal.trailers_only {
        let message = refusal.facts.message(reason);
        headers.push(("grpc-status", number(reason.grpc_code() as u64)));
        headers.push(("grpc-message", Cow::Owned(message)));
    } else {
        headers.push(("content-type", Cow::Borrowed("application/json")));
    }
    headers
}

/// Gives a response of trailers only its content type, which Envoy removes from a local one without a body.
pub(super) fn type_trailers(content_type: &str) {
    let is_bare = call::response_header("content-type").is_none();
    if is_bare && call::response_header("grpc-status").is_some() {
        call::set_response_header("content-type", Some(content_type));
    }
}

pub(super) fn tag(tags: &Tags, now: Now) {
    call::set_response_header("x-slo-variant", Some(&tags.variant));
    let mut digits = itoa::Buffer::new();
    let remaining = digits.format(tags.remaining.as_millis());
    call::set_response_header("x-slo-remaining-ms", Some(remaining));
    if let Some(variants) = &tags.variants {
        call::set_response_header(VARIANTS, Some(variants));
    }
    if let Some(ignored) = &tags.ignored {
        call::set_response_header(IGNORED, Some(ignored));
    }
    if let Some(waited) = tags.waited {
        call::add_response_header("server-timing", &queue_timing(waited));
    }
    if let Some(expected) = tags.expected {
        call::set_response_header(EXPECTED, Some(digits.format(expected.as_millis())));
    }
    if let Some(came) = tags.came {
        // As in NTP: from these two and its own two times a client computes its clock offset.
        let clock = format!("in={};out={}", came.as_ms(), now.wall.as_ms());
        call::set_response_header("x-slo-clock", Some(&clock));
    }
}

/// Time held, in ms and tenths; most requests are not held.
fn queue_timing(waited: Span) -> Cow<'static, str> {
    match waited.as_nanos() / 100_000 {
        0 => Cow::Borrowed("queue;dur=0.0"),
        tenths => Cow::Owned(format!("queue;dur={}.{}", tenths / 10, tenths % 10)),
    }
}
