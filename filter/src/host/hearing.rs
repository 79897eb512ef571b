//! Whether Envoy tells of a request's body while its headers are held. It does so only with
//! `allow_on_headers_stop_iteration: true` in the plugin's configuration, which no property shows. Without it
//! bodies wait unheard, and a request held for its body would be held for ever: seen by bytes that have come
//! and were not told of.

use crate::engine::StreamId;

use super::call;

/// Most requests that are watched at a time.
const WATCHED_MAX: usize = 16;

/// What is known of it in this VM.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// Nothing yet: requests that are held for their bodies, each with the bytes it had come to then.
    Unknown(Vec<(StreamId, u64)>),
    /// Bodies are told of.
    Heard,
    /// They are not: requests are decided by their headers.
    Unheard,
}

impl Default for Hearing {
    fn default() -> Hearing {
        Hearing::Unknown(Vec::new())
    }
}

impl Hearing {
    /// The current request is held for its body.
    pub(super) fn watch(&mut self, stream: StreamId) {
        if let Hearing::Unknown(watched) = self
            && watched.len() < WATCHED_MAX
        {
            watched.push((stream, size()));
        }
    }

    /// A body was told of.
    pub(super) fn heard(&mut self) {
        if matches!(self, Hearing::Unknown(_)) {
            *self = Hearing::Heard;
        }
    }

    /// Whether it has just turned out that bodies are not told of. Turns back to `root`.
    pub(super) fn look(&mut self, root: u32) -> bool {
        let Hearing::Unknown(watched) = self else {
            return false;
        };
        if watched.is_empty() {
            return false;
        }
        watched.retain(|(stream, _)| call::turn_to(*stream));
        let unheard = watched
            .iter()
            .any(|(stream, before)| call::turn_to(*stream) && size() > *before);
        call::turn_to(root);
        if unheard {
            *self = Hearing::Unheard;
            log::error!(
                "weir: request bodies are not told of, so that slow uploads take slots: set \
                 `allow_on_headers_stop_iteration: true` beside `configuration` in the plugin's `config`, or put \
                 envoy.filters.http.buffer before this filter"
            );
        }
        unheard
    }
}

/// Bytes of the current request so far, headers included.
fn size() -> u64 {
    call::number(&["request", "total_size"]).unwrap_or_default()
}
