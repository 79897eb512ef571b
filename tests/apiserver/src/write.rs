//! The write verbs: create, update, patch, apply, delete.
//!
//! It finds the object and builds the new one from the body; `admit` and `change` decide whether that is allowed.

use serde_json::{Value, json};

use super::admit;
use super::apply::{self, Writer};
use super::change::change;
use super::cluster::Cluster;
use super::kinds::Kind;
use super::object::{Key, at, list, number, remove, set, text};
use super::patch::{self, Patch};
use super::pods;
use super::request::{ApiRequest, Verb};
use super::status::{Cause, Refusal};
use super::{eviction, namespaces, scale, views};

/// A response: status and body.
pub(super) type Answer = (u16, Value);

const VERSION: &str = "/metadata/resourceVersion";
const MANAGED: &str = "/metadata/managedFields";

/// Maximum size of a request's body, as in Kubernetes.
pub(super) const BODY_MAX: usize = 3 * 1024 * 1024;

/// Performs a write verb.
pub(super) fn write(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    match (request.verb, request.subresource.as_str()) {
        (Verb::Create, "eviction") => eviction::evict(cluster, request),
        (Verb::Create, "binding") => bind(cluster, request),
        (_, "scale") => scale::write(cluster, request),
        (Verb::Create, _) => create(cluster, request),
        (Verb::Update, _) => update(cluster, request),
        (Verb::Patch, _) => patch(cluster, request),
        (Verb::Delete, _) => delete(cluster, request),
        _ => Err(Refusal::method()),
    }
}

pub(super) fn writer(cluster: &Cluster, request: &ApiRequest, apply: bool) -> Writer {
    Writer {
        manager: request.manager(),
        apply,
        force: request.flag("force"),
        subresource: request.subresource.clone(),
        api_version: request.kind.api_version(&request.version),
        now: cluster.clock.now(),
    }
}

fn create(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    let body = patch::body(request)?;
    create_from(cluster, request, body)
}

fn create_from(
    cluster: &mut Cluster,
    request: &ApiRequest,
    mut body: Value,
) -> Result<Answer, Refusal> {
    let kind = &request.kind;
    views::stored(kind, &mut body);
    let mut body = admit::conform(kind, &request.version, body, request.is_strict())?;
    let key = admit::place(kind, &request.key.namespace, &mut body)?;
    let prefix = text(&body, "/metadata/generateName").to_owned();
    let key = match key.name.is_empty() && !prefix.is_empty() {
        true => {
            let name = format!("{prefix}{}", cluster.suffix(5));
            set(&mut body, "/metadata/name", json!(name));
            Key::new(&key.namespace, &name)
        }
        false => key,
    };
    if !text(&body, VERSION).is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Refusal::new(400, "BadRequest", message));
    }
    if kind.namespaced
        && let Some(namespaces) = cluster.kinds.by_id("namespaces")
        && cluster
            .store
            .get("namespaces", &Key::new("", &key.namespace))
            .is_none()
    {
        return Err(Refusal::not_found(&namespaces, &key.namespace));
    }
    namespaces::check_new(cluster, request, &key)?;
    if cluster.store.get(&kind.shelf, &key).is_some() {
        return Err(Refusal::exists(kind, &key.name));
    }
    if kind.id == "pods" {
        pods::default_new(&mut body);
    } else if kind.status {
        remove(&mut body, "/status");
    }
    if kind.id == "namespaces" {
        set(&mut body, "/status", json!({"phase": "Active"}));
    }
    admit::check(&mut cluster.rules, kind, &request.version, None, &body)?;
    cluster.stamp(kind, &mut body);
    if list(&body, MANAGED).is_empty() {
        let writer = writer(cluster, request, false);
        let managed = body.clone();
        let shape = kind.shape(&request.version);
        apply::own_changes(&Value::Null, &managed, shape, &writer, &mut body);
    }
    if request.is_dry() {
        return Ok((201, body));
    }
    let made = cluster.put_new(kind, body);
    Ok((201, views::shown(kind, &request.version, &made)))
}

fn update(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    let old = cluster.store.get(&request.kind.shelf, &request.key);
    let old = old.ok_or_else(|| request.not_found())?;
    let mut body = patch::body(request)?;
    views::stored(&request.kind, &mut body);
    let key = admit::place(&request.kind, &request.key.namespace, &mut body)?;
    if key.name != request.key.name {
        let message = format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            key.name, request.key.name
        );
        return Err(Refusal::bad(message));
    }
    let unconditional = !request.kind.is_custom() && request.kind.plural != "leases";
    if text(&body, VERSION).is_empty() && !unconditional {
        let why = "must be specified for an update";
        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
        return Err(request.kind.invalid(&request.key.name, vec![cause]));
    }
    change(cluster, request, &old, body, None)
}

