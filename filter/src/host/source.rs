//! Source of the current request, hashed: the client that a trusted proxy names, or the peer address.

use std::hash::Hasher;

use crate::request::wire::Wire;

use super::call;
use super::service::Service;

/// Who sent the current request, hashed: the client a trusted proxy names, else the connection's other
/// end without its port. None where the proxy's header is repeated: the connection is the proxy's, and a
/// client that repeats it must not pass for all the others behind it.
pub(super) fn source(service: &Service, wire: &Wire<'_>) -> Option<u64> {
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
pub(super) fn peer() -> Option<u64> {
    let address = call::text(&["source", "address"])?;
    let host = address
        .rsplit_once(':')
        .map_or(address.as_str(), |(host, _)| host);
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(host.as_bytes());
    Some(hasher.finish())
}
