//! Matches of a VirtualService's routes: the service's paths, each with the route's headers.

use serde_json::{Value, json};
use weir_filter::request::protocol::Pattern;

/// Returns a match for each path, with these conditions on headers. None at all matches everything.
pub(super) fn matches(paths: &[String], headers: Option<Value>) -> Vec<Value> {
    let headers = headers.map(|headers| json!({ "headers": headers }));
    with(paths, headers.as_ref())
}

/// Returns the matches of a websocket's handshake: a GET without a body.
pub(super) fn of_websockets(paths: &[String]) -> Vec<Value> {
    let handshake = json!({
        "method": { "exact": "GET" },
        "headers": { "upgrade": { "regex": "(?i)websocket" }, "sec-websocket-key": {} },
        "withoutHeaders": { "content-length": {}, "transfer-encoding": {} },
    });
    with(paths, Some(&handshake))
}

fn with(paths: &[String], conditions: Option<&Value>) -> Vec<Value> {
    let mut uris: Vec<Option<Value>> = paths.iter().map(|path| Some(uri(path))).collect();
    if uris.is_empty() {
        uris.push(None);
    }
    let matched = |uri: Option<Value>| {
        let conditions = conditions.and_then(Value::as_object).cloned();
        let mut matched = conditions.unwrap_or_default();
        if let Some(uri) = uri {
            matched.insert("uri".to_owned(), uri);
        }
        (!matched.is_empty()).then_some(Value::Object(matched))
    };
    uris.into_iter().filter_map(matched).collect()
}

/// Returns the matches of the service's streaming requests that are among these paths; `None` if none is.
pub(super) fn of_streams(streams: &[&str], paths: &[String]) -> Option<Vec<Value>> {
    let within = |stream: &&&str| paths.is_empty() || paths.iter().any(|it| includes(it, stream));
    let streams = streams.iter().filter(within);
    let matches: Vec<Value> = streams.map(|path| json!({ "uri": uri(path) })).collect();
    (!matches.is_empty()).then_some(matches)
}

/// Whether a pattern matches all that the other does.
fn includes(pattern: &str, other: &str) -> bool {
    let patterns = Pattern::new(pattern).zip(Pattern::new(other));
    patterns.is_some_and(|(pattern, other)| pattern.covers(&other))
}

fn uri(path: &str) -> Value {
    match path.split_once('*') {
        Some((prefix, "")) => json!({ "prefix": prefix }),
        Some((prefix, suffix)) => {
            let regex = format!("{}.*{}", regex::escape(prefix), regex::escape(suffix));
            json!({ "regex": regex })
        }
        None => json!({ "exact": path }),
    }
}
