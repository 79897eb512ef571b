//! Ids of requests: the client's own if it can be logged as it is, otherwise a new one. Every answer has the id in
//! its header, and every problem document too.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;

use super::problem::Problem;

/// Header of the id.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of an id that is taken over.
pub const REQUEST_ID_MAX: usize = 128;

/// Begin of the ids that this process makes.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("request id"));
static MADE: AtomicU64 = AtomicU64::new(0);

/// Id of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// Takes over the client's id, or makes one, which replaces a client's that is not valid.
    pub(super) fn of(headers: &mut HeaderMap) -> RequestId {
        let offered = headers.get(&REQUEST_ID).filter(|value| is_plain(value));
        let id = offered.cloned().unwrap_or_else(make);
        // A poll is forwarded with it.
        headers.insert(REQUEST_ID, id.clone());
        RequestId(id)
    }

    /// Adds the id to an answer.
    pub(super) fn add_to(&self, response: &mut Response) {
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            // The router has counted the body before.
            response.headers_mut().remove(header::CONTENT_LENGTH);
            *response.body_mut() = Body::from(problem.json(self.0.to_str().ok()));
        }
        response.headers_mut().insert(REQUEST_ID, self.0.clone());
    }
}

fn is_plain(value: &HeaderValue) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    (1..=REQUEST_ID_MAX).contains(&value.len()) && value.as_bytes().iter().all(plain)
}

fn make() -> HeaderValue {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let id = format!("{:016x}-{number:x}", *PROCESS);
    HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_taken_over_if_plain_and_made_otherwise() {
        let longest = "i".repeat(REQUEST_ID_MAX);
        let long = "i".repeat(REQUEST_ID_MAX + 1);
        for (offered, kept) in [
            ("7f000001-2", true),
            (&longest, true),
            (&long, false),
            ("", false),
            ("a b", false),
            ("a\"b", false),
        ] {
            let value = HeaderValue::from_str(offered).unwrap();
            let mut headers = HeaderMap::from_iter([(REQUEST_ID, value.clone())]);
            let id = RequestId::of(&mut headers);
            assert_eq!(id.0 == value, kept, "{offered}");
            assert_eq!(headers[REQUEST_ID], id.0);
        }
        let mut headers = HeaderMap::new();
        let first = RequestId::of(&mut headers);
        assert!(is_plain(&first.0));
        assert_ne!(first, RequestId::of(&mut HeaderMap::new()));
    }
}
