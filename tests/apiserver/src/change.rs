//! Steps common to all changes of an object, whatever the request.
//!
//! Compares versions, keeps fields that clients may not set, restricts a subresource to its own
//! part, and increments the generation when the spec changes. A change of nothing writes nothing; a
//! dry run stores nothing.

use serde_json::Value;

use super::admit;
use super::apply;
use super::cluster::{Cluster, count_generation};
use super::kinds::Kind;
use super::object::{Key, at, remove, set, text};
use super::pods;
use super::request::ApiRequest;
use super::resize;
use super::status::{Cause, Refusal};
use super::views;
use super::write::{Answer, writer};

/// Metadata that only the server sets.
const SERVERS_OWN: [&str; 7] = [
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/creationTimestamp",
    "/metadata/generation",
    "/metadata/deletionTimestamp",
    "/metadata/deletionGracePeriodSeconds",
];

const VERSION: &str = "/metadata/resourceVersion";
const MANAGED: &str = "/metadata/managedFields";

/// Checks that the writer read the latest version of the same object.
fn check_version(kind: &Kind, old: &Value, new: &Value) -> Result<(), Refusal> {
    let name = text(old, "/metadata/name");
    let (version, uid) = (text(new, VERSION), text(new, "/metadata/uid"));
    if !uid.is_empty() && uid != text(old, "/metadata/uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(old, "/metadata/uid")
        );
        return Err(Refusal::conflict(kind, name, &why));
    }
    match version.is_empty() || version == text(old, VERSION) {
        true => Ok(()),
        false => Err(Refusal::stale(kind, name)),
    }
}

/// Changes `old` into `new`, as far as the subresource allows. `managed`: the field managers, if an
/// apply has already computed them.
pub(super) fn change(
    cluster: &mut Cluster,
    request: &ApiRequest,
    old: &Value,
    mut new: Value,
    managed: Option<Value>,
) -> Result<Answer, Refusal> {
    let kind = &request.kind;
    check_version(kind, old, &new)?;
    for field in SERVERS_OWN {
        match old.pointer(field) {
            Some(value) => set(&mut new, field, value.clone()),
            None => drop(remove(&mut new, field)),
        }
    }
    set(&mut new, VERSION, at(old, VERSION).clone());
    let mut new = admit::conform(kind, &request.version, new, request.is_strict())?;
    let keep = |new: &mut Value, field: &str| match old.pointer(field) {
        Some(value) => set(new, field, value.clone()),
        None => drop(remove(new, field)),
    };
    keep(&mut new, MANAGED);
    let mut new = match request.subresource.as_str() {
        "status" => {
            let mut kept = old.clone();
            match new.get_mut("status").map(Value::take) {
                Some(status) => set(&mut kept, "/status", status),
                None => drop(remove(&mut kept, "/status")),
            }
            kept
        }
        _ => {
            if kind.status {
                keep(&mut new, "/status");
            }
            new
        }
    };
    let attempted = new.clone();
    if request.subresource == "resize" {
        new = resized(cluster, request, old, &new)?;
    } else if kind.id == "pods" && request.subresource.is_empty() {
        let causes = pods::check_update(old, &new);
        if !causes.is_empty() {
            return Err(kind.invalid(&request.key.name, causes));
        }
    }
    set(&mut new, "/apiVersion", at(old, "/apiVersion").clone());
    admit::check(&mut cluster.rules, kind, &request.version, Some(old), &new)?;
    if kind.generation && spec(kind, old) != spec(kind, &new) {
        count_generation(&mut new);
    }
    match managed {
        Some(managed) => set(&mut new, MANAGED, managed),
        None => {
            let writer = writer(cluster, request, false);
            let shape = kind.shape(&request.version);
            apply::own_changes(old, &attempted, shape, &writer, &mut new);
        }
    }
    if request.is_dry() || new == *old {
        return Ok((200, views::shown(kind, &request.version, &new)));
    }
    let stored = cluster.put(kind, new);
    Ok((200, views::shown(kind, &request.version, &stored)))
}

/// The part whose changes increment the generation.
fn spec(kind: &Kind, object: &Value) -> Value {
    if !kind.is_custom() {
        return at(object, "/spec").clone();
    }
    let mut all = object.clone();
    if let Some(map) = all.as_object_mut() {
        map.retain(|field, _| {
            !(["metadata", "apiVersion"].contains(&field.as_str())
                || (kind.status && field == "status"))
        });
    }
    all
}

fn resized(
    cluster: &Cluster,
    request: &ApiRequest,
    old: &Value,
    new: &Value,
) -> Result<Value, Refusal> {
    let kind = &request.kind;
    let taken = resize::taken(old, new);
    let node = cluster
        .store
        .get("nodes", &Key::new("", text(old, "/spec/nodeName")));
    if cluster.options.version.refuses_beyond_node()
        && at(&taken, "/spec") != at(old, "/spec")
        && let Some(why) = node.and_then(|node| resize::beyond_node(&taken, &node))
    {
        let cause = Cause::new("NodeCapacity", "", "");
        return Err(Refusal::forbidden(kind, &request.key.name, &why).with(vec![cause]));
    }
    if let Some(why) = cluster.controllers.kubelet.refuses(&request.key) {
        let cause = Cause::new("UnsupportedPlatform", "", "");
        return Err(Refusal::forbidden(kind, &request.key.name, &why).with(vec![cause]));
    }
    let causes = resize::check(old, &taken);
    match causes.is_empty() {
        true => Ok(taken),
        false => Err(kind.invalid(&request.key.name, causes)),
    }
}
