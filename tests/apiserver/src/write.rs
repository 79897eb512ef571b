//! The write verbs: create, update, patch, apply, delete.
//!
//! It finds the object and builds the new one from the body; `admit` and `change` decide whether that is allowed.

use serde_json::{Value, json};

use super::admit;
use super::apply::{self, Writer};
use super::change::change;
use super::kinds::Kind;
use super::object::{Key, at, list, number, remove, set, text};
use super::patch::{self, Patch};
use super::pods;
use super::request::{ApiRequest, Verb};
use super::status::{Cause, Refusal};
use super::world::World;
use super::{eviction, scale, views};

/// A response: status and body.
pub(super) type Answer = (u16, Value);

const VERSION: &str = "/metadata/resourceVersion";
const MANAGED: &str = "/metadata/managedFields";

/// Maximum size of a request's body, as in Kubernetes.
pub(super) const BODY_MAX: usize = 3 * 1024 * 1024;

/// Performs a write verb.
pub(super) fn write(world: &mut World, asked: &ApiRequest) -> Result<Answer, Refusal> {
    match (asked.verb, asked.subresource.as_str()) {
        (Verb::Create, "eviction") => eviction::evict(world, asked),
        (Verb::Create, "binding") => bind(world, asked),
        (_, "scale") => scale::write(world, asked),
        (Verb::Create, _) => create(world, asked),
        (Verb::Update, _) => update(world, asked),
        (Verb::Patch, _) => patch(world, asked),
        (Verb::Delete, _) => delete(world, asked),
        _ => Err(Refusal::method()),
    }
}

pub(super) fn writer(world: &World, asked: &ApiRequest, apply: bool) -> Writer {
    Writer {
        manager: asked.manager(),
        apply,
        force: asked.flag("force"),
        subresource: asked.subresource.clone(),
        api_version: asked.kind.api_version(&asked.version),
        now: world.clock.now(),
    }
}

fn create(world: &mut World, asked: &ApiRequest) -> Result<Answer, Refusal> {
    let body = patch::body(asked)?;
    create_from(world, asked, body)
}

