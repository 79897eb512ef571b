//! Hostcalls in the filter's own types, each wrapped once; what a failure means is decided here. None panics
//! ([`weir_abi`]).

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use proxy_wasm::types::{BufferType, Bytes, MapType, MetricType};
use weir_abi::hostcalls;

use crate::coordination::Notification;
use crate::reason::GrpcCode;
use crate::time::{Mono, Now, Span, Wall};

/// Messages in a queue: the reason of a notification.
const SLOT: &[u8] = b"s";
const PLAN: &[u8] = b"p";
const HEALTH: &[u8] = b"h";

/// Time for which the wall clock is derived from the monotonic clock. Each reading of a clock leaves the
/// VM; a step of the wall clock is noticed after this time.
const WALL_OFFSET_TTL: Span = Span::from_millis(50);
/// Last known offset of the wall clock from the monotonic clock, ns.
static OFFSET: AtomicU64 = AtomicU64::new(0);
/// End of its validity on the monotonic clock, ns.
static OFFSET_VALID_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Reads both clocks. The monotonic clock is Envoy's, the same for all its VMs.
pub(super) fn now() -> Now {
    let mono = mono();
    if OFFSET_VALID_UNTIL.load(Ordering::Relaxed) <= mono.0 {
        OFFSET.store(wall_ns().saturating_sub(mono.0), Ordering::Relaxed);
        OFFSET_VALID_UNTIL.store((mono + WALL_OFFSET_TTL).0, Ordering::Relaxed);
    }
    let offset = OFFSET.load(Ordering::Relaxed);
    Now {
        mono,
        wall: Wall(mono.0.saturating_add(offset)),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
fn wall_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Converts from `coarsetime`, which counts in 2^-32 s.
fn mono() -> Mono {
    let ticks = coarsetime::Instant::now().as_ticks();
    let (whole, part) = (ticks >> 32, ticks & u64::from(u32::MAX));
    Mono(whole * 1_000_000_000 + ((part * 1_000_000_000) >> 32))
}

/// Returns all headers of the current request.
pub(super) fn request_headers() -> Vec<(String, Bytes)> {
    hostcalls::headers(MapType::HttpRequestHeaders).unwrap_or_default()
}

/// Returns a header of the current request; repeated ones as a list.
pub(super) fn request_header(name: &str) -> Option<Bytes> {
    hostcalls::header(MapType::HttpRequestHeaders, name)
        .ok()
        .flatten()
}

fn set_header(of: MapType, name: &str, value: Option<&str>) {
    let _ = match value {
        Some(value) => hostcalls::set_header(of, name, value),
        None => hostcalls::remove_header(of, name),
    };
}

/// Sets a header of the current request, or removes it with `None`.
pub(super) fn set_request_header(name: &str, value: Option<&str>) {
    set_header(MapType::HttpRequestHeaders, name, value);
}

/// Returns the status of the current response, upstream's or Envoy's own.
pub(super) fn response_status() -> Option<Bytes> {
    response_header(":status")
}

/// Returns a header of the current response.
pub(super) fn response_header(name: &str) -> Option<Bytes> {
    hostcalls::header(MapType::HttpResponseHeaders, name)
        .ok()
        .flatten()
}

/// Sets a header of the current response, or removes it with `None`.
pub(super) fn set_response_header(name: &str, value: Option<&str>) {
    set_header(MapType::HttpResponseHeaders, name, value);
}

/// Adds a header to the current response, beside any of the same name.
pub(super) fn add_response_header(name: &str, value: &str) {
    let _ = hostcalls::add_header(MapType::HttpResponseHeaders, name, value);
}

/// Returns a property of the current stream.
pub(super) fn property(path: &[String]) -> Option<Bytes> {
    hostcalls::property(path).ok().flatten()
}

/// Returns a property of the current stream as text.
pub(super) fn text(path: &[&str]) -> Option<String> {
    let bytes = hostcalls::property(path).ok().flatten()?;
    String::from_utf8(bytes).ok()
}

/// Returns a property of the current stream as an integer.
pub(super) fn number(path: &[&str]) -> Option<u64> {
    let bytes = hostcalls::property(path).ok().flatten()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Sets the context of the next hostcalls; returns whether it still exists.
pub(super) fn set_context(context: u32) -> bool {
    hostcalls::set_effective_context(context).is_ok()
}

/// Returns at most `max` bytes of the current request's body, from the first that Envoy holds on.
pub(super) fn request_body(max: usize) -> Bytes {
    hostcalls::buffer(BufferType::HttpRequestBody, 0, max)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Replaces that many of these bytes, from the first on. There must be as many.
pub(super) fn replace_request_body(bytes: usize, by: &[u8]) {
    let _ = hostcalls::set_buffer(BufferType::HttpRequestBody, 0, bytes, by);
}

/// Replaces the `size` bytes of a response's body that Envoy passes now.
pub(super) fn replace_response_body(size: usize, by: &[u8]) {
    let _ = hostcalls::set_buffer(BufferType::HttpResponseBody, 0, size, by);
}

/// Resumes a held request.
pub(super) fn resume_request() {
    let _ = hostcalls::resume_request();
}

/// Answers the current request locally.
pub(super) fn answer(status: u32, headers: &[(&str, Cow<'_, str>)], body: &[u8]) {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    let _ = hostcalls::answer(status, &headers, body, None);
}

/// Answers the current gRPC request locally, with trailers only.
pub(super) fn answer_grpc(code: GrpcCode, headers: &[(&str, Cow<'_, str>)]) {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    let _ = hostcalls::answer(200, &headers, &[], Some(code as i32));
}

/// Makes Envoy choose the route again, because an earlier filter may have caused a choice.
pub(super) fn clear_route_cache() {
    let _ = hostcalls::call_foreign("clear_route_cache");
}

/// Sets the period of `on_tick`.
pub(super) fn set_tick(period: Span) {
    let _ = hostcalls::set_tick_period(u32::try_from(period.as_millis()).unwrap_or(u32::MAX));
}

/// Returns shared data and its version.
pub(super) fn shared(key: &str) -> (Option<Bytes>, Option<u32>) {
    let (bytes, version) = hostcalls::shared_data(key).unwrap_or_default();
    (bytes, Some(version).filter(|version| *version > 0))
}

/// Writes shared data if its version is still `version`; returns whether it did.
pub(super) fn set_shared(key: &str, value: &[u8], version: Option<u32>) -> bool {
    hostcalls::set_shared_data(key, value, version.unwrap_or_default()).is_ok()
}

/// Makes this VM the owner of a queue, and returns it.
pub(super) fn register_queue(name: &str) -> Option<u32> {
    hostcalls::register_queue(name).ok()
}

/// Finds another VM's queue by its name.
pub(super) fn find_queue(vm_id: &str, name: &str) -> Option<u32> {
    hostcalls::resolve_queue(vm_id, name).ok()
}

/// Notifies the owner of a queue; returns whether the queue exists.
pub(super) fn notify(queue: u32, why: Notification) -> bool {
    let word: &[u8] = match why {
        Notification::Slot => SLOT,
        Notification::Plan => PLAN,
        Notification::Health => HEALTH,
    };
    hostcalls::enqueue(queue, word).is_ok()
}

/// Drains our own queue; returns whether it contained more than free slots. Bounded: remaining messages
/// cause another callback.
pub(super) fn drain_queue(queue: u32) -> bool {
    const NOTIFICATIONS_MAX: usize = 1024;
    let mut plan = false;
    for _ in 0..NOTIFICATIONS_MAX {
        match hostcalls::dequeue(queue) {
            Ok(Some(word)) => plan |= word != SLOT,
            _ => break,
        }
    }
    plan
}

/// Sends a GET; `None` if the cluster does not exist.
pub(super) fn get(cluster: &str, headers: Vec<(&str, &str)>, timeout: Span) -> Option<u32> {
    // The SDK's own, because its dispatcher must know the call; it expects every status that Envoy has for it.
    proxy_wasm::hostcalls::dispatch_http_call(cluster, headers, None, vec![], timeout.into()).ok()
}

/// Returns the status of the answer to [`get`].
pub(super) fn call_status() -> Option<u32> {
    let status = hostcalls::header(MapType::HttpCallResponseHeaders, ":status");
    std::str::from_utf8(&status.ok()??).ok()?.parse().ok()
}

/// Returns at most `max` bytes of the answer to [`get`].
pub(super) fn call_body(max: usize) -> Bytes {
    hostcalls::buffer(BufferType::HttpCallResponseBody, 0, max)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Returns the plugin's configuration.
pub(super) fn configuration() -> Bytes {
    let read = hostcalls::buffer(BufferType::PluginConfiguration, 0, usize::MAX);
    read.ok().flatten().unwrap_or_default()
}

/// Defines a metric and returns its id; `None` if Envoy refuses it.
pub(super) fn define(kind: MetricType, name: &str) -> Option<u32> {
    hostcalls::define_metric(kind, name).ok()
}

/// Sets a gauge or adds a value to a histogram.
pub(super) fn record(metric: u32, value: u64) {
    let _ = hostcalls::record_metric(metric, value);
}

/// Adds to a counter or gauge.
pub(super) fn increment(metric: u32, by: i64) {
    let _ = hostcalls::increment_metric(metric, by);
}
