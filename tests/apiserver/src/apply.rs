//! Server-side apply and field ownership.
//!
//! An applied configuration owns the fields it names. A field it named before and no longer names is removed, unless
//! another manager owns it. A field with another value and another owner is a conflict (409) unless forced. Every
//! other write over HTTP makes its writer the owner of the changed fields. Simplified: writes of the emulator's own
//! controllers have no owner, and the versions of a kind share paths.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::fields::{self, Fields, ListType, Path, Shape, item_step, leaves, value_at};
use super::object::{list, set, text};
use super::status::{Cause, Refusal};

/// The manager of a write, and its mode.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Writer {
    pub(super) manager: String,
    pub(super) apply: bool,
    pub(super) force: bool,
    pub(super) subresource: String,
    pub(super) api_version: String,
    pub(super) now: String,
}

impl Writer {
    fn operation(&self) -> &'static str {
        if self.apply { "Apply" } else { "Update" }
    }

    fn is(&self, entry: &Value) -> bool {
        text(entry, "/manager") == self.manager
            && text(entry, "/operation") == self.operation()
            && text(entry, "/subresource") == self.subresource
    }

    fn entry(&self, fields: &Fields) -> Value {
        let mut entry = json!({
            "manager": self.manager, "operation": self.operation(), "apiVersion": self.api_version,
            "time": self.now, "fieldsType": "FieldsV1", "fieldsV1": fields::written(fields),
        });
        if !self.subresource.is_empty() {
            set(&mut entry, "/subresource", json!(self.subresource));
        }
        entry
    }
}

const MANAGED: &str = "/metadata/managedFields";

/// One manager's entry with its parsed field set.
struct Managed {
    entry: Value,
    owns: Fields,
    changed: bool,
}

fn read(object: &Value) -> Vec<Managed> {
    let entries = list(object, MANAGED).iter();
    let managed = entries.map(|entry| Managed {
        entry: entry.clone(),
        owns: fields::read(entry.get("fieldsV1").unwrap_or(&Value::Null)),
        changed: false,
    });
    managed.collect()
}

fn write(object: &mut Value, managed: Vec<Managed>) {
    let entries: Vec<Value> = managed
        .into_iter()
        .filter(|one| !one.owns.is_empty())
        .map(|mut one| {
            if one.changed {
                set(&mut one.entry, "/fieldsV1", fields::written(&one.owns));
            }
            one.entry
        })
        .collect();
    if entries.is_empty() {
        super::object::remove(object, MANAGED);
    } else {
        set(object, MANAGED, Value::Array(entries));
    }
}

/// Makes `writer` the owner of the fields that differ between `old` and `new`, and updates `managed_in`.
pub(super) fn own_changes(
    old: &Value,
    new: &Value,
    shape: Shape<'_>,
    writer: &Writer,
    managed_in: &mut Value,
) {
    let (before, after) = (leaves(old, shape), leaves(new, shape));
    let changed: Fields = after
        .iter()
        .filter(|(path, value)| before.get(*path) != Some(value))
        .map(|(path, _)| path.clone())
        .collect();
    let removed: Fields = before
        .into_keys()
        .filter(|path| !after.contains_key(path))
        .collect();
    let mut managed = read(old);
    for one in &mut managed {
        if !writer.is(&one.entry) {
            lose(one, &changed);
        }
        lose(one, &removed);
    }
    if !changed.is_empty() {
        match managed.iter_mut().find(|one| writer.is(&one.entry)) {
            Some(one) => {
                if !changed.is_subset(&one.owns) {
                    one.owns.extend(changed);
                    one.entry = writer.entry(&one.owns);
                }
            }
            None => managed.push(Managed {
                entry: writer.entry(&changed),
                owns: changed,
                changed: false,
            }),
        }
    }
    write(managed_in, managed);
}

fn lose(one: &mut Managed, lost: &Fields) {
    let before = one.owns.len();
    one.owns.retain(|path| !lost.contains(path));
    one.changed |= one.owns.len() != before;
}

