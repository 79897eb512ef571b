//! An API object as JSON: its fields by JSON pointer, its key, its labels.
//!
//! Nothing here knows a kind. A field that is not there, or is of another type, reads as empty.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Namespace (empty where the kind has none) and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key {
    /// The namespace, or empty.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// A key; an empty namespace for kinds that have none.
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

/// The text at `path`, or empty.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The whole number at `path`.
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

/// The map at `path`, if there is one.
pub(super) fn map<'a>(object: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(path).and_then(Value::as_object)
}

/// The value at `path`, or null.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    object.pointer(path).unwrap_or(&Value::Null)
}

/// Puts `value` at `path`, making maps on the way; lists are entered, never made.
pub(super) fn set(object: &mut Value, path: &str, value: Value) {
    if let Some(place) = place(object, path) {
        *place = value;
    }
}

/// The place at `path`, made where it is missing.
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

/// Takes away what is at `path`.
pub(super) fn remove(object: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    object.pointer_mut(parent)?.as_object_mut()?.remove(&last)
}

/// The texts of a map of texts, such as labels.
pub(super) fn texts(object: &Value, path: &str) -> BTreeMap<String, String> {
    map(object, path)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// The `ownerReferences` entry of whoever controls the object: its kind and uid.
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

/// Sets the condition, by its type; the time of its last transition stays where its status does.
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

/// Drops the condition of type `name`; whether there was one.
pub(super) fn drop_condition(object: &mut Value, name: &str) -> bool {
    let Some(Value::Array(conditions)) = object.pointer_mut("/status/conditions") else {
        return false;
    };
    let before = conditions.len();
    conditions.retain(|condition| text(condition, "/type") != name);
    conditions.len() != before
}
