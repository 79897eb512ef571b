//! PATCH: detects the kind of patch and applies it to the old object.
//!
//! The `json-patch` crate applies JSON and merge patches, `strategic` strategic merges, and `apply` server-side
//! apply. It does not check whether the result is allowed.

use serde_json::Value;

use super::object::text;
use super::pods;
use super::request::ApiRequest;
use super::status::{Cause, Refusal};
use super::strategic;

/// Maximum operations of a JSON patch, as in Kubernetes.
const OPERATIONS_MAX: usize = 10_000;

/// The kinds of patch, by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patch {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Patch {
    /// The kind of patch, by content type.
    ///
    /// # Errors
    ///
    /// 415: the content type is unknown, or requests a strategic merge of a custom resource.
    pub(super) fn of(request: &ApiRequest) -> Result<Patch, Refusal> {
        let content = request
            .content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let custom = request.kind.is_custom();
        match content {
            "application/json-patch+json" => Ok(Patch::Json),
            "application/merge-patch+json" => Ok(Patch::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Patch::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Patch::Apply),
            other => {
                let message = format!(
                    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml (not {other:?})"
                );
                Err(Refusal::new(415, "UnsupportedMediaType", message))
            }
        }
    }
}

/// Parses a body as JSON or, if the content type is YAML, as YAML.
///
/// # Errors
///
/// It is neither.
pub(super) fn body(request: &ApiRequest) -> Result<Value, Refusal> {
    let json = serde_json::from_slice(&request.body);
    json.or_else(|error| {
        let text = std::str::from_utf8(&request.body).unwrap_or_default();
        match request.content_type.contains("yaml") {
            true => serde_saphyr::from_str(text).map_err(|error| error.to_string()),
            false => Err(error.to_string()),
        }
    })
    .map_err(|error| Refusal::bad(format!("the object provided is unrecognized: {error}")))
}

/// Applies a patch (not server-side apply) to `old`.
///
/// # Errors
///
/// It is malformed, a `test` fails, or a quantity is invalid.
pub(super) fn patched(request: &ApiRequest, patch: Patch, old: &Value) -> Result<Value, Refusal> {
    let body = body(request)?;
    let mut new = old.clone();
    match patch {
        Patch::Json => {
            let operations: json_patch::Patch = serde_json::from_value(body.clone())
                .map_err(|error| Refusal::bad(format!("error decoding patch: {error}")))?;
            if operations.0.len() > OPERATIONS_MAX {
                let message =
                    format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}");
                return Err(Refusal::new(413, "RequestEntityTooLarge", message));
            }
            for operation in &operations.0 {
                if tests_absence(operation, &new) {
                    continue;
                }
                json_patch::patch(&mut new, std::slice::from_ref(operation)).map_err(|error| {
                    let message = format!(
                        "the server rejected our request due to an error in our request: {error}"
                    );
                    Refusal::new(422, "Invalid", message)
                })?;
            }
        }
        Patch::Merge => json_patch::merge(&mut new, &body),
        Patch::Strategic => strategic::merge(&mut new, &body),
        Patch::Apply => return Err(Refusal::bad("an apply is no patch of this kind")),
    }
    if request.kind.id == "pods"
        && let Some(pattern) = pods::bad_quantity(&new)
    {
        // A strategic merge is rejected as a whole, with the map printed as by Go.
        return Err(match patch {
            Patch::Strategic => {
                let shown = Value::from(as_go(&body));
                let cause = Cause::invalid("patch", &shown, pattern);
                let mut refusal = Refusal::invalid("", "", "", vec![cause]);
                refusal.message = refusal.message.replacen(
                    "\"\"",
                    " \"\"",
                    usize::from(!refusal.message.starts_with(' ')),
                );
                refusal
            }
            _ => Refusal::bad(pattern),
        });
    }
    Ok(new)
}

/// The API server's patch library treats a missing value as null; kube's finalizers rely on it.
fn tests_absence(operation: &json_patch::PatchOperation, object: &Value) -> bool {
    let json_patch::PatchOperation::Test(test) = operation else {
        return false;
    };
    test.value.is_null() && object.pointer(test.path.as_str()).is_none()
}

/// A value as printed by Go's `%v`.
fn as_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(as_go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(field, _)| *field);
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(field, value)| format!("{field}:{}", as_go(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Parses an applied configuration, which must contain apiVersion and kind.
///
/// # Errors
///
/// It is malformed, or names another object.
pub(super) fn applied(request: &ApiRequest) -> Result<Value, Refusal> {
    let body = body(request)?;
    let name = text(&body, "/metadata/name");
    if text(&body, "/apiVersion").is_empty() || text(&body, "/kind").is_empty() {
        return Err(Refusal::bad(
            "Object 'Kind' is missing in the applied configuration",
        ));
    }
    if !name.is_empty() && name != request.key.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.key.name
        );
        return Err(Refusal::bad(message));
    }
    if request.param("fieldManager").is_empty() {
        let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        return Err(Refusal::new(422, "Invalid", message));
    }
    if body
        .pointer("/metadata/managedFields")
        .is_some_and(|managed| !managed.is_null())
    {
        return Err(Refusal::bad("metadata.managedFields must be nil"));
    }
    Ok(body)
}
