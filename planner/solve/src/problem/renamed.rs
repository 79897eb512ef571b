//! Keys of documents that have been renamed: an old one is refused with the new one named, and never read.

use serde_json::Value;

use crate::InputError;

/// Key of the object around an old key (any, if empty), the old key, and the one that replaces it.
const RENAMED: [(&str, &str, &str); 5] = [
    ("latency", "law", "model"),
    ("throughput", "law", "model"),
    ("", "cores_least", "cores_min"),
    ("", "cores_greatest", "cores_max"),
    ("", "communication_ms", "network_ms"),
];

/// Refuses a document with an old key.
pub(super) fn check(document: &Value) -> Result<(), InputError> {
    match find(document, "") {
        None => Ok(()),
        Some((parent, old, new)) => Err(InputError {
            field: format!("{parent}{old}"),
            value: format!("no longer a key; it is {parent}{new}"),
            right: String::new(),
        }),
    }
}

/// Finds an old key below `around`: the path before it, the key, and its new name. A path is written only once one is
/// found, because documents may have hundreds of thousands of values.
fn find(value: &Value, around: &str) -> Option<(String, &'static str, &'static str)> {
    let (step, (path, old, new)) = match value {
        Value::Object(fields) => fields.iter().find_map(|(key, value)| {
            let is_it = |(parent, old, _): &&(&str, &str, &str)| {
                old == key && (parent.is_empty() || *parent == around)
            };
            if let Some((_, old, new)) = RENAMED.iter().find(is_it) {
                return Some((String::new(), (String::new(), *old, *new)));
            }
            Some((key.clone(), find(value, key)?))
        }),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let found = find(item, "")?;
            Some((format!("[{index}]"), found))
        }),
        _ => None,
    }?;
    let dot = match step.is_empty() || path.starts_with('[') {
        true => "",
        false => ".",
    };
    Some((format!("{step}{dot}{path}"), old, new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::problem::Problem;

    #[test]
    fn each_old_key_is_refused_with_the_new_one_named() {
        for (parent, old, new) in RENAMED {
            let (variant, path) = match parent {
                "" => (json!({ old: 1 }), "variants[1].".to_owned()),
                parent => (
                    json!({ parent: { old: 1 } }),
                    format!("variants[1].{parent}."),
                ),
            };
            let document = json!({"formulation": "infadapter", "variants": [{}, variant]});
            assert_eq!(
                Problem::read(document, None).unwrap_err().to_string(),
                format!("{path}{old}: no longer a key; it is {path}{new}")
            );
            let alone = Problem::read(
                json!({"formulation": "sponge", "latency": {"law": 1}}),
                None,
            );
            assert_eq!(
                alone.unwrap_err().to_string(),
                "latency.law: no longer a key; it is latency.model"
            );
        }
    }

    #[test]
    fn same_word_elsewhere_is_no_old_key() {
        let document = json!({"formulation": "sponge", "law": 1});
        let error = Problem::read(document, None).unwrap_err().to_string();
        assert!(error.contains("unknown field `law`"), "{error}");
    }
}
