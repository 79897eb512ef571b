//! Whether Envoy tells of a request's body while its headers are held. It does so only with
//! `allow_on_headers_stop_iteration: true` in the plugin's configuration, which no property shows. Without it
//! bodies wait unheard, and a request held for its body would be held for ever. That is seen by bytes that
//! have come and were not told of; and where Envoy's buffer filter stands before ours, all of them have come
//! with the headers.

use proxy_wasm::types::Bytes;

use crate::engine::StreamId;

use super::call;

/// Most requests that are watched at a time.
const WATCHED_MAX: usize = 16;
/// After so many requests that came whole, without any body being told of, all are taken to come so.
const WHOLE_MAX: u32 = 64;

/// Knowledge of it in this VM.
#[derive(Debug)]
pub(super) enum BodyEvents {
    /// Nothing yet.
    Unknown {
        /// Requests that are held for their bodies, each with the bytes it had come to then.
        watched: Vec<(StreamId, u64)>,
        /// How many had come whole.
        whole: u32,
    },
    /// Bodies are told of.
    Heard,
    /// They are not, or have come with the headers: requests are decided by their headers.
    Unheard,
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
    /// Whether the body of the current request, which has these headers, is to be waited for.
    pub(super) fn expects(&mut self, headers: &[(String, Bytes)]) -> bool {
        let whole = match self {
            BodyEvents::Heard => return true,
            BodyEvents::Unheard => return false,
            BodyEvents::Unknown { whole, .. } => whole,
        };
        if !is_whole(headers) {
            return true;
        }
        *whole += 1;
        if *whole >= WHOLE_MAX {
            *self = BodyEvents::Unheard;
        }
        false
    }

    /// The current request is held for its body.
    pub(super) fn watch(&mut self, stream: StreamId) {
        if let BodyEvents::Unknown { watched, .. } = self
            && watched.len() < WATCHED_MAX
        {
            watched.push((stream, size()));
        }
    }

    /// The body of a request that is held was told of.
    pub(super) fn heard(&mut self) {
        if matches!(self, BodyEvents::Unknown { .. }) {
            *self = BodyEvents::Heard;
        }
    }

    /// Whether it has just turned out that bodies are not told of. Turns back to `root`.
    pub(super) fn look(&mut self, root: u32) -> bool {
        let BodyEvents::Unknown { watched, .. } = self else {
            return false;
        };
        if watched.is_empty() {
            return false;
        }
        watched.retain(|(stream, _)| call::set_context(*stream));
        let unheard = watched
            .iter()
            .any(|(stream, before)| call::set_context(*stream) && size() > *before);
        call::set_context(root);
        if unheard {
            *self = BodyEvents::Unheard;
            log::error!(
                "weir: request bodies are not told of, so that slow uploads take slots: set \
                 `allow_on_headers_stop_iteration: true` beside `configuration` in the plugin's `config`, or put \
                 envoy.filters.http.buffer before this filter"
            );
        }
        unheard
    }
}

/// Whether as much of the current request's body has come as its `content-length` body_contains.
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

/// Bytes of the current request so far, headers included.
fn size() -> u64 {
    call::number(&["request", "total_size"]).unwrap_or_default()
}
