//! Validation of a body: types or schema, names, defaults, and the checks of each kind.
//!
//! It changes only the body, never the store.

use serde_json::{Value, json};

use super::fields::{Shape, leaves};
use super::kinds::Kind;
use super::object::{Key, at, list, set, text, texts};
use super::pods;
use super::rules::Rules;
use super::schema;
use super::select::Labels;
use super::status::{Cause, Refusal};

/// Maximum length of an object's name.
const NAME_MAX: usize = 253;

impl Kind {
    /// Merge rules of the kind's lists and maps.
    pub(super) fn shape(&self, version: &str) -> Shape<'_> {
        match self.schemas.as_ref().and_then(|all| all.get(version)) {
            Some(schema) => Shape::Schema(schema),
            None => Shape::Field(""),
        }
    }

    /// Rejects the object as invalid.
    pub(super) fn invalid(&self, name: &str, causes: Vec<Cause>) -> Refusal {
        Refusal::invalid(&self.group, &self.kind, name, causes)
    }
}

/// Converts a body to its kind's form: checks types, drops unknown fields, fills in defaults.
///
/// # Errors
///
/// Wrong types, or, if `strict`, unknown fields.
pub(super) fn conform(
    kind: &Kind,
    version: &str,
    body: Value,
    strict: bool,
) -> Result<Value, Refusal> {
    // Events of both API groups are stored, and typed, as core's.
    let api_version = match kind.shelf == kind.id {
        true => kind.api_version(version),
        false => "v1".to_owned(),
    };
    let mut body = body;
    for (field, required) in [("/apiVersion", &api_version), ("/kind", &kind.kind)] {
        let found = text(&body, field);
        if !found.is_empty() && found != required {
            let message = format!(
                "the object provided is unrecognized (must be of type {}): got {field} {found:?}, want {required:?}",
                kind.kind
            );
            return Err(Refusal::bad(message));
        }
        set(&mut body, field, json!(required));
    }
    if let Some(schema) = kind.schemas.as_ref().and_then(|all| all.get(version)) {
        let mut dropped = Vec::new();
        schema::prune(schema, &mut body, "", &mut dropped);
        if strict && !dropped.is_empty() {
            return Err(unknown(kind, &dropped));
        }
        schema::fill(schema, &mut body);
        return Ok(body);
    }
    let Some(typed) = kind.typed else {
        return Ok(body);
    };
    let read = typed(body.clone()).map_err(|error| {
        Refusal::bad(format!(
            "{} in version {version:?} cannot be handled as a {}: {error}",
            kind.kind, kind.kind
        ))
    })?;
    if strict {
        let kept = leaves(&read, Shape::Field(""));
        let dropped: Vec<String> = leaves(&body, Shape::Field(""))
            .into_iter()
            .filter(|(path, value)| {
                !kept.contains_key(path) && !value.is_null() && !is_empty(value)
            })
            .map(|(path, _)| {
                super::fields::shown(&path)
                    .trim_start_matches('.')
                    .to_owned()
            })
            .collect();
        if !dropped.is_empty() {
            return Err(unknown(kind, &dropped));
        }
    }
    let mut body = read;
    match kind.id.as_str() {
        "pods" => {
            if let Some(pattern) = pods::bad_quantity(&body) {
                let message =
                    format!("Pod in version \"v1\" cannot be handled as a Pod: {pattern}");
                return Err(Refusal::bad(message));
            }
            pods::default_spec(&mut body);
            pods::fill_status(&mut body);
        }
        "deployments.apps" | "statefulsets.apps" | "replicasets.apps" => {
            default_workload(kind, &mut body)
        }
        _ => {}
    }
    Ok(body)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
        || value.as_array().is_some_and(Vec::is_empty)
}

fn unknown(kind: &Kind, dropped: &[String]) -> Refusal {
    let messages: Vec<_> = dropped
        .iter()
        .map(|path| format!("unknown field {path:?}"))
        .collect();
    let message = format!("strict decoding error: {}", messages.join(", "));
    Refusal::bad(message).of(&kind.group, &kind.plural, "")
}

