//! Hostcalls of the filter. Each returns the host's status; none panics.

use std::borrow::Borrow;
use std::ptr::null_mut;

use proxy_wasm::types::{BufferType, Bytes, MapType, MetricType};

use crate::{Status, pairs};

/// Stream to resume: the current stream's request.
const REQUEST: u32 = 0;
/// No gRPC status: the reply is plain HTTP.
const NO_GRPC: i32 = -1;

// SAFETY: declared as in ABI 0.2.1. Envoy refuses to load a module whose imports have other types.
#[link(wasm_import_module = "env")]
unsafe extern "C" {
    safe fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    safe fn proxy_set_effective_context(context: u32) -> u32;
    safe fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        max: usize,
        into: *mut *mut u8,
        size_into: *mut usize,
    ) -> u32;
    fn proxy_set_buffer_bytes(
        buffer: u32,
        start: usize,
        replaced: usize,
        data: *const u8,
        size: usize,
    ) -> u32;
    fn proxy_get_header_map_pairs(map: u32, into: *mut *mut u8, size_into: *mut usize) -> u32;
    fn proxy_get_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        into: *mut *mut u8,
        size_into: *mut usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_size: usize) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_add_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_get_property(
        path: *const u8,
        path_size: usize,
        into: *mut *mut u8,
        size_into: *mut usize,
    ) -> u32;
    fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        into: *mut *mut u8,
        size_into: *mut usize,
        version_into: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        version: u32,
    ) -> u32;
    fn proxy_register_shared_queue(name: *const u8, name_size: usize, into: *mut u32) -> u32;
    fn proxy_resolve_shared_queue(
        vm: *const u8,
        vm_size: usize,
        name: *const u8,
        name_size: usize,
        into: *mut u32,
    ) -> u32;
    fn proxy_dequeue_shared_queue(queue: u32, into: *mut *mut u8, size_into: *mut usize) -> u32;
    fn proxy_enqueue_shared_queue(queue: u32, data: *const u8, size: usize) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_call_foreign_function(
        name: *const u8,
        name_size: usize,
        data: *const u8,
        size: usize,
        into: *mut *mut u8,
        size_into: *mut usize,
    ) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, name_size: usize, into: *mut u32) -> u32;
    safe fn proxy_record_metric(metric: u32, value: u64) -> u32;
    safe fn proxy_increment_metric(metric: u32, by: i64) -> u32;
}

