//! Each hostcall wrapped once. Many of the SDK's panic on a status they do not expect; here are
//! the ones we use, with what we make of a failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, Bytes, GrpcStatusCode, MapType, MetricType};

use crate::coordination::Notification;
use crate::reason::GrpcCode;
use crate::time::{Mono, Now, Wall};

/// What is put in a queue to say why it rings.
const SLOT: &[u8] = b"s";
const PLAN: &[u8] = b"p";
const HEALTH: &[u8] = b"h";

/// For how long the wall clock is told by the monotonic one. Each look at a clock leaves the VM; a step
/// of the wall clock is seen so much later.
const WALL_OFFSET_TTL: Duration = Duration::from_millis(50);
/// The wall clock less the monotonic one, ns, as seen last.
static OFFSET: AtomicU64 = AtomicU64::new(0);
/// Until when that holds, by the monotonic clock, ns.
static OFFSET_VALID_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Both clocks. The monotonic one is Envoy's, the same for all its VMs.
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

/// `coarsetime` counts in 2^-32 s.
fn mono() -> Mono {
    let ticks = coarsetime::Instant::now().as_ticks();
    let (whole, part) = (ticks >> 32, ticks & u64::from(u32::MAX));
    Mono(whole * 1_000_000_000 + ((part * 1_000_000_000) >> 32))
}

/// All headers of the current request.
pub(super) fn request_headers() -> Vec<(String, Bytes)> {
    hostcalls::get_map_bytes(MapType::HttpRequestHeaders).unwrap_or_default()
}

/// A header of the current request; several of one name as a list.
pub(super) fn request_header(name: &str) -> Option<Bytes> {
    hostcalls::get_map_value_bytes(MapType::HttpRequestHeaders, name)
        .ok()
        .flatten()
}

/// Sets, or with `None` removes, a header of the current request.
pub(super) fn set_request_header(name: &str, value: Option<&str>) {
    let _ = hostcalls::set_map_value(MapType::HttpRequestHeaders, name, value);
}

/// The status of the current answer, upstream's or Envoy's own.
pub(super) fn response_status() -> Option<Bytes> {
    response_header(":status")
}

/// A header of the current answer.
pub(super) fn response_header(name: &str) -> Option<Bytes> {
    hostcalls::get_map_value_bytes(MapType::HttpResponseHeaders, name)
        .ok()
        .flatten()
}

/// Sets, or with `None` removes, a header of the current answer.
pub(super) fn set_response_header(name: &str, value: Option<&str>) {
    let _ = hostcalls::set_map_value(MapType::HttpResponseHeaders, name, value);
}

/// Adds to a header of the current answer that may already be there.
pub(super) fn add_response_header(name: &str, value: &str) {
    let _ = hostcalls::add_map_value(MapType::HttpResponseHeaders, name, value);
}

/// A property of the current stream.
pub(super) fn property(path: &[String]) -> Option<Bytes> {
    let path = path.iter().map(String::as_str).collect();
    hostcalls::get_property(path).ok().flatten()
}

/// A property of the current stream, as text.
pub(super) fn text(path: &[&str]) -> Option<String> {
    let bytes = hostcalls::get_property(path.to_vec()).ok().flatten()?;
    String::from_utf8(bytes).ok()
}

