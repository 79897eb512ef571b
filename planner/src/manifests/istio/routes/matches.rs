//! Matches of a VirtualService's routes: the service's paths, each with the route's headers.

use serde_json::{Map, Value, json};
use weir_filter::request::protocol::STREAMS;

/// Returns a match for each path, with these headers. None at all matches everything.
pub(super) fn matches(paths: &[String], headers: Option<Value>) -> Vec<Value> {
    let mut uris: Vec<Option<Value>> = paths.iter().map(|path| Some(uri(path))).collect();
    if uris.is_empty() {
        uris.push(None);
    }
    let matched = |uri: Option<Value>| {
        let mut matched = Map::new();
        for (key, value) in [("uri", uri), ("headers", headers.clone())] {
            if let Some(value) = value {
                matched.insert(key.to_owned(), value);
            }
        }
        (!matched.is_empty()).then_some(Value::Object(matched))
    };
    uris.into_iter().filter_map(matched).collect()
}

/// Returns the matches of the filter's streams that are among these paths; `None` if none is.
pub(super) fn of_streams(paths: &[String]) -> Option<Vec<Value>> {
    let within = |stream: &&str| paths.is_empty() || paths.iter().any(|it| includes(it, stream));
    let streams = STREAMS.into_iter().filter(within);
    let matches: Vec<Value> = streams.map(|path| json!({ "uri": uri(path) })).collect();
    (!matches.is_empty()).then_some(matches)
}

/// Whether the pattern matches the path.
fn includes(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == pattern,
    }
}

fn uri(path: &str) -> Value {
    match path.strip_suffix('*') {
        Some(prefix) => json!({ "prefix": prefix }),
        None => json!({ "exact": path }),
    }
}
