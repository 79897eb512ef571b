//! An API object as JSON: its fields by JSON pointer, its key, its labels.
//!
//! Independent of the kind. A field that is missing, or has another type, reads as empty.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Namespace (empty for cluster-wide kinds) and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key {
    /// The namespace, or "".
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// A key; the namespace is empty for cluster-wide kinds.
    pub fn new(namespace: &str, name: &str) -> Key {
        Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The key of `object`.
    pub(super) fn of(object: &Value) -> Key {
        Key::new(
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name"),
        )
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The text at `path`, or "".
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The integer at `path`.
pub(super) fn number(object: &Value, path: &str) -> Option<i64> {
    object.pointer(path).and_then(Value::as_i64)
}

/// The list at `path`, or an empty one.
pub(super) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    object
        .pointer(path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The map at `path`, if it exists.
pub(super) fn map<'a>(object: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(path).and_then(Value::as_object)
}

/// The value at `path`, or null.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    object.pointer(path).unwrap_or(&Value::Null)
}

/// Sets the value at `path`, creating missing maps, but no lists.
pub(super) fn set(object: &mut Value, path: &str, value: Value) {
    if let Some(place) = place(object, path) {
        *place = value;
    }
}

/// The place at `path`, created if missing.
pub(super) fn place<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut here = object;
    for step in path.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        here = match here {
            Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?)?,
            other => {
                if !other.is_object() {
                    *other = Value::Object(Map::new());
                }
                other.as_object_mut()?.entry(step).or_insert(Value::Null)
            }
        };
    }
    Some(here)
}

/// Removes the value at `path`.
pub(super) fn remove(object: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    object.pointer_mut(parent)?.as_object_mut()?.remove(&last)
}

/// A map of strings, such as labels.
pub(super) fn texts(object: &Value, path: &str) -> BTreeMap<String, String> {
    map(object, path)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Kind and uid of the object's controller, from `ownerReferences`.
pub(super) fn controller(object: &Value) -> Option<(&str, &str)> {
    list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| at(owner, "/controller") == &Value::Bool(true))
        .map(|owner| (text(owner, "/kind"), text(owner, "/uid")))
}

/// The condition of type `name` in the object's status.
pub(super) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == name)
}

/// Whether the condition of type `name` is `True`.
pub(super) fn holds(object: &Value, name: &str) -> bool {
    condition(object, name).is_some_and(|condition| text(condition, "/status") == "True")
}

/// Sets the condition of this type; the last transition time is kept if the status is unchanged.
pub(super) fn set_condition(object: &mut Value, mut condition: Value) {
    let name = text(&condition, "/type").to_owned();
    let Some(conditions) = place(object, "/status/conditions") else {
        return;
    };
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    match conditions.iter_mut().find(|old| text(old, "/type") == name) {
        Some(old) => {
            if text(old, "/status") == text(&condition, "/status")
                && text(old, "/reason") == text(&condition, "/reason")
                && let Some(since) = old.get("lastTransitionTime")
            {
                set(&mut condition, "/lastTransitionTime", since.clone());
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Removes the condition of type `name`; returns whether it existed.
pub(super) fn drop_condition(object: &mut Value, name: &str) -> bool {
    let Some(Value::Array(conditions)) = object.pointer_mut("/status/conditions") else {
        return false;
    };
    let before = conditions.len();
    conditions.retain(|condition| text(condition, "/type") != name);
    conditions.len() != before
}
