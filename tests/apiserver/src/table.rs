//! Objects as a table for `kubectl get`: a custom kind's `additionalPrinterColumns`, else name and age.
//!
//! Simplified: JSON paths support fields and the item whose field equals a text; built-in kinds have no columns of
//! their own; ages are in one unit. Watches do not support tables.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::object::text;
use super::views;

/// Whether the request is for a table.
pub(super) fn is_requested(accept: &str) -> bool {
    accept.contains("as=Table")
}

/// The table of these objects; `version` is the list's.
pub(super) fn of<'a>(
    kind: &Kind,
    version: &str,
    objects: impl Iterator<Item = &'a Value>,
    metadata: &Value,
    now: &str,
) -> Value {
    let age = [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
    let own = kind.columns.get(version).filter(|own| !own.is_empty());
    let columns = own.map_or(age.as_slice(), Vec::as_slice);
    let mut definitions =
        vec![json!({"name": "Name", "type": "string", "format": "name", "priority": 0})];
    definitions.extend(columns.iter().map(|column| {
        json!({"name": text(column, "/name"), "type": text(column, "/type"), "format": text(column, "/format"),
            "description": text(column, "/description"),
            "priority": column.get("priority").cloned().unwrap_or_else(|| json!(0))})
    }));
    let rows: Vec<Value> = objects
        .map(|object| {
            let mut cells = vec![json!(text(object, "/metadata/name"))];
            cells.extend(columns.iter().map(|column| cell(column, object, now)));
            json!({"cells": cells, "object": views::metadata(object)})
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows})
}

fn cell(column: &Value, object: &Value, now: &str) -> Value {
    let found = found(object, text(column, "/jsonPath"));
    match (found, text(column, "/type")) {
        (None, _) => Value::Null,
        (Some(value), "date") => json!(age(value.as_str().unwrap_or_default(), now)),
        (Some(value), "string") if !value.is_string() => json!(value.to_string()),
        (Some(value), _) => value.clone(),
    }
}

/// The value at a JSON path of fields (`.a.b`) and filters (`[?(@.a=='b')]`).
fn found<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let (mut here, mut rest) = (object, path);
    while !rest.is_empty() {
        if let Some(choice) = rest.strip_prefix("[?(@.") {
            let (field, after) = choice.split_once("=='")?;
            let (value, after) = after.split_once("')]")?;
            let is = |item: &&Value| item.get(field).and_then(Value::as_str) == Some(value);
            (here, rest) = (here.as_array()?.iter().find(is)?, after);
        } else {
            let field = rest.strip_prefix('.')?;
            let end = field.find(['.', '[']).unwrap_or(field.len());
            let (field, after) = field.split_at_checked(end)?;
            (here, rest) = (here.get(field)?, after);
        }
    }
    Some(here)
}

fn age(since: &str, now: &str) -> String {
    let second = |text: &str| text.parse::<Timestamp>().map(Timestamp::as_second);
    let (Ok(since), Ok(now)) = (second(since), second(now)) else {
        return "<invalid>".to_owned();
    };
    match (now - since).max(0) {
        age @ ..120 => format!("{age}s"),
        age @ ..7_200 => format!("{}m", age / 60),
        age @ ..172_800 => format!("{}h", age / 3_600),
        age => format!("{}d", age / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_paths_and_ages_match_kubectl() {
        let object = json!({"spec": {"mode": "active"}, "status": {"conditions": [
            {"type": "A", "status": "True"}, {"type": "B", "status": "False"}]}});
        for (path, expected) in [
            (".spec.mode", Some("active")),
            (".status.conditions[?(@.type=='B')].status", Some("False")),
            (".status.conditions[?(@.type=='C')].status", None),
            (".status.conditions.status", None),
            ("spec", None),
        ] {
            let read = found(&object, path).and_then(Value::as_str);
            assert_eq!(read, expected, "{path}");
        }
        for (seconds, expected) in [(0, "0s"), (119, "119s"), (120, "2m"), (7_200, "2h")] {
            let now = Timestamp::from_second(seconds).unwrap().to_string();
            assert_eq!(age("1970-01-01T00:00:00Z", &now), expected);
        }
    }
}
