//! Field sets, as in `managedFields`, and the merge rules of an object's lists and maps.
//!
//! A path is a list of steps: `f:field`, `k:{keys of an item}`, `v:value of a set`. Simplified against Kubernetes: in
//! built-in kinds only the lists that strategic merge knows are merged by key, `finalizers` is a set, selectors are
//! atomic, and the rest follows from the JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::strategic::merge_key;

/// A path to a field.
pub(super) type Path = Vec<String>;

/// A set of fields, by their paths.
pub(super) type Fields = BTreeSet<Path>;

/// Metadata without managers.
const UNMANAGED: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// Maps of built-in kinds that are atomic.
const ATOMIC: [&str; 4] = [
    "selector",
    "nodeSelector",
    "scaleTargetRef",
    "labelSelector",
];

/// Merge rule of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ListType {
    Map(Vec<String>),
    Set,
    Atomic,
}

/// Type information of a place in an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    /// A built-in kind's field.
    Field(&'a str),
    /// A place with a schema.
    Schema(&'a Value),
}

impl<'a> Shape<'a> {
    pub(super) fn child(self, field: &'a str) -> Shape<'a> {
        match self {
            Shape::Field(_) => Shape::Field(field),
            Shape::Schema(schema) => {
                let own = schema.get("properties").and_then(|all| all.get(field));
                let any = || schema.get("additionalProperties");
                match own.or_else(any) {
                    Some(schema) => Shape::Schema(schema),
                    None => Shape::Field(field),
                }
            }
        }
    }

    pub(super) fn items(self) -> Shape<'a> {
        match self {
            Shape::Field(_) => Shape::Field(""),
            Shape::Schema(schema) => Shape::Schema(schema.get("items").unwrap_or(&Value::Null)),
        }
    }

    pub(super) fn list(self, items: &[Value]) -> ListType {
        match self {
            Shape::Field("finalizers") => ListType::Set,
            Shape::Field(field) => match merge_key(field, items) {
                Some(key) => ListType::Map(vec![key.to_owned()]),
                None => ListType::Atomic,
            },
            Shape::Schema(schema) => {
                let of = |key| schema.get(key);
                match of("x-kubernetes-list-type").and_then(Value::as_str) {
                    Some("set") => ListType::Set,
                    Some("map") => {
                        let keys = of("x-kubernetes-list-map-keys").and_then(Value::as_array);
                        let keys = keys.into_iter().flatten();
                        ListType::Map(keys.filter_map(|k| Some(k.as_str()?.to_owned())).collect())
                    }
                    _ => ListType::Atomic,
                }
            }
        }
    }

    pub(super) fn is_atomic(self) -> bool {
        match self {
            Shape::Field(field) => ATOMIC.contains(&field),
            Shape::Schema(schema) => {
                schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic")
            }
        }
    }
}

/// The step to an item of a list merged by `keys`.
pub(super) fn item_step(item: &Value, keys: &[String]) -> String {
    let named: Map<String, Value> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
        .collect();
    format!("k:{}", Value::Object(named))
}

/// All leaves of an object with their values, without unmanaged metadata.
pub(super) fn leaves<'a>(object: &'a Value, shape: Shape<'a>) -> BTreeMap<Path, &'a Value> {
    let mut found = BTreeMap::new();
    let Some(map) = object.as_object() else {
        return found;
    };
    for (field, value) in map {
        let path = vec![format!("f:{field}")];
        match field.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    if !UNMANAGED.contains(&field.as_str()) {
                        let path = vec!["f:metadata".to_owned(), format!("f:{field}")];
                        walk(value, Shape::Field(field), path, &mut found);
                    }
                }
            }
            _ => walk(value, shape.child(field), path, &mut found),
        }
    }
    found
}

