//! Changes of a scenario by paths. A segment names a key of a mapping, an element of a list by its `name`, or by its
//! index. `*` stands for each element of a list.

use serde_json::{Map, Value};

/// Segment for each element of a list.
const EACH: &str = "*";

/// Sets the value at a path, or removes the key or element if the value is null. Mappings that are missing on the way
/// are made.
///
/// # Errors
/// The first segment that fits nothing, and what would fit.
pub(crate) fn set(root: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if value.is_null() {
        return remove(root, path);
    }
    let (segment, rest) = match path.split_once('.') {
        Some((segment, rest)) => (segment, Some(rest)),
        None => (path, None),
    };
    let set_below = |here: &mut Value, value: Value| match rest {
        Some(rest) => set(here, rest, value),
        None => {
            *here = value;
            Ok(())
        }
    };
    match root {
        Value::Array(list) if segment == EACH => {
            let mut each = list.iter_mut();
            each.try_for_each(|here| set_below(here, value.clone()))
        }
        Value::Null => {
            *root = Value::Object(Map::new());
            set_below(child(root, segment)?, value)
        }
        _ => set_below(child(root, segment)?, value),
    }
}

/// Removes the key or the element of a list at a path.
fn remove(root: &mut Value, path: &str) -> Result<(), String> {
    let (parents, last) = match path.rsplit_once('.') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, path),
    };
    let mut here = root;
    for segment in parents.into_iter().flat_map(|parents| parents.split('.')) {
        here = present(here, segment)?;
    }
    present(here, last)?;
    match here {
        Value::Object(keys) => drop(keys.remove(last)),
        Value::Array(list) => drop(position(list, last).map(|at| list.remove(at))),
        _ => {}
    }
    Ok(())
}

/// Value of a key or an element that there is.
fn present<'a>(here: &'a mut Value, segment: &str) -> Result<&'a mut Value, String> {
    match here {
        Value::Object(keys) if !keys.contains_key(segment) => {
            let names: Vec<&str> = keys.keys().map(String::as_str).collect();
            let names = names.join(", ");
            Err(format!(
                "{segment}; to be removed it must be one of {names}"
            ))
        }
        other => child(other, segment),
    }
}

fn child<'a>(here: &'a mut Value, segment: &str) -> Result<&'a mut Value, String> {
    match here {
        Value::Object(keys) => Ok(keys.entry(segment).or_insert(Value::Null)),
        Value::Array(list) => {
            let (at, length) = (position(list, segment), list.len());
            at.and_then(|at| list.get_mut(at)).ok_or_else(|| {
                format!("{segment}; it must be the name or the index of one of {length} elements")
            })
        }
        Value::String(text) => Err(format!(
            "{segment}; {text} is a text without keys: if it is a file, write its content in its place"
        )),
        other => Err(format!("{segment}; {other} has no keys")),
    }
}

/// Index of the element with that name or index.
fn position(list: &[Value], segment: &str) -> Option<usize> {
    let has_name = |one: &Value| one.get("name").and_then(Value::as_str) == Some(segment);
    let at = list.iter().position(has_name).or(segment.parse().ok());
    at.filter(|at| *at < list.len())
}

/// Replaces a word in all texts of a value.
pub(crate) fn replace(value: &Value, word: &str, by: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(word, by)),
        Value::Array(list) => list.iter().map(|one| replace(one, word, by)).collect(),
        Value::Object(keys) => {
            let each = keys.iter();
            Value::Object(
                each.map(|(key, one)| (key.clone(), replace(one, word, by)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_names_and_indices_lead_to_a_value() {
        let mut root =
            json!({ "variants": [{ "name": "small" }, { "name": "large", "cores": 1 }] });
        set(&mut root, "variants.large.cores", json!(8)).unwrap();
        set(&mut root, "variants.0.batch", json!(4)).unwrap();
        set(&mut root, "budget.cores", json!(20)).unwrap();
        let changed = json!({
            "variants": [{ "name": "small", "batch": 4 }, { "name": "large", "cores": 8 }],
            "budget": { "cores": 20 },
        });
        assert_eq!(root, changed);
    }

    #[test]
    fn star_stands_for_each_element_of_a_list() {
        let mut root = json!({ "services": [{ "load": 1 }, { "name": "b", "load": 2 }] });
        set(&mut root, "services.*.load", json!(5)).unwrap();
        set(&mut root, "services.b.cores", json!(1)).unwrap();
        let changed =
            json!({ "services": [{ "load": 5 }, { "name": "b", "load": 5, "cores": 1 }] });
        assert_eq!(root, changed);
        let error = set(&mut root, "services.*.load.rps", json!(5)).unwrap_err();
        assert_eq!(error, "rps; 5 has no keys");
        let mut root = json!({ "services": [{ "load": 1 }] });
        let error = set(&mut root, "services.*", Value::Null).unwrap_err();
        assert_eq!(
            error,
            "*; it must be the name or the index of one of 1 elements"
        );
    }

    #[test]
    fn null_removes_a_key_or_an_element() {
        let variants = json!([{ "name": "small" }, { "name": "large", "batch": 1 }]);
        let mut root = json!({ "variants": variants, "clients": { "slo_ms": 1 } });
        set(&mut root, "variants.large.batch", Value::Null).unwrap();
        set(&mut root, "clients", Value::Null).unwrap();
        assert_eq!(
            root,
            json!({ "variants": [{ "name": "small" }, { "name": "large" }] })
        );
        set(&mut root, "variants.small", Value::Null).unwrap();
        assert_eq!(root, json!({ "variants": [{ "name": "large" }] }));
        for (path, right) in [
            (
                "variants.small",
                "small; it must be the name or the index of one of 1 elements",
            ),
            (
                "variants.1",
                "1; it must be the name or the index of one of 1 elements",
            ),
            ("load.rps", "load; to be removed it must be one of variants"),
        ] {
            assert_eq!(set(&mut root, path, Value::Null).unwrap_err(), right);
        }
    }

    #[test]
    fn segment_that_fits_nothing_is_named() {
        let mut root = json!({ "variants": [{ "name": "small" }], "seed": 1 });
        let error = set(&mut root, "variants.huge.cores", json!(8)).unwrap_err();
        let right = "huge; it must be the name or the index of one of 1 elements";
        assert_eq!(error, right);
        let error = set(&mut root, "seed.more", json!(8)).unwrap_err();
        assert_eq!(error, "more; 1 has no keys");
        let mut root = json!({ "service": "service.yaml" });
        let error = set(&mut root, "service.slo", json!("1s")).unwrap_err();
        let right = "slo; service.yaml is a text without keys: if it is a file, write its content in its place";
        assert_eq!(error, right);
    }

    #[test]
    fn word_is_replaced_at_any_depth() {
        let value = json!({ "file": { "path": "$FILE" }, "list": ["$FILE.gz", 1] });
        let by = json!({ "file": { "path": "a" }, "list": ["a.gz", 1] });
        assert_eq!(replace(&value, "$FILE", "a"), by);
    }
}