/// Makes a call that returns bytes: it gets the places for their address and their length. `None` where the host has none.
fn returned(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Option<Bytes>, Status> {
    let (mut data, mut size) = (null_mut::<u8>(), 0);
    let status = call(&mut data, &mut size);
    // SAFETY: the host returns all of what it has allocated by the SDK's `proxy_on_memory_allocate`, a vector of this
    // capacity, and forgets it.
    let bytes = (!data.is_null()).then(|| unsafe { Vec::from_raw_parts(data, size, size) });
    Status::check(status).map(|()| bytes)
}

/// Makes a call that returns a number: it gets the place for it.
fn returned_number(call: impl FnOnce(*mut u32) -> u32) -> Result<u32, Status> {
    let mut number = 0;
    let status = call(&mut number);
    Status::check(status).map(|()| number)
}

/// Sets the period of the root's ticks.
pub fn set_tick_period(ms: u32) -> Result<(), Status> {
    Status::check(proxy_set_tick_period_milliseconds(ms))
}

/// Sets the context of the next hostcalls.
pub fn set_effective_context(context: u32) -> Result<(), Status> {
    Status::check(proxy_set_effective_context(context))
}

/// Resumes the current request.
pub fn resume_request() -> Result<(), Status> {
    Status::check(proxy_continue_stream(REQUEST))
}

/// Returns at most `max` bytes of a buffer, from `start` on.
pub fn buffer(buffer: BufferType, start: usize, max: usize) -> Result<Option<Bytes>, Status> {
    // SAFETY: both places are.
    returned(|into, size| unsafe { proxy_get_buffer_bytes(buffer as u32, start, max, into, size) })
}

/// Replaces that many bytes of a buffer, from `start` on.
pub fn set_buffer(
    buffer: BufferType,
    start: usize,
    replaced: usize,
    by: &[u8],
) -> Result<(), Status> {
    // SAFETY: the bytes are alive.
    let status =
        unsafe { proxy_set_buffer_bytes(buffer as u32, start, replaced, by.as_ptr(), by.len()) };
    Status::check(status)
}

/// Returns all headers.
pub fn headers(of: MapType) -> Result<Vec<(String, Bytes)>, Status> {
    // SAFETY: both places are.
    let list = returned(|into, size| unsafe { proxy_get_header_map_pairs(of as u32, into, size) });
    list.map(|list| pairs::decode(&list.unwrap_or_default()))
}

/// Returns a header; repeated ones as a list.
pub fn header(of: MapType, name: &str) -> Result<Option<Bytes>, Status> {
    // SAFETY: the name is alive, and both places are.
    returned(|into, size| unsafe {
        proxy_get_header_map_value(of as u32, name.as_ptr(), name.len(), into, size)
    })
}

/// Sets a header.
pub fn set_header(of: MapType, name: &str, value: &str) -> Result<(), Status> {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    // SAFETY: both strings are alive.
    Status::check(unsafe {
        proxy_replace_header_map_value(
            of as u32,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    })
}

/// Removes a header.
pub fn remove_header(of: MapType, name: &str) -> Result<(), Status> {
    // SAFETY: the name is alive.
    Status::check(unsafe { proxy_remove_header_map_value(of as u32, name.as_ptr(), name.len()) })
}

/// Adds a header, beside any of the same name.
pub fn add_header(of: MapType, name: &str, value: &str) -> Result<(), Status> {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    // SAFETY: both strings are alive.
    Status::check(unsafe {
        proxy_add_header_map_value(
            of as u32,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    })
}

/// Returns a property.
pub fn property<S: Borrow<str>>(path: &[S]) -> Result<Option<Bytes>, Status> {
    let path = path.join("\0");
    // SAFETY: the path is alive, and both places are.
    returned(|into, size| unsafe { proxy_get_property(path.as_ptr(), path.len(), into, size) })
}

/// Returns shared data and its version, 0 if there never was a value.
pub fn shared_data(key: &str) -> Result<(Option<Bytes>, u32), Status> {
    let mut version = 0;
    // SAFETY: the key is alive, and all three places are.
    let bytes = returned(|into, size| unsafe {
        proxy_get_shared_data(key.as_ptr(), key.len(), into, size, &mut version)
    });
    bytes.map(|bytes| (bytes, version))
}

/// Writes shared data, if it has that version; 0 stands for any.
pub fn set_shared_data(key: &str, value: &[u8], version: u32) -> Result<(), Status> {
    // SAFETY: key and value are alive.
    Status::check(unsafe {
        proxy_set_shared_data(
            key.as_ptr(),
            key.len(),
            value.as_ptr(),
            value.len(),
            version,
        )
    })
}

/// Makes this VM the owner of a queue, and returns it.
pub fn register_queue(name: &str) -> Result<u32, Status> {
    // SAFETY: the name is alive, and the place is.
    returned_number(|into| unsafe { proxy_register_shared_queue(name.as_ptr(), name.len(), into) })
}

/// Returns the queue of a name that VMs with this id own.
pub fn resolve_queue(vm: &str, name: &str) -> Result<u32, Status> {
    // SAFETY: both names are alive, and the place is.
    returned_number(|into| unsafe {
        proxy_resolve_shared_queue(vm.as_ptr(), vm.len(), name.as_ptr(), name.len(), into)
    })
}

/// Takes the next message out of a queue.
pub fn dequeue(queue: u32) -> Result<Option<Bytes>, Status> {
    // SAFETY: both places are.
    returned(|into, size| unsafe { proxy_dequeue_shared_queue(queue, into, size) })
}

/// Puts a message into a queue.
pub fn enqueue(queue: u32, message: &[u8]) -> Result<(), Status> {
    // SAFETY: the message is alive.
    Status::check(unsafe { proxy_enqueue_shared_queue(queue, message.as_ptr(), message.len()) })
}

/// Answers the current request. `grpc`: with that status, in trailers only; the body is its message then.
pub fn answer(
    status: u32,
    headers: &[(&str, &str)],
    body: &[u8],
    grpc: Option<i32>,
) -> Result<(), Status> {
    let headers = pairs::encode(headers);
    // SAFETY: body and headers are alive; Envoy reads no details of size 0.
    Status::check(unsafe {
        proxy_send_local_response(
            status,
            [].as_ptr(),
            0,
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            grpc.unwrap_or(NO_GRPC),
        )
    })
}

/// Calls a function of the host by its name, without an argument.
pub fn call_foreign(name: &str) -> Result<Option<Bytes>, Status> {
    // SAFETY: the name is alive, and both places are; Envoy reads no argument of size 0.
    returned(|into, size| unsafe {
        proxy_call_foreign_function(name.as_ptr(), name.len(), [].as_ptr(), 0, into, size)
    })
}

/// Defines a metric, and returns its number.
pub fn define_metric(kind: MetricType, name: &str) -> Result<u32, Status> {
    // SAFETY: the name is alive, and the place is.
    returned_number(|into| unsafe {
        proxy_define_metric(kind as u32, name.as_ptr(), name.len(), into)
    })
}

/// Sets a gauge, or adds a value to a histogram.
pub fn record_metric(metric: u32, value: u64) -> Result<(), Status> {
    Status::check(proxy_record_metric(metric, value))
}

/// Adds to a counter or a gauge.
pub fn increment_metric(metric: u32, by: i64) -> Result<(), Status> {
    Status::check(proxy_increment_metric(metric, by))
}
