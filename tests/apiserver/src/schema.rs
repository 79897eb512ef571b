//! Structural schemas of custom resources: drops unknown fields, fills in defaults, checks values.
//!
//! Types, required, enum, bounds, patterns, lengths, the formats int32, int64 and duration, `x-kubernetes-int-or-string`,
//! `x-kubernetes-preserve-unknown-fields`, embedded metadata. `allOf`, `anyOf`, `oneOf` and `not`
//! only check values, as in Kubernetes. `rules` evaluates CEL rules.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::status::{Cause, shown};

/// Top-level fields of every object, whatever its schema.
const TOP: [&str; 3] = ["apiVersion", "kind", "metadata"];

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Drops fields unknown to the schema and appends their paths to `dropped`.
pub(super) fn prune(schema: &Value, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let others = schema.get("additionalProperties");
            let keep = flag(schema, "x-kubernetes-preserve-unknown-fields");
            let embedded = path.is_empty() || flag(schema, "x-kubernetes-embedded-resource");
            let mut unknown = Vec::new();
            for (field, value) in map.iter_mut() {
                let at = join(path, field);
                if embedded && TOP.contains(&field.as_str()) {
                    continue;
                }
                match (properties.and_then(|all| all.get(field)), others) {
                    (Some(schema), _) => prune(schema, value, &at, dropped),
                    (None, Some(Value::Object(_))) => {
                        prune(others.unwrap_or(&Value::Null), value, &at, dropped);
                    }
                    (None, Some(Value::Bool(true))) => {}
                    _ if keep => {}
                    _ => unknown.push(field.clone()),
                }
            }
            for field in unknown {
                map.remove(&field);
                dropped.push(join(path, &field));
            }
        }
        Value::Array(items) => {
            let schema = schema.get("items").unwrap_or(&Value::Null);
            for (i, item) in items.iter_mut().enumerate() {
                prune(schema, item, &format!("{path}[{i}]"), dropped);
            }
        }
        _ => {}
    }
}

fn join(path: &str, field: &str) -> String {
    match path {
        "" => field.to_owned(),
        path => format!("{path}.{field}"),
    }
}

/// Fills in defaults, and drops nulls that are not allowed.
pub(super) fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (field, schema) in properties.into_iter().flatten() {
                if map.get(field) == Some(&Value::Null) && !flag(schema, "nullable") {
                    map.remove(field);
                }
                if let (None, Some(default)) = (map.get(field), schema.get("default")) {
                    map.insert(field.clone(), default.clone());
                }
                if let Some(value) = map.get_mut(field) {
                    fill(schema, value);
                }
            }
            if let Some(schema) = schema.get("additionalProperties") {
                let known = |field: &str| properties.is_some_and(|all| all.contains_key(field));
                for (_, value) in map.iter_mut().filter(|(field, _)| !known(field)) {
                    fill(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill(schema, item));
            }
        }
        _ => {}
    }
}

/// Collects the violations of `value`, field by field.
pub(super) fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && flag(schema, "nullable") {
        return;
    }
    if !check_type(schema, value, path, causes) {
        return;
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let all: Vec<_> = allowed.iter().map(shown).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            all.join(", ")
        );
        causes.push(Cause::new("FieldValueNotSupported", path, message));
    }
    match value {
        Value::Object(map) => check_map(schema, map, path, causes),
        Value::Array(items) => check_list(schema, items, path, causes),
        Value::String(text) => check_text(schema, text, path, causes),
        Value::Number(_) => check_number(schema, value, path, causes),
        _ => {}
    }
    check_junctors(schema, value, path, causes);
}

fn check_type(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) -> bool {
    let is = |type_name: &str| match type_name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    };
    if flag(schema, "x-kubernetes-int-or-string") {
        if is("integer") || is("string") {
            return true;
        }
        let why = format!(
            "{path} in body must be of type integer,string: {}",
            shown(value)
        );
        causes.push(Cause::invalid(path, value, &why));
        return false;
    }
    let required_type = schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if is(required_type) {
        return true;
    }
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let why = format!(
        "{path} in body must be of type {required_type}: {:?}",
        found
    );
    let cause = Cause::invalid(path, &json!(found), &why);
    causes.push(Cause {
        reason: "FieldValueTypeInvalid",
        ..cause
    });
    false
}

fn check_map(schema: &Value, map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let required = schema.get("required").and_then(Value::as_array);
    for field in required.into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(field) {
            causes.push(Cause::required(join(path, field)));
        }
    }
    count(
        schema,
        ("minProperties", "maxProperties"),
        map.len(),
        path,
        causes,
    );
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema
        .get("additionalProperties")
        .filter(|others| others.is_object());
    for (field, value) in map {
        let at = join(path, field);
        match (properties.and_then(|all| all.get(field)), others) {
            (Some(schema), _) => check(schema, value, &at, causes),
            (None, Some(schema)) => check(schema, value, &at, causes),
            _ => {}
        }
    }
}

