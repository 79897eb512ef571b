//! Keys of documents that have been renamed: an old one is refused with the new one named, and never read.

use serde_json::Value;

use crate::InputError;

/// Ends of an old path, and the key that replaces the last one.
const RENAMED: [(&str, &str); 4] = [
    ("latency.law", "model"),
    ("throughput.law", "model"),
    ("cores_least", "cores_min"),
    ("cores_greatest", "cores_max"),
];

/// Refuses a document with an old key.
pub(super) fn check(document: &Value) -> Result<(), InputError> {
    check_at(document, "")
}

fn check_at(value: &Value, path: &str) -> Result<(), InputError> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            let dot = if path.is_empty() { "" } else { "." };
            let field = format!("{path}{dot}{key}");
            match RENAMED.iter().find(|(old, _)| ends_with(&field, old)) {
                Some((_, new)) => {
                    let value = format!("no longer a key; it is {path}{dot}{new}");
                    let right = String::new();
                    Err(InputError {
                        field,
                        value,
                        right,
                    })
                }
                None => check_at(value, &field),
            }
        }),
        Value::Array(items) => (0..)
            .zip(items)
            .try_for_each(|(index, item): (usize, _)| check_at(item, &format!("{path}[{index}]"))),
        _ => Ok(()),
    }
}

/// Whether a path ends with whole keys.
fn ends_with(path: &str, end: &str) -> bool {
    let before = path.strip_suffix(end);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::problem::Problem;

    #[test]
    fn each_old_key_is_refused_with_the_new_one_named() {
        for (old, new) in RENAMED {
            let mut variant = json!(1);
            for key in old.rsplit('.') {
                variant = json!({ key: variant });
            }
            let document = json!({"formulation": "infadapter", "variants": [{}, variant]});
            let (parent, _) = old
                .rsplit_once('.')
                .map_or(("", old), |(parent, key)| (parent, key));
            let dot = if parent.is_empty() { "" } else { "." };
            assert_eq!(
                Problem::read(document, None).unwrap_err().to_string(),
                format!("variants[1].{old}: no longer a key; it is variants[1].{parent}{dot}{new}")
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
