//! `/scale`: the replicas of an object of any kind, in the form of `autoscaling/v1`.

use serde_json::{Value, json};

use super::apply::{Writer, own_changes};
use super::cluster::{Cluster, count_generation};
use super::kinds::{Kind, Scale};
use super::object::{at, number, set, text};
use super::patch::{self, Patch};
use super::request::{ApiRequest, Verb};
use super::select::Labels;
use super::status::{Cause, Refusal};
use super::write::Answer;

fn paths(kind: &Kind) -> Result<&Scale, Refusal> {
    kind.scale.as_ref().ok_or_else(Refusal::no_path)
}

/// The `Scale` of an object.
pub(super) fn shown(kind: &Kind, object: &Value) -> Result<Value, Refusal> {
    let paths = paths(kind)?;
    let selector = match at(object, &paths.selector) {
        Value::String(text) => text.clone(),
        other => Labels::of(other)
            .map(|labels| labels.written())
            .unwrap_or_default(),
    };
    Ok(json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": at(object, "/metadata/name"), "namespace": at(object, "/metadata/namespace"),
            "uid": at(object, "/metadata/uid"),
            "resourceVersion": at(object, "/metadata/resourceVersion"),
            "creationTimestamp": at(object, "/metadata/creationTimestamp"),
        },
        "spec": {"replicas": number(object, &paths.replicas).unwrap_or(0)},
        "status": {"replicas": number(object, &paths.status).unwrap_or(0), "selector": selector},
    }))
}

/// Handles PUT and PATCH.
pub(super) fn write(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    let kind = &request.kind;
    let name = &request.key.name;
    let old = cluster
        .store
        .get(&kind.shelf, &request.key)
        .ok_or_else(|| request.not_found())?;
    let before = shown(kind, &old)?;
    let applied = request.verb == Verb::Patch && Patch::of(request)? == Patch::Apply;
    let after = match request.verb {
        Verb::Update => patch::body(request)?,
        Verb::Patch if applied => {
            let mut after = before.clone();
            json_patch::merge(&mut after, &patch::body(request)?);
            after
        }
        Verb::Patch => patch::patched(request, Patch::of(request)?, &before)?,
        _ => return Err(Refusal::method()),
    };
    let version = text(&after, "/metadata/resourceVersion");
    if !version.is_empty() && version != text(&old, "/metadata/resourceVersion") {
        return Err(Refusal::stale(kind, name));
    }
    let replicas = number(&after, "/spec/replicas").unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &json!(replicas), why);
        return Err(Refusal::invalid("autoscaling", "Scale", name, vec![cause]));
    }
    let mut new = Value::clone(&old);
    let paths = paths(kind)?;
    if number(&old, &paths.replicas) != Some(replicas) {
        set(&mut new, &paths.replicas, json!(replicas));
        count_generation(&mut new);
        let attempted = new.clone();
        let writer = Writer {
            manager: request.manager(),
            apply: false,
            force: false,
            subresource: "scale".to_owned(),
            api_version: kind.api_version(&request.version),
            now: cluster.clock.now(),
        };
        own_changes(
            &old,
            &attempted,
            kind.shape(&request.version),
            &writer,
            &mut new,
        );
    }
    if request.is_dry() || new == *old {
        return Ok((200, shown(kind, &new)?));
    }
    let stored = cluster.put(kind, new);
    Ok((200, shown(kind, &stored)?))
}
