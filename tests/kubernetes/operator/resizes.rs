//! Checks over the API server's log: which requests took effect, and that no resize is repeated. Pure.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_apiserver::{Entry, Request, What};

/// Returns the request if it took effect.
pub(crate) fn taken(entry: &Entry) -> Option<&Request> {
    match &entry.what {
        What::Request(request) if (200..300).contains(&request.status) => Some(request),
        _ => None,
    }
}

/// Body of a resize.
pub(crate) fn requested_spec(request: &Request) -> &Value {
    &request.body["spec"]
}

/// Checks that no pod gets the same resize twice in a row. Demand that falls and rises again repeats one with another in
/// between.
pub(crate) fn nothing_is_resized_twice(log: &[Entry]) -> Result<(), String> {
    let mut last = BTreeMap::new();
    let resizes = log.iter().filter_map(|entry| Some((entry, taken(entry)?)));
    for (entry, request) in resizes.filter(|(_, request)| request.resource == "pods/resize") {
        let before = last.insert(&request.key, (entry, requested_spec(request)));
        if let Some((before, same)) =
            before.filter(|(_, before)| *before == requested_spec(request))
        {
            let (first, second, key) = (before.at, entry.at, &request.key);
            return Err(format!(
                "{key} is asked at {first:?} and again at {second:?}: {same}"
            ));
        }
    }
    Ok(())
}
