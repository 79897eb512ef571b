//! Views of a stored object: a kind's other versions, `events.k8s.io`, metadata only, scale.
//!
//! Versions of a custom resource differ in name only (conversion strategy None).

use serde_json::{Value, json};

use super::kinds::Kind;
use super::object::{at, remove, set};

/// Field names of events: in core, which is stored, and in `events.k8s.io`.
const EVENT: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(object: &mut Value, names: impl Iterator<Item = (&'static str, &'static str)>) {
    for (from, to) in names {
        if let Some(value) = remove(object, &format!("/{from}")) {
            set(object, &format!("/{to}"), value);
        }
    }
}

fn is_other_event(kind: &Kind) -> bool {
    kind.id == "events.events.k8s.io"
}

/// Converts a body from its kind's form to the stored form.
pub(super) fn stored(kind: &Kind, object: &mut Value) {
    if is_other_event(kind) {
        rename(object, EVENT.into_iter().map(|(core, other)| (other, core)));
        set(object, "/apiVersion", json!("v1"));
    }
}

/// Converts a stored object to a version of its kind.
pub(super) fn shown(kind: &Kind, version: &str, object: &Value) -> Value {
    let mut object = object.clone();
    if is_other_event(kind) {
        rename(&mut object, EVENT.into_iter());
    }
    set(&mut object, "/apiVersion", json!(kind.api_version(version)));
    set(&mut object, "/kind", json!(kind.kind));
    object
}

/// Metadata only, for requests of `PartialObjectMetadata`.
pub(super) fn metadata(object: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": at(object, "/metadata")})
}
