//! Refusals in Kubernetes' words: `Status` objects with reason, details and causes.
//!
//! A refusal is a value; only `serve` turns it into a response.

use serde_json::{Value, json};

use super::kinds::Kind;

/// The reason for the refusal of one field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cause {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) field: String,
}

impl Cause {
    pub(super) fn new(
        reason: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Cause {
        Cause {
            reason,
            message: message.into(),
            field: field.into(),
        }
    }

    /// `Forbidden: …` for a field.
    pub(super) fn forbidden(field: impl Into<String>, why: &str) -> Cause {
        Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// `Invalid value: …: why` for a field.
    pub(super) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Cause {
        let message = format!("Invalid value: {}: {why}", shown(value));
        Cause::new("FieldValueInvalid", field, message)
    }

    pub(super) fn required(field: impl Into<String>) -> Cause {
        Cause::new("FieldValueRequired", field, "Required value")
    }

    /// Its form in the message.
    pub(super) fn line(&self) -> String {
        if self.field.is_empty() {
            return self.message.clone();
        }
        format!("{}: {}", self.field, self.message)
    }
}

/// A value as Go's `field.Invalid` prints it: strings quoted, maps and lists as JSON.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

/// A refused request: an HTTP status and the body that explains it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Boxed, so that a refusal is small to pass on.
    details: Box<Details>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Details {
    name: String,
    group: String,
    kind: String,
    causes: Vec<Cause>,
    retry_after_s: Option<u64>,
}

impl Refusal {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Refusal {
        Refusal {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
        }
    }

    /// Adds the object.
    pub(super) fn of(mut self, group: &str, kind: &str, name: &str) -> Refusal {
        let details = &mut self.details;
        (details.group, details.kind, details.name) = (group.into(), kind.into(), name.into());
        self
    }

    pub(super) fn with(mut self, causes: Vec<Cause>) -> Refusal {
        self.details.causes = causes;
        self
    }

    /// Adds the retry delay.
    pub(super) fn again_after(mut self, seconds: u64) -> Refusal {
        self.details.retry_after_s = Some(seconds);
        self
    }

    /// The retry delay, if set.
    pub(super) fn retry_after_s(&self) -> Option<u64> {
        self.details.retry_after_s
    }

    pub(super) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(400, "BadRequest", message)
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Refusal {
        let message = format!("{} \"{name}\" not found", kind.id);
        Refusal::new(404, "NotFound", message).of(&kind.group, &kind.plural, name)
    }

    /// Unknown path.
    pub(super) fn no_path() -> Refusal {
        let message = "the server could not find the requested resource";
        Refusal::new(404, "NotFound", message)
    }

    pub(super) fn method() -> Refusal {
        let message = "the server does not allow this method on the requested resource";
        Refusal::new(405, "MethodNotAllowed", message)
    }

    pub(super) fn exists(kind: &Kind, name: &str) -> Refusal {
        let message = format!("{} \"{name}\" already exists", kind.id);
        Refusal::new(409, "AlreadyExists", message).of(&kind.group, &kind.plural, name)
    }

    pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Refusal {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.id
        );
        Refusal::new(409, "Conflict", message).of(&kind.group, &kind.plural, name)
    }

    /// Version conflict: another writer was faster.
    pub(super) fn stale(kind: &Kind, name: &str) -> Refusal {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Refusal::conflict(kind, name, why)
    }

    pub(super) fn forbidden(kind: &Kind, name: &str, why: &str) -> Refusal {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.id);
        Refusal::new(403, "Forbidden", message).of(&kind.group, &kind.plural, name)
    }

    /// 422 with its causes.
    pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Refusal {
        let messages: Vec<_> = causes.iter().map(Cause::line).collect();
        let list = match messages.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let of = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        Refusal::new(
            422,
            "Invalid",
            format!("{of} \"{name}\" is invalid: {list}"),
        )
        .of(group, kind, name)
        .with(causes)
    }

    /// 410: the requested version has been dropped from the history.
    pub(super) fn expired(requested: u64, oldest: u64) -> Refusal {
        let message = format!("too old resource version: {requested} ({oldest})");
        Refusal::new(410, "Expired", message)
    }

    /// The `Status` object.
    pub(super) fn body(&self) -> Value {
        let mut details = serde_json::Map::new();
        for (key, value) in [
            ("name", &self.details.name),
            ("group", &self.details.group),
            ("kind", &self.details.kind),
        ] {
            if !value.is_empty() {
                details.insert(key.to_owned(), json!(value));
            }
        }
        if !self.details.causes.is_empty() {
            details.insert(
                "causes".to_owned(),
                self.details.causes.iter().map(cause_body).collect(),
            );
        }
        if let Some(seconds) = self.details.retry_after_s {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let (false, Some(body)) = (details.is_empty(), body.as_object_mut()) {
            body.insert("details".to_owned(), Value::Object(details));
        }
        body
    }
}

fn cause_body(cause: &Cause) -> Value {
    let fields = [
        ("reason", cause.reason),
        ("message", &cause.message),
        ("field", &cause.field),
    ];
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
