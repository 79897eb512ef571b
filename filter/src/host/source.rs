//! Source of the current request, hashed: the client that a trusted proxy names, or the peer address.

use std::hash::Hasher;

use crate::request::wire::Wire;

use super::call;
use super::service::Service;

/// Returns the source of the current request, hashed: the client that a trusted proxy names, else the peer
/// address without its port. `None` if the proxy's header is repeated: the connection is the proxy's, and a
/// client that repeats the header must not pass for all others behind it.
pub(super) fn source(service: &Service, wire: &Wire<'_>) -> Option<u64> {
    let mut hasher = fnv::FnvHasher::default();
    match service.engine().config().source_header() {
        Some(at) => hasher.write(wire.claim(at)?),
        None => return peer(),
    }
    Some(hasher.finish())
}

/// Returns the source of the current request's body, hashed: the client that a trusted proxy names in
/// `header`, else the peer address. A list names no client.
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

/// Peer address without its port, hashed.
pub(super) fn peer() -> Option<u64> {
    let address = call::text(&["source", "address"])?;
    let host = address
        .rsplit_once(':')
        .map_or(address.as_str(), |(host, _)| host);
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(host.as_bytes());
    Some(hasher.finish())
}
