//! Strategic merge: lists of named items are merged by their key, other lists are replaced.
//!
//! Kubernetes' own types define the keys; this is the part of that table needed for pods, workloads, services and
//! conditions. Directives: `$patch: delete | replace`, `$deleteFromPrimitiveList`; `$setElementOrder` and
//! `$retainKeys` are accepted and ignored. A merged list has Kubernetes' order: items only on the server follow those
//! of the patch, unless both existed before.

use serde_json::{Map, Value};

/// Keys of the lists that are merged.
const KEYS: [(&str, &str); 18] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("conditions", "type"),
    ("env", "name"),
    ("volumes", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("ownerReferences", "uid"),
    ("secrets", "name"),
    ("resourceClaims", "name"),
    ("podIPs", "ip"),
    ("hostIPs", "ip"),
    ("addresses", "type"),
    ("taints", "key"),
];

/// The key of the list called `field`. Its items decide if the name is ambiguous.
pub(super) fn merge_key(field: &str, items: &[Value]) -> Option<&'static str> {
    if field == "ports" {
        let inside = items.iter().any(|item| item.get("containerPort").is_some());
        return Some(if inside { "containerPort" } else { "port" });
    }
    let found = KEYS.iter().find(|(name, _)| *name == field)?;
    Some(found.1)
}

/// Merges `patch` into `object`.
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if directive(patch) == Some("replace") {
        let mut whole = patch.clone();
        whole.remove("$patch");
        *object = Value::Object(whole);
        return;
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(object) = object.as_object_mut() else {
        return;
    };
    if directive(patch) == Some("delete") {
        object.clear();
        return;
    }
    for (field, value) in patch {
        if let Some(list) = field.strip_prefix("$deleteFromPrimitiveList/") {
            let removed = value.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(Value::Array(items)) = object.get_mut(list) {
                items.retain(|item| !removed.contains(item));
            }
        } else if field.starts_with('$') {
        } else if value.is_null() {
            object.remove(field);
        } else if let Value::Array(items) = value {
            merge_list(object.entry(field).or_insert(Value::Null), field, items);
        } else {
            merge(object.entry(field).or_insert(Value::Null), value);
        }
    }
}

fn directive(patch: &Map<String, Value>) -> Option<&str> {
    patch.get("$patch")?.as_str()
}

fn merge_list(place: &mut Value, field: &str, patch: &[Value]) {
    let old = match place.take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let named = patch.iter().all(Value::is_object);
    let key = merge_key(field, patch).filter(|_| named && !patch.is_empty());
    *place = Value::Array(match key {
        Some(key) => merge_named(old, patch, key),
        None if field == "finalizers" => {
            let new = patch.iter().filter(|item| !old.contains(item)).cloned();
            let new: Vec<_> = new.collect();
            old.into_iter().chain(new).collect()
        }
        None => patch.to_vec(),
    });
}

fn merge_named(old: Vec<Value>, patch: &[Value], key: &str) -> Vec<Value> {
    let directive_of = |item: &Value| item.as_object().and_then(directive).map(str::to_owned);
    if patch
        .iter()
        .any(|item| directive_of(item).as_deref() == Some("replace"))
    {
        let kept = patch.iter().filter(|item| directive_of(item).is_none());
        return kept.cloned().collect();
    }
    let order: Vec<Value> = old
        .iter()
        .filter_map(|item| item.get(key).cloned())
        .collect();
    let position = |item: &Value| order.iter().position(|name| item.get(key) == Some(name));
    let mut server_only = old;
    let mut patched = Vec::new();
    for item in patch {
        let same = |other: &Value| item.get(key).is_some() && other.get(key) == item.get(key);
        let found = server_only.iter().position(same);
        let before = found.map(|at| server_only.remove(at));
        if directive_of(item).as_deref() == Some("delete") {
            continue;
        }
        let mut merged = before.unwrap_or(Value::Null);
        merge(&mut merged, item);
        patched.push(merged);
    }
    // Merges two sorted lists: the server's item goes first only if the server knows both.
    let mut merged = Vec::with_capacity(server_only.len() + patched.len());
    let mut left = server_only.into_iter().peekable();
    for item in patched {
        while let Some(other) = left.peek() {
            match (position(other), position(&item)) {
                (Some(other), Some(own)) if other < own => merged.extend(left.next()),
                _ => break,
            }
        }
        merged.push(item);
    }
    merged.extend(left);
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::merge;

    fn check(before: Value, patch: Value, after: Value) {
        let mut object = before;
        merge(&mut object, &patch);
        assert_eq!(object, after, "{patch}");
    }

    #[test]
    fn keyed_lists_are_merged_and_others_replaced() {
        let pod =
            json!({"containers": [{"name": "a", "args": ["x"], "image": "1"}, {"name": "b"}]});
        check(
            pod.clone(),
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "args": ["x"], "image": "1"}, {"name": "b", "image": "2"}]}),
        );
        check(
            pod.clone(),
            json!({"containers": [{"name": "a", "args": ["y"], "image": null}]}),
            json!({"containers": [{"name": "a", "args": ["y"]}, {"name": "b"}]}),
        );
        check(
            pod.clone(),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        );
        check(
            pod,
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}]}),
        );
    }

    #[test]
    fn patch_items_precede_server_only_items() {
        check(
            json!({"conditions": [{"type": "Ready"}]}),
            json!({"conditions": [{"type": "New"}]}),
            json!({"conditions": [{"type": "New"}, {"type": "Ready"}]}),
        );
        check(
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}),
            json!({"finalizers": ["b", "c"]}),
        );
    }
}