/// A property of the current stream, as a whole number.
pub(super) fn number(path: &[&str]) -> Option<u64> {
    let bytes = hostcalls::get_property(path.to_vec()).ok().flatten()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Makes `context` the one the next hostcalls are about; whether it still exists.
pub(super) fn set_context(context: u32) -> bool {
    hostcalls::set_effective_context(context).is_ok()
}

/// Lets a held request go on.
pub(super) fn resume_request() {
    let _ = hostcalls::resume_http_request();
}

/// Answers the current request here.
pub(super) fn answer(status: u32, headers: Vec<(&str, &str)>, body: &[u8]) {
    let _ = hostcalls::send_http_response(status, headers, Some(body));
}

/// Answers the current gRPC request here, with trailers only.
pub(super) fn answer_grpc(code: GrpcCode, body_contains: &str, headers: Vec<(&str, &str)>) {
    let status = match code {
        GrpcCode::DeadlineExceeded => GrpcStatusCode::DeadlineExceeded,
        GrpcCode::ResourceExhausted => GrpcStatusCode::ResourceExhausted,
        GrpcCode::Unavailable => GrpcStatusCode::Unavailable,
    };
    let metadata = headers
        .into_iter()
        .map(|(name, value)| (name, value.as_bytes()))
        .collect();
    let _ = hostcalls::send_grpc_response(status, Some(body_contains), metadata);
}

/// Makes Envoy pick the route again: another filter may have had it picked before ours.
pub(super) fn clear_route_cache() {
    let _ = hostcalls::call_foreign_function("clear_route_cache", None);
}

/// How often `on_tick` is called from now on.
pub(super) fn set_tick(period: Duration) {
    let _ = hostcalls::set_tick_period(period);
}

/// Shared data and its version.
pub(super) fn shared(key: &str) -> (Option<Bytes>, Option<u32>) {
    hostcalls::get_shared_data(key).unwrap_or((None, None))
}

/// Writes shared data if its version is still `version`; whether it was.
pub(super) fn set_shared(key: &str, value: &[u8], version: Option<u32>) -> bool {
    hostcalls::set_shared_data(key, Some(value), version).is_ok()
}

/// Makes this VM the owner of a queue.
pub(super) fn register_queue(name: &str) {
    let _ = hostcalls::register_shared_queue(name);
}

/// Another VM's queue, if it has one of that name.
pub(super) fn find_queue(vm_id: &str, name: &str) -> Option<u32> {
    hostcalls::resolve_shared_queue(vm_id, name).ok().flatten()
}

/// Wakes the owner of a queue; whether there is such a queue.
pub(super) fn notify(queue: u32, why: Notification) -> bool {
    let word: &[u8] = match why {
        Notification::Slot => SLOT,
        Notification::Plan => PLAN,
        Notification::Health => HEALTH,
    };
    hostcalls::enqueue_shared_queue(queue, Some(word)).is_ok()
}

/// Empties our own queue; whether more than a free slot was among what it said. Bounded: what is left rings again.
pub(super) fn drain_queue(queue: u32) -> bool {
    const NOTIFICATIONS_MAX: usize = 1024;
    let mut plan = false;
    for _ in 0..NOTIFICATIONS_MAX {
        match hostcalls::dequeue_shared_queue(queue) {
            Ok(Some(word)) => plan |= word != SLOT,
            _ => break,
        }
    }
    plan
}

/// Sends a GET; `None` where the cluster does not exist.
pub(super) fn get(cluster: &str, headers: Vec<(&str, &str)>, timeout: Duration) -> Option<u32> {
    hostcalls::dispatch_http_call(cluster, headers, None, vec![], timeout).ok()
}

/// The status of the answer to [`get`].
pub(super) fn call_status() -> Option<u32> {
    let status = hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, ":status");
    std::str::from_utf8(&status.ok()??).ok()?.parse().ok()
}

/// At most `max` bytes of the answer to [`get`].
pub(super) fn call_body(max: usize) -> Bytes {
    hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, max)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// A metric's number in Envoy; `None` where Envoy will not have it.
pub(super) fn define(kind: MetricType, name: &str) -> Option<u32> {
    hostcalls::define_metric(kind, name).ok()
}

/// Sets a gauge or records into a histogram.
pub(super) fn record(metric: u32, value: u64) {
    let _ = hostcalls::record_metric(metric, value);
}

/// Moves a counter or gauge.
pub(super) fn increment(metric: u32, by: i64) {
    let _ = hostcalls::increment_metric(metric, by);
}
