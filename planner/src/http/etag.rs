//! Entity tags: an answer that the client has already is not sent again (304).

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

/// Description of the header, for the API's document.
pub(super) const IF_NONE_MATCH: (&str, &str) = (
    "if-none-match",
    "Entity tag of the answer that the client has; the answer is 304 if it still holds.",
);

/// Tag of one state of what is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityTag(String);

impl EntityTag {
    /// Tag of an answer that is the same to the byte.
    pub(super) fn strong(name: impl std::fmt::Display) -> EntityTag {
        EntityTag(format!("\"{name}\""))
    }

    /// Tag of an answer with the same meaning as this text.
    pub(super) fn weak(text: &[u8]) -> EntityTag {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        EntityTag(format!("W/\"{:016x}\"", hasher.finish()))
    }

    /// Adds the tag; the answer becomes 304 if the client has it.
    pub(super) fn tag(&self, headers: &HeaderMap, mut response: Response) -> Response {
        if self.is_among(headers, &header::IF_NONE_MATCH) {
            response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            response.headers_mut().insert(header::ETAG, value);
        }
        response
    }

    /// Whether a header has this tag, or any by `*`.
    pub(super) fn is_among(&self, headers: &HeaderMap, name: &HeaderName) -> bool {
        let values = headers.get_all(name).iter();
        let tags = values.filter_map(|value| value.to_str().ok());
        let mut tags = tags.flat_map(|value| value.split(',')).map(str::trim);
        tags.any(|tag| tag == "*" || opaque(tag) == opaque(&self.0))
    }
}

/// Returns the tag without its mark of weakness, as `if-none-match` compares.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_that_client_has_is_not_sent_again() {
        let tag = EntityTag::strong(7);
        for (offered, status) in [
            ("\"7\"", 304),
            ("W/\"7\"", 304),
            ("\"6\", \"7\"", 304),
            ("*", 304),
            ("\"8\"", 200),
            ("7", 200),
            ("", 200),
        ] {
            let value = HeaderValue::from_str(offered).unwrap();
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value)]);
            let answer = tag.tag(&headers, Response::new(Body::from("plan")));
            assert_eq!(answer.status(), status, "{offered}");
            assert_eq!(answer.headers()[header::ETAG], "\"7\"");
        }
        assert_eq!(EntityTag::weak(b"a"), EntityTag::weak(b"a"));
        assert_ne!(EntityTag::weak(b"a"), EntityTag::weak(b"b"));
    }
}