fn walk<'a>(value: &'a Value, shape: Shape<'a>, path: Path, found: &mut BTreeMap<Path, &'a Value>) {
    match value {
        Value::Object(map) if !map.is_empty() && !shape.is_atomic() => {
            for (field, value) in map {
                let mut path = path.clone();
                path.push(format!("f:{field}"));
                walk(value, shape.child(field), path, found);
            }
        }
        Value::Array(items) => match shape.list(items) {
            ListType::Atomic => {
                found.insert(path, value);
            }
            ListType::Set => {
                for item in items {
                    let mut path = path.clone();
                    path.push(format!("v:{item}"));
                    found.insert(path, item);
                }
            }
            ListType::Map(keys) => {
                for item in items {
                    let mut path = path.clone();
                    path.push(item_step(item, &keys));
                    // The item itself is owned too, so that a manager without any of its fields still keeps it.
                    found.insert(path.clone(), &Value::Null);
                    walk(item, shape.items(), path, found);
                }
            }
        },
        _ => {
            found.insert(path, value);
        }
    }
}

/// The value at a path.
pub(super) fn value_at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    let mut here = object;
    for step in path {
        here = match step.split_at_checked(2)? {
            ("f:", field) => here.get(field)?,
            (kind, text) => {
                let target: Value = serde_json::from_str(text).ok()?;
                let items = here.as_array()?;
                items.iter().find(|item| is_item(item, kind, &target))?
            }
        };
    }
    Some(here)
}

fn is_item(item: &Value, kind: &str, target: &Value) -> bool {
    if kind == "v:" {
        return item == target;
    }
    let mut keys = target.as_object().into_iter().flatten();
    keys.all(|(key, value)| item.get(key) == Some(value))
}

/// Removes the value at a path, and maps that this leaves empty.
pub(super) fn remove_at(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    let Some((kind, text)) = step.split_at_checked(2) else {
        return;
    };
    if kind == "f:" {
        let Some(map) = object.as_object_mut() else {
            return;
        };
        let empty = match map.get_mut(text) {
            Some(inner) if !rest.is_empty() => {
                remove_at(inner, rest);
                inner.as_object().is_some_and(Map::is_empty)
                    || inner.as_array().is_some_and(Vec::is_empty)
            }
            _ => true,
        };
        if empty {
            map.remove(text);
        }
    } else if let Some(items) = object.as_array_mut()
        && let Ok(target) = serde_json::from_str::<Value>(text)
        && let Some(at) = items.iter().position(|item| is_item(item, kind, &target))
    {
        if rest.is_empty() {
            items.remove(at);
        } else if let Some(item) = items.get_mut(at) {
            remove_at(item, rest);
        }
    }
}

/// A set in the format of `fieldsV1`.
pub(super) fn written(fields: &Fields) -> Value {
    let mut root = Map::new();
    for path in fields {
        let mut here = &mut root;
        for step in path {
            let next = here
                .entry(step.clone())
                .or_insert_with(|| Value::Object(Map::new()));
            match next {
                Value::Object(map) => here = map,
                // Unreachable: only maps are inserted.
                _ => return Value::Null,
            }
        }
        here.insert(".".to_owned(), Value::Object(Map::new()));
    }
    tidy(&mut root);
    Value::Object(root)
}

/// Leaves become empty maps; `.` remains only in members with children.
fn tidy(map: &mut Map<String, Value>) {
    if map.len() == 1 {
        map.remove(".");
    }
    for (key, value) in map.iter_mut() {
        if let (true, Value::Object(inner)) = (key != ".", value) {
            tidy(inner);
        }
    }
}

/// Parses `fieldsV1`.
pub(super) fn read(fields: &Value) -> Fields {
    let mut found = Fields::new();
    if let Some(map) = fields.as_object() {
        read_into(map, &mut Vec::new(), &mut found);
    }
    found
}

fn read_into(map: &Map<String, Value>, path: &mut Path, found: &mut Fields) {
    if !path.is_empty() && (map.is_empty() || map.contains_key(".")) {
        found.insert(path.clone());
    }
    for (step, below) in map {
        if let (true, Value::Object(below)) = (step != ".", below) {
            path.push(step.clone());
            read_into(below, path, found);
            path.pop();
        }
    }
}

/// A path as conflict messages show it: `.spec.containers[name="app"].image`.
pub(super) fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        match step.split_at_checked(2) {
            Some(("f:", field)) => text.push_str(&format!(".{field}")),
            Some(("k:", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<_> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                text.push_str(&format!("[{}]", pairs.join(",")));
            }
            Some((_, value)) => text.push_str(&format!("[={value}]")),
            None => {}
        }
    }
    text
}
