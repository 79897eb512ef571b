//! WATCH: changes after a version, as a stream of lines, until it ends or is closed.
//!
//! An object that begins to match the selector is ADDED, one that no longer matches is DELETED. A
//! client that lags behind the history gets 410 and has to list again. Bookmarks report the version
//! while nothing changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::faults::WatchFault;
use super::read::Selection;
use super::request::ApiRequest;
use super::serve::Server;
use super::status::Refusal;
use super::store::{Event, EventKind};

/// Default maximum duration of a watch; Kubernetes' is 30 to 60 minutes.
const WATCH_MAX: Duration = Duration::from_secs(1_800);

/// Maximum changes sent in one chunk.
const CHUNK_MAX: usize = 100;

struct WatchStream {
    server: Arc<Server>,
    selection: Selection,
    seen: u64,
    bookmarks: bool,
    bookmarks_every: Duration,
    latest: watch::Receiver<u64>,
    closing: watch::Receiver<u64>,
    until: Instant,
    first: VecDeque<String>,
    fault: Option<WatchFault>,
    ended: bool,
}

/// Starts a watch.
///
/// # Errors
///
/// The selectors are malformed.
pub(super) fn begin(server: &Arc<Server>, request: &ApiRequest) -> Result<Response, Refusal> {
    let selection = Selection::of(request)?;
    let cluster = server.cluster();
    let from = match request.param("resourceVersion") {
        "" | "0" => None,
        version => Some(version.parse::<u64>().map_err(|_| {
            Refusal::bad(format!(
                "Invalid value: {version:?}: strconv.ParseUint: invalid syntax"
            ))
        })?),
    };
    let mut first = VecDeque::new();
    let initial = request.flag("sendInitialEvents");
    // Without a version, a watch starts with all existing objects.
    if from.is_none() || initial {
        let all = selection.all(&cluster);
        first.extend(all.map(|(_, object)| line("ADDED", &selection.written(object))));
    }
    if initial {
        let ended = json!({"k8s.io/initial-events-end": "true"});
        let bookmark = selection.bookmark(cluster.store.version(), ended);
        first.push_back(line("BOOKMARK", &bookmark.to_string()));
    }
    let seconds: Option<u64> = request.param("timeoutSeconds").parse().ok();
    let watching = WatchStream {
        server: Arc::clone(server),
        seen: from.filter(|_| !initial).unwrap_or(cluster.store.version()),
        bookmarks: request.flag("allowWatchBookmarks"),
        bookmarks_every: cluster.options.bookmarks_every,
        latest: cluster.store.subscribe(),
        closing: server.faults.closing(),
        until: Instant::now() + seconds.map_or(WATCH_MAX, Duration::from_secs),
        first,
        fault: server.faults.of_watch(request),
        ended: false,
        selection,
    };
    drop(cluster);
    let lines = stream::unfold(watching, |mut watching| async move {
        let chunk = watching.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watching))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let json = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    Ok(response)
}

/// An event as text; the object is serialized already.
fn line(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn chunk(lines: impl IntoIterator<Item = String>) -> Bytes {
    Bytes::from(lines.into_iter().collect::<String>())
}

impl WatchStream {
    /// The next chunk of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if !self.first.is_empty() {
            return Some(chunk(self.first.drain(..)));
        }
        loop {
            self.latest.mark_unchanged();
            let lines = match self.changes() {
                Ok(lines) => lines,
                Err(refusal) => {
                    self.ended = true;
                    return Some(chunk([line("ERROR", &refusal.body().to_string())]));
                }
            };
            if !lines.is_empty() {
                if let Some(lag) = self.fault.as_ref().map(|fault| fault.lag) {
                    tokio::time::sleep(lag).await;
                }
                if let Some(fault) = &mut self.fault {
                    if fault.events_left < lines.len() {
                        self.ended = true;
                        let left = fault.events_left;
                        return (left > 0).then(|| chunk(lines.into_iter().take(left)));
                    }
                    fault.events_left -= lines.len();
                }
                return Some(chunk(lines));
            }
            if self
                .fault
                .as_ref()
                .is_some_and(|fault| fault.events_left == 0)
            {
                return None;
            }
            let bookmark = Instant::now() + self.bookmarks_every;
            tokio::select! {
                changed = self.latest.changed() => changed.ok()?,
                _ = self.closing.changed() => return None,
                () = tokio::time::sleep_until(self.until) => return None,
                () = tokio::time::sleep_until(bookmark), if self.bookmarks => {
                    let object = self.selection.bookmark(self.seen, Value::Null);
                    return Some(chunk([line("BOOKMARK", &object.to_string())]));
                }
            }
        }
    }

    /// Changes since the last call.
    fn changes(&mut self) -> Result<Vec<String>, Refusal> {
        let cluster = self.server.cluster();
        let events = cluster.store.after(&self.selection.kind.shelf, self.seen);
        let events = events.map_err(|oldest| Refusal::expired(self.seen, oldest))?;
        let mut lines = Vec::new();
        let mut seen = None;
        for event in events {
            seen = Some(event.version);
            lines.extend(event_line(&self.selection, event));
            if lines.len() >= CHUNK_MAX {
                break;
            }
        }
        self.seen = match lines.len() < CHUNK_MAX {
            true => cluster.store.version(),
            false => seen.unwrap_or(self.seen),
        };
        Ok(lines)
    }
}

fn event_line(selection: &Selection, event: &Event) -> Option<String> {
    let is = event.happened != EventKind::Deleted && selection.selects(&event.object);
    let was = event
        .before
        .as_ref()
        .is_some_and(|before| selection.selects(before));
    let kind = match (was, is) {
        (false, true) => "ADDED",
        (true, true) => "MODIFIED",
        (true, false) => "DELETED",
        (false, false) => return None,
    };
    Some(line(kind, &selection.written(&event.object)))
}