fn check_list(schema: &Value, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    count(schema, ("minItems", "maxItems"), items.len(), path, causes);
    let of = schema.get("items").unwrap_or(&Value::Null);
    for (i, item) in items.iter().enumerate() {
        check(of, item, &format!("{path}[{i}]"), causes);
    }
    let keys: Vec<&str> = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let unique = matches!(
        schema.get("x-kubernetes-list-type").and_then(Value::as_str),
        Some("set" | "map")
    );
    let named = |item: &Value| -> Value {
        if keys.is_empty() {
            return item.clone();
        }
        keys.iter()
            .map(|key| item.get(*key).cloned().unwrap_or(Value::Null))
            .collect()
    };
    let mut seen = std::collections::HashSet::new();
    for (i, item) in items.iter().enumerate() {
        if unique && !seen.insert(named(item).to_string()) {
            let message = format!("Duplicate value: {}", shown(&named(item)));
            causes.push(Cause::new(
                "FieldValueDuplicate",
                format!("{path}[{i}]"),
                message,
            ));
        }
    }
}

fn count(
    schema: &Value,
    (min, most): (&str, &str),
    len: usize,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let len = len as u64;
    if let Some(most) = bound(most).filter(|most| len > *most) {
        let message = format!("Too many: {len}: must have at most {most} items");
        causes.push(Cause::new("FieldValueTooMany", path, message));
    }
    if let Some(min) = bound(min).filter(|min| len < *min) {
        let why = format!("{path} in body should have at least {min} items");
        causes.push(Cause::invalid(path, &json!(len), &why));
    }
}

fn check_text(schema: &Value, text: &str, path: &str, causes: &mut Vec<Cause>) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let len = text.chars().count() as u64;
    if let Some(most) = bound("maxLength").filter(|most| len > *most) {
        let message = format!("Too long: may not be more than {most} bytes");
        causes.push(Cause::new("FieldValueTooLong", path, message));
    }
    if let Some(min) = bound("minLength").filter(|min| len < *min) {
        let why = format!("{path} in body should be at least {min} chars long");
        causes.push(Cause::invalid(path, &json!(text), &why));
    }
    if format(schema) == "duration" && text.parse::<kube::core::Duration>().is_err() {
        let why = format!("{path} in body must be of type duration: {text:?}");
        causes.push(Cause::invalid(path, &json!(text), &why));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        // An invalid pattern matches nothing, so that a faulty definition is noticed.
        let fits = Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
        if !fits {
            let why = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(path, &json!(text), &why));
        }
    }
}

fn format(schema: &Value) -> &str {
    let format = schema.get("format").and_then(Value::as_str);
    format.unwrap_or_default()
}

fn check_number(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(number) = value.as_f64() else {
        return;
    };
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number());
    let mut refuse = |why: String| causes.push(Cause::invalid(path, value, &why));
    if let Some(most) = bound("maximum") {
        let open = flag(schema, "exclusiveMaximum");
        let limit = most.as_f64().unwrap_or(f64::MAX);
        if number > limit || (open && number >= limit) {
            let than = if open {
                "less than"
            } else {
                "less than or equal to"
            };
            refuse(format!("{path} in body should be {than} {most}"));
        }
    }
    if let Some(min) = bound("minimum") {
        let open = flag(schema, "exclusiveMinimum");
        let limit = min.as_f64().unwrap_or(f64::MIN);
        if number < limit || (open && number <= limit) {
            let than = if open {
                "greater than"
            } else {
                "greater than or equal to"
            };
            refuse(format!("{path} in body should be {than} {min}"));
        }
    }
    let whole = value.as_i64();
    let fits = match format(schema) {
        "int32" => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
        "int64" => whole.is_some(),
        _ => true,
    };
    if !fits {
        refuse(format!("{path} in body must be of type {}", format(schema)));
    }
    if let Some(step) = bound("multipleOf").and_then(Value::as_f64)
        && step > 0.0
        && number % step != 0.0
    {
        refuse(format!("{path} in body should be a multiple of {step}"));
    }
}

fn check_junctors(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let parts = |name: &str| schema.get(name).and_then(Value::as_array);
    let fits = |schema: &Value| {
        let mut found = Vec::new();
        check(schema, value, path, &mut found);
        found.is_empty()
    };
    for part in parts("allOf").into_iter().flatten() {
        check(part, value, path, causes);
    }
    let mut refuse = |why: &str| {
        causes.push(Cause::invalid(
            path,
            value,
            &format!("{path} in body {why}"),
        ))
    };
    if parts("anyOf").is_some_and(|parts| !parts.iter().any(&fits)) {
        refuse("should match at least one of anyOf");
    }
    if parts("oneOf").is_some_and(|parts| parts.iter().filter(|part| fits(part)).count() != 1) {
        refuse("should match exactly one of oneOf");
    }
    if schema.get("not").is_some_and(fits) {
        refuse("should not match the schema of not");
    }
}