fn default_workload(kind: &Kind, body: &mut Value) {
    let mut fill = |path: &str, value: Value| {
        if at(body, path).is_null() {
            set(body, path, value);
        }
    };
    fill("/spec/replicas", json!(1));
    if kind.kind == "Deployment" {
        fill("/spec/strategy/type", json!("RollingUpdate"));
        fill("/spec/progressDeadlineSeconds", json!(600));
    }
    if let Some(template) = body.pointer_mut("/spec/template") {
        pods::default_spec(template);
    }
}

/// Checks a new object, or one changed from `old`.
///
/// # Errors
///
/// 422 with all violations.
pub(super) fn check(
    rules: &mut Rules,
    kind: &Kind,
    version: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Refusal> {
    let name = text(new, "/metadata/name");
    // RBAC names may be any valid path segment.
    let mut causes = check_name(kind.group == "rbac.authorization.k8s.io", name);
    if let Some(schema) = kind.schemas.as_ref().and_then(|all| all.get(version)) {
        schema::check(schema, new, "", &mut causes);
        if causes.is_empty() {
            rules.check(schema, new, old, "", &mut causes);
        }
    }
    match kind.id.as_str() {
        "pods" if old.is_none() => causes.extend(pods::check_spec(new)),
        "deployments.apps" | "statefulsets.apps" | "replicasets.apps" => {
            causes.extend(check_workload(old, new));
        }
        super::cluster::CRDS => causes.extend(check_definition(new)),
        _ => {}
    }
    match causes.is_empty() {
        true => Ok(()),
        false => Err(kind.invalid(name, causes)),
    }
}

/// Checks an object's name; `any` allows every valid path segment.
pub(super) fn check_name(any: bool, name: &str) -> Vec<Cause> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = any && !name.contains('/')
        || (name.starts_with(plain)
            && name.ends_with(plain)
            && name.chars().all(|c| plain(c) || "-.".contains(c)));
    if name.is_empty() {
        let message = "Required value: name or generateName is required";
        return vec![Cause::new("FieldValueRequired", "metadata.name", message)];
    }
    if fits && name.len() <= NAME_MAX {
        return Vec::new();
    }
    let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    vec![Cause::invalid("metadata.name", &json!(name), why)]
}

fn check_workload(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let selector = at(new, "/spec/selector");
    let labels = texts(new, "/spec/template/metadata/labels");
    if !Labels::of(selector).is_some_and(|selector| selector.hold(&labels)) {
        let why = "`selector` does not match template `labels`";
        let at = "spec.template.metadata.labels";
        causes.push(Cause::invalid(at, &json!(labels), why));
    }
    if super::object::number(new, "/spec/replicas").is_some_and(|replicas| replicas < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(
            "spec.replicas",
            at(new, "/spec/replicas"),
            why,
        ));
    }
    if old.is_some_and(|old| at(old, "/spec/selector") != selector) {
        causes.push(Cause::invalid(
            "spec.selector",
            selector,
            "field is immutable",
        ));
    }
    let template = at(new, "/spec/template");
    for cause in pods::check_spec(template) {
        let field = format!("spec.template.{}", cause.field);
        causes.push(Cause { field, ..cause });
    }
    causes
}

fn check_definition(new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = format!(
        "{}.{}",
        text(new, "/spec/names/plural"),
        text(new, "/spec/group")
    );
    if text(new, "/metadata/name") != name {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid(
            "metadata.name",
            at(new, "/metadata/name"),
            why,
        ));
    }
    for (i, version) in list(new, "/spec/versions").iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema/type").is_none() {
            let field = format!("spec.versions[{i}].schema.openAPIV3Schema");
            causes.push(Cause::required(field));
        }
    }
    causes
}

/// The key of a new object; its namespace must be the path's.
///
/// # Errors
///
/// It names another namespace.
pub(super) fn place(kind: &Kind, namespace: &str, body: &mut Value) -> Result<Key, Refusal> {
    let own = text(body, "/metadata/namespace");
    if kind.namespaced && !own.is_empty() && own != namespace {
        let message =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Refusal::bad(message));
    }
    if kind.namespaced {
        set(body, "/metadata/namespace", json!(namespace));
    } else {
        super::object::remove(body, "/metadata/namespace");
    }
    Ok(Key::of(body))
}
