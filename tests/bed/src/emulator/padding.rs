//! Large responses: the size is set by the request, to test the effect of a slow reader on others.
//!
//! JSON is padded with insignificant spaces; a gRPC response gets one more tensor.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::work::Refused;

/// Request header with the minimum size of the response, in bytes.
pub const ANSWER_BYTES: &str = "x-emulated-answer-bytes";
/// Maximum of [`ANSWER_BYTES`].
pub const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// One chunk of padding.
static SPACES: [u8; 64 * 1024] = [b' '; 64 * 1024];

/// Minimum size requested in the headers; 0 by default.
pub(super) fn requested(headers: &HeaderMap) -> Result<usize, Refused> {
    let Some(value) = headers.get(ANSWER_BYTES) else {
        return Ok(0);
    };
    let bytes = value.to_str().ok().and_then(|text| text.parse().ok());
    bytes.filter(|bytes| *bytes <= ANSWER_MAX).ok_or_else(|| {
        let message = format!("{ANSWER_BYTES}: {value:?} must be 0 to {ANSWER_MAX}");
        Refused::new(StatusCode::BAD_REQUEST, message)
    })
}

/// A JSON response of at least `at_least` bytes.
pub(super) fn json(json: Vec<u8>, at_least: usize) -> Response {
    let missing = at_least.saturating_sub(json.len());
    if missing == 0 {
        return ([(header::CONTENT_TYPE, "application/json")], json).into_response();
    }
    let length = json.len() + missing;
    let whole = std::iter::repeat_n(SPACES.len(), missing / SPACES.len());
    let lengths = whole.chain([missing % SPACES.len()]);
    let spaces = lengths.map(|length| Bytes::from_static(SPACES.get(..length).unwrap_or_default()));
    let parts = std::iter::once(Bytes::from(json)).chain(spaces);
    let body = Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>)));
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
    ];
    (headers, body).into_response()
}
