//! Keys that have been renamed: an old one is refused with the new one named, and never read.

use weir_api::json::Misread;

/// Old path and new path; `[]` stands for any index.
const RENAMED: [(&str, &str); 9] = [
    ("deadline.least_ms", "deadline.min_ms"),
    ("deadline.greatest_ms", "deadline.max_ms"),
    ("deadline.greatest_age_ms", "deadline.max_age_ms"),
    ("starvation", "max_skips"),
    ("plan.rest_ms", "plan.downstream_ms"),
    ("classes[].held_max", "classes[].max_requests"),
    ("queue.held_max", "queue.max_requests"),
    ("body.held_max_bytes", "body.total_max_bytes"),
    ("retries_max", "max_retries"),
];

/// Names the new key in the error about an old one.
pub(super) fn name_new_key(mut error: Misread) -> Misread {
    if !error.what.starts_with("unknown field") {
        return error;
    }
    let (service, path) = split_service(&error.path);
    let (path, indices) = split_indices(path);
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == path) {
        let mut new = (*new).to_owned();
        for index in indices {
            new = new.replacen("[]", index, 1);
        }
        let new = format!("{service}{new}");
        error.what = format!("no longer a key; it is {new}");
    }
    error
}

/// Path of the service in a list of services, if it is in one, and the path within it.
fn split_service(path: &str) -> (&str, &str) {
    let end = path.find("].").filter(|_| path.starts_with("services["));
    let split = end.and_then(|end| path.split_at_checked(end + 2));
    split.unwrap_or(("", path))
}

/// Path with `[]` for each index, and the indices.
fn split_indices(path: &str) -> (String, Vec<&str>) {
    let (mut general, mut indices, mut rest) = (String::new(), Vec::new(), path);
    while let Some((before, index, after)) = next_index(rest) {
        general += before;
        general += "[]";
        indices.push(index);
        rest = after;
    }
    (general + rest, indices)
}

fn next_index(path: &str) -> Option<(&str, &str, &str)> {
    let (begin, end) = (path.find('[')?, path.find(']')? + 1);
    Some((path.get(..begin)?, path.get(begin..end)?, path.get(end..)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::Config;

    /// Object with one key at a path, and what a class needs beside it.
    fn with(path: &str) -> Value {
        let mut value = json!(1);
        for part in path.rsplit('.') {
            value = match part.strip_suffix("[]") {
                Some(list) => json!({ list: [value] }),
                None => json!({ part: value }),
            };
        }
        value["service"] = json!("a");
        value
    }

    #[test]
    fn each_old_key_is_refused_with_the_new_one_named() {
        for (old, new) in RENAMED {
            let (old_path, new) = (old.replace("[]", "[0]"), new.replace("[]", "[0]"));
            let error = Config::parse(with(old).to_string().as_bytes()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("plugin configuration: {old_path}: no longer a key; it is {new}")
            );
        }
    }

    #[test]
    fn old_key_of_a_listed_service_is_refused_with_the_new_one_named() {
        for (old, new) in RENAMED {
            let services = json!({ "services": [{ "service": "b" }, with(old)] });
            let error = Config::parse_services(services.to_string().as_bytes()).unwrap_err();
            let at = |path: &str| format!("services[1].{}", path.replace("[]", "[0]"));
            let (old, new) = (at(old), at(new));
            assert_eq!(
                error.to_string(),
                format!("plugin configuration: {old}: no longer a key; it is {new}")
            );
        }
    }

    #[test]
    fn each_new_key_is_known() {
        for (_, new) in RENAMED {
            let error = Config::parse(with(new).to_string().as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("unknown field"), "{error}");
        }
    }

    #[test]
    fn other_unknown_key_is_not_explained() {
        let error = Config::parse(br#"{"deadline":{"least":1}}"#).unwrap_err();
        assert!(error.to_string().contains("deadline.least: unknown field"));
    }
}
