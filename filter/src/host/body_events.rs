//! Detection of body callbacks: whether Envoy delivers a request's body while its headers are held. It does
//! so only with `allow_on_headers_stop_iteration: true` in the plugin's configuration, which no property
//! shows. Otherwise a request held for its body would be held for ever. That is detected by bytes that have
//! come without a callback. With Envoy's buffer filter before ours, whole bodies come with the headers.

use proxy_wasm::types::Bytes;

use crate::engine::StreamId;

use super::call;

/// Maximum number of requests watched at a time.
const WATCHED_MAX: usize = 16;
/// After this many requests with whole bodies, and no body callback, all are assumed to come whole.
const WHOLE_MAX: u32 = 64;

/// Knowledge in this VM.
#[derive(Debug)]
pub(super) enum BodyEvents {
    /// Not known yet.
    Unknown {
        /// Requests held for their bodies, each with its number of bytes at that time.
        watched: Vec<(StreamId, u64)>,
        /// Number of requests that came whole.
        whole: u32,
    },
    /// Bodies are delivered.
    Delivered,
    /// Bodies are not delivered, or come with the headers: requests are decided by their headers.
    NotDelivered,
}

impl Default for BodyEvents {
    fn default() -> BodyEvents {
        BodyEvents::Unknown {
            watched: Vec::new(),
            whole: 0,
        }
    }
}

impl BodyEvents {
    /// Whether to wait for the body of the current request, which has these headers.
    pub(super) fn expects(&mut self, headers: &[(String, Bytes)]) -> bool {
        let whole = match self {
            BodyEvents::Delivered => return true,
            BodyEvents::NotDelivered => return false,
            BodyEvents::Unknown { whole, .. } => whole,
        };
        if !is_whole(headers) {
            return true;
        }
        *whole += 1;
        if *whole >= WHOLE_MAX {
            *self = BodyEvents::NotDelivered;
        }
        false
    }

    /// Watches the current request, which is held for its body.
    pub(super) fn watch(&mut self, stream: StreamId) {
        if let BodyEvents::Unknown { watched, .. } = self
            && watched.len() < WATCHED_MAX
        {
            watched.push((stream, size()));
        }
    }

    /// Records that the body of a held request was delivered.
    pub(super) fn mark_delivered(&mut self) {
        if matches!(self, BodyEvents::Unknown { .. }) {
            *self = BodyEvents::Delivered;
        }
    }

    /// Returns whether it has just been detected that bodies are not delivered. Sets the context back to
    /// `root`.
    pub(super) fn detect_missing(&mut self, root: u32) -> bool {
        let BodyEvents::Unknown { watched, .. } = self else {
            return false;
        };
        if watched.is_empty() {
            return false;
        }
        watched.retain(|(stream, _)| call::set_context(*stream));
        let missing = watched
            .iter()
            .any(|(stream, before)| call::set_context(*stream) && size() > *before);
        call::set_context(root);
        if missing {
            *self = BodyEvents::NotDelivered;
            log::error!(
                "weir: request bodies are not told of, so that slow uploads take slots: set \
                 `allow_on_headers_stop_iteration: true` beside `configuration` in the plugin's `config`, or put \
                 envoy.filters.http.buffer before this filter"
            );
        }
        missing
    }
}

/// Whether the whole body of the current request has come, by its `content-length`.
fn is_whole(headers: &[(String, Bytes)]) -> bool {
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| std::str::from_utf8(value).ok());
    let Some(length) = length.and_then(|length| length.parse::<u64>().ok()) else {
        return false;
    };
    let heads = headers.iter().map(|(name, value)| name.len() + value.len());
    let heads: usize = heads.sum();
    size().saturating_sub(heads as u64) >= length
}

/// Bytes of the current request so far, including headers.
fn size() -> u64 {
    call::number(&["request", "total_size"]).unwrap_or_default()
}