/// Applies a configuration to an object (or to nothing).
///
/// # Errors
///
/// A conflict: another manager owns a field with another value, and `force` is not set.
pub(super) fn apply(
    live: &Value,
    applied: &Value,
    shape: Shape<'_>,
    writer: &Writer,
) -> Result<Value, Refusal> {
    let owns: Fields = leaves(applied, shape).into_keys().collect();
    let mut merged = live.clone();
    merge(&mut merged, applied, shape);
    let mut managed = read(live);
    let changed: Fields = owns
        .iter()
        .filter(|path| !same(value_at(live, path), value_at(&merged, path), path))
        .cloned()
        .collect();
    let conflicts: Vec<(String, Path)> = managed
        .iter()
        .filter(|one| !writer.is(&one.entry))
        .flat_map(|one| {
            let taken = one.owns.intersection(&changed);
            taken.map(|path| (named(&one.entry), path.clone()))
        })
        .collect();
    if !conflicts.is_empty() && !writer.force {
        return Err(refused(&conflicts));
    }
    for one in managed.iter_mut().filter(|one| !writer.is(&one.entry)) {
        lose(one, &changed);
    }
    let own = managed.iter().position(|one| writer.is(&one.entry));
    let before = own.map(|at| managed.remove(at));
    let others: BTreeSet<&Path> = managed.iter().flat_map(|one| &one.owns).collect();
    if let Some(before) = &before {
        // List items are removed before their fields: without its key an item could not be found.
        for path in before.owns.difference(&owns) {
            let kept = others.iter().any(|other| other.starts_with(path));
            if !kept {
                fields::remove_at(&mut merged, path);
            }
        }
    }
    managed.push(match before {
        Some(before) if before.owns == owns => before,
        _ => Managed {
            entry: writer.entry(&owns),
            owns,
            changed: false,
        },
    });
    write(&mut merged, managed);
    Ok(merged)
}

/// Whether a field is unchanged; for a list item only its presence is compared.
fn same(before: Option<&Value>, after: Option<&Value>, path: &[String]) -> bool {
    if path.last().is_some_and(|step| step.starts_with("k:")) {
        return before.is_some() == after.is_some();
    }
    before == after
}

fn merge(live: &mut Value, applied: &Value, shape: Shape<'_>) {
    match applied {
        Value::Object(fields) if !shape.is_atomic() => {
            if !live.is_object() {
                *live = Value::Object(Map::new());
            }
            let Some(map) = live.as_object_mut() else {
                return;
            };
            for (field, value) in fields {
                let shape = if field == "metadata" {
                    Shape::Field(field)
                } else {
                    shape.child(field)
                };
                if !value.is_null() {
                    merge(map.entry(field).or_insert(Value::Null), value, shape);
                }
            }
        }
        Value::Array(items) => merge_list(live, items, shape),
        other => *live = other.clone(),
    }
}

fn merge_list(live: &mut Value, items: &[Value], shape: Shape<'_>) {
    let kind = shape.list(items);
    if !live.is_array() || kind == ListType::Atomic {
        *live = Value::Array(items.to_vec());
        return;
    }
    let Some(old) = live.as_array_mut() else {
        return;
    };
    for item in items {
        let found = match &kind {
            ListType::Map(keys) => {
                let step = item_step(item, keys);
                old.iter_mut().find(|other| item_step(other, keys) == step)
            }
            _ => old.iter_mut().find(|other| *other == item),
        };
        match found {
            Some(other) => merge(other, item, shape.items()),
            None => old.push(item.clone()),
        }
    }
}

/// A manager as conflict messages name it.
fn named(entry: &Value) -> String {
    let mut description = format!("{:?}", text(entry, "/manager"));
    let subresource = text(entry, "/subresource");
    if !subresource.is_empty() {
        description.push_str(&format!(" with subresource {subresource:?}"));
    }
    if text(entry, "/operation") == "Update" {
        description.push_str(&format!(" using {}", text(entry, "/apiVersion")));
        description.push_str(&format!(" at {}", text(entry, "/time")));
    }
    description
}

fn refused(conflicts: &[(String, Path)]) -> Refusal {
    let causes: Vec<Cause> = conflicts
        .iter()
        .map(|(manager, path)| {
            let message = format!("conflict with {manager}");
            Cause::new("FieldManagerConflict", fields::shown(path), message)
        })
        .collect();
    let message = match causes.as_slice() {
        [one] => format!(
            "Apply failed with 1 conflict: {}: {}",
            one.message, one.field
        ),
        many => {
            let managers: BTreeSet<&String> =
                conflicts.iter().map(|(manager, _)| manager).collect();
            let mut text = format!("Apply failed with {} conflicts:", many.len());
            for manager in managers {
                text.push_str(&format!(" conflicts with {manager}:"));
                let own = conflicts.iter().filter(|(other, _)| other == manager);
                for (_, path) in own {
                    text.push_str(&format!("\n- {}", fields::shown(path)));
                }
            }
            text
        }
    };
    Refusal::new(409, "Conflict", message).with(causes)
}