fn create_from(world: &mut World, asked: &ApiRequest, mut body: Value) -> Result<Answer, Refusal> {
    let kind = &asked.kind;
    views::stored(kind, &mut body);
    let mut body = admit::conform(kind, &asked.version, body, asked.is_strict())?;
    let key = admit::place(kind, &asked.key.namespace, &mut body)?;
    let prefix = text(&body, "/metadata/generateName").to_owned();
    let key = match key.name.is_empty() && !prefix.is_empty() {
        true => {
            let name = format!("{prefix}{}", world.suffix(5));
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
        && let Some(namespaces) = world.kinds.by_id("namespaces")
        && world
            .store
            .get("namespaces", &Key::new("", &key.namespace))
            .is_none()
    {
        return Err(Refusal::not_found(&namespaces, &key.namespace));
    }
    if world.store.get(&kind.shelf, &key).is_some() {
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
    admit::check(&mut world.rules, kind, &asked.version, None, &body)?;
    world.stamp(kind, &mut body);
    if list(&body, MANAGED).is_empty() {
        let writer = writer(world, asked, false);
        let managed = body.clone();
        let shape = kind.shape(&asked.version);
        apply::own_changes(&Value::Null, &managed, shape, &writer, &mut body);
    }
    if asked.is_dry() {
        return Ok((201, body));
    }
    let made = world.put_new(kind, body);
    Ok((201, views::shown(kind, &asked.version, &made)))
}

fn update(world: &mut World, asked: &ApiRequest) -> Result<Answer, Refusal> {
    let old = world.store.get(&asked.kind.shelf, &asked.key);
    let old = old.ok_or_else(|| asked.not_found())?;
    let mut body = patch::body(asked)?;
    views::stored(&asked.kind, &mut body);
    let key = admit::place(&asked.kind, &asked.key.namespace, &mut body)?;
    if key.name != asked.key.name {
        let message = format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            key.name, asked.key.name
        );
        return Err(Refusal::bad(message));
    }
    let unconditional = !asked.kind.is_custom() && asked.kind.plural != "leases";
    if text(&body, VERSION).is_empty() && !unconditional {
        let why = "must be specified for an update";
        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
        return Err(asked.kind.invalid(&asked.key.name, vec![cause]));
    }
    change(world, asked, &old, body, None)
}

fn patch(world: &mut World, asked: &ApiRequest) -> Result<Answer, Refusal> {
    let kind = &asked.kind;
    let patch = Patch::of(asked)?;
    let found = world.store.get(&kind.shelf, &asked.key);
    if patch != Patch::Apply {
        let old = found.ok_or_else(|| asked.not_found())?;
        let mut shown = views::shown(kind, &asked.version, &old);
        shown = patch::patched(asked, patch, &shown)?;
        views::stored(kind, &mut shown);
        return change(world, asked, &old, shown, None);
    }
    let applied = patch::applied(asked)?;
    let writer = writer(world, asked, true);
    let applied = match kind.schemas.is_some() {
        true => {
            let mut applied = applied;
            let mut dropped = Vec::new();
            if let Some(schema) = kind
                .schemas
                .as_ref()
                .and_then(|all| all.get(&asked.version))
            {
                super::schema::prune(schema, &mut applied, "", &mut dropped);
            }
            match asked.is_strict() && !dropped.is_empty() {
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
    let shape = kind.shape(&asked.version);
    match found {
        Some(old) => {
            let live = views::shown(kind, &asked.version, &old);
            let merged = apply::apply(&live, &applied, shape, &writer)?;
            let managed = at(&merged, MANAGED).clone();
            change(world, asked, &old, merged, Some(managed))
        }
        None if !asked.subresource.is_empty() => Err(asked.not_found()),
        None => {
            let blank = json!({"apiVersion": at(&applied, "/apiVersion"), "kind": at(&applied, "/kind"),
                "metadata": {"name": asked.key.name}});
            let made = apply::apply(&blank, &applied, shape, &writer)?;
            create_from(world, asked, made)
        }
    }
}

fn bind(world: &mut World, asked: &ApiRequest) -> Result<Answer, Refusal> {
    let old = world
        .store
        .get("pods", &asked.key)
        .ok_or_else(|| asked.not_found())?;
    let body = patch::body(asked)?;
    if !text(&old, "/spec/nodeName").is_empty() {
        let why = format!("pod {} is already assigned to node", asked.key.name);
        return Err(Refusal::conflict(&asked.kind, &asked.key.name, &why));
    }
    if !asked.is_dry() {
        let node = text(&body, "/target/name").to_owned();
        world.amend("pods", &asked.key, |pod| {
            set(pod, "/spec/nodeName", json!(node))
        });
    }
    Ok((201, success(None)))
}

fn delete(world: &mut World, asked: &ApiRequest) -> Result<Answer, Refusal> {
    let options = match asked.body.is_empty() {
        true => Value::Null,
        false => patch::body(asked)?,
    };
    delete_with(world, asked, &asked.kind, &options)
}

/// Deletes the object according to `DeleteOptions`.
pub(super) fn delete_with(
    world: &mut World,
    asked: &ApiRequest,
    kind: &Kind,
    options: &Value,
) -> Result<Answer, Refusal> {
    let old = world
        .store
        .get(&kind.shelf, &asked.key)
        .ok_or_else(|| asked.not_found())?;
    for (wanted, field) in [
        ("/preconditions/uid", "/metadata/uid"),
        ("/preconditions/resourceVersion", VERSION),
    ] {
        let wanted = text(options, wanted);
        if !wanted.is_empty() && wanted != text(&old, field) {
            let what = if field == VERSION {
                "ResourceVersion"
            } else {
                "UID"
            };
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {}",
                text(&old, field)
            );
            return Err(Refusal::conflict(kind, &asked.key.name, &why));
        }
    }
    let dry = asked.is_dry() || list(options, "/dryRun").contains(&json!("All"));
    let from_query = asked.param("gracePeriodSeconds").parse().ok();
    let grace_s = number(options, "/gracePeriodSeconds").or(from_query);
    let propagation = match text(options, "/propagationPolicy") {
        "" => asked.param("propagationPolicy"),
        policy => policy,
    };
    if dry {
        return Ok((200, Value::clone(&old)));
    }
    match world.delete(kind, &asked.key, grace_s, propagation) {
        Some(going) => Ok((200, views::shown(kind, &asked.version, &going))),
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