fn patch(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    let kind = &request.kind;
    let patch = Patch::of(request)?;
    let found = cluster.store.get(&kind.shelf, &request.key);
    if patch != Patch::Apply {
        let old = found.ok_or_else(|| request.not_found())?;
        let mut shown = views::shown(kind, &request.version, &old);
        shown = patch::patched(request, patch, &shown)?;
        views::stored(kind, &mut shown);
        return change(cluster, request, &old, shown, None);
    }
    let applied = patch::applied(request)?;
    let writer = writer(cluster, request, true);
    let applied = match kind.schemas.is_some() {
        true => {
            let mut applied = applied;
            let mut dropped = Vec::new();
            if let Some(schema) = kind
                .schemas
                .as_ref()
                .and_then(|all| all.get(&request.version))
            {
                super::schema::prune(schema, &mut applied, "", &mut dropped);
            }
            match request.is_strict() && !dropped.is_empty() {
                true => {
                    return Err(Refusal::bad(format!(
                        "failed to create typed patch object: unknown field {dropped:?}"
                    )));
                }
                false => applied,
            }
        }
        false => applied,
    };
    let shape = kind.shape(&request.version);
    match found {
        Some(old) => {
            let live = views::shown(kind, &request.version, &old);
            let merged = apply::apply(&live, &applied, shape, &writer)?;
            let managed = at(&merged, MANAGED).clone();
            change(cluster, request, &old, merged, Some(managed))
        }
        None if !request.subresource.is_empty() => Err(request.not_found()),
        None => {
            let blank = json!({"apiVersion": at(&applied, "/apiVersion"), "kind": at(&applied, "/kind"),
                "metadata": {"name": request.key.name}});
            let made = apply::apply(&blank, &applied, shape, &writer)?;
            create_from(cluster, request, made)
        }
    }
}

fn bind(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    let old = cluster
        .store
        .get("pods", &request.key)
        .ok_or_else(|| request.not_found())?;
    let body = patch::body(request)?;
    if !text(&old, "/spec/nodeName").is_empty() {
        let why = format!("pod {} is already assigned to node", request.key.name);
        return Err(Refusal::conflict(&request.kind, &request.key.name, &why));
    }
    if !request.is_dry() {
        let node = text(&body, "/target/name").to_owned();
        cluster.amend("pods", &request.key, |pod| {
            set(pod, "/spec/nodeName", json!(node))
        });
    }
    Ok((201, success(None)))
}

fn delete(cluster: &mut Cluster, request: &ApiRequest) -> Result<Answer, Refusal> {
    let options = match request.body.is_empty() {
        true => Value::Null,
        false => patch::body(request)?,
    };
    delete_with(cluster, request, &request.kind, &options)
}

/// Deletes the object according to `DeleteOptions`.
pub(super) fn delete_with(
    cluster: &mut Cluster,
    request: &ApiRequest,
    kind: &Kind,
    options: &Value,
) -> Result<Answer, Refusal> {
    let old = cluster
        .store
        .get(&kind.shelf, &request.key)
        .ok_or_else(|| request.not_found())?;
    for (precondition, field) in [
        ("/preconditions/uid", "/metadata/uid"),
        ("/preconditions/resourceVersion", VERSION),
    ] {
        let required = text(options, precondition);
        if !required.is_empty() && required != text(&old, field) {
            let what = if field == VERSION {
                "ResourceVersion"
            } else {
                "UID"
            };
            let why = format!(
                "Precondition failed: {what} in precondition: {required}, {what} in object meta: {}",
                text(&old, field)
            );
            return Err(Refusal::conflict(kind, &request.key.name, &why));
        }
    }
    let dry = request.is_dry() || list(options, "/dryRun").contains(&json!("All"));
    let from_query = request.param("gracePeriodSeconds").parse().ok();
    let grace_s = number(options, "/gracePeriodSeconds").or(from_query);
    let propagation = match text(options, "/propagationPolicy") {
        "" => request.param("propagationPolicy"),
        policy => policy,
    };
    if dry {
        return Ok((200, Value::clone(&old)));
    }
    match cluster.delete(kind, &request.key, grace_s, propagation) {
        Some(going) => Ok((200, views::shown(kind, &request.version, &going))),
        None => Ok((200, success(Some((kind, &old))))),
    }
}

/// A `Status` of success.
pub(super) fn success(of: Option<(&Kind, &Value)>) -> Value {
    let mut body =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let Some((kind, object)) = of {
        let mut details = json!({"name": text(object, "/metadata/name"), "kind": kind.plural,
            "uid": text(object, "/metadata/uid")});
        if !kind.group.is_empty() {
            set(&mut details, "/group", json!(kind.group));
        }
        set(&mut body, "/details", details);
    }
    body
}
