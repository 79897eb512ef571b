//! `GET` and `PUT /v1/services/{service}/specification`: the service file, or the spec of the resource, that a service
//! is planned for by. A `PUT` replaces the file of a `weir serve` that was started for that (`--writable`).
//!
//! A new specification goes through the same checks as a file at start. What is refused changes neither the file nor the
//! plan. A write is conditional by `if-match`: 412 if the specification was replaced in the meantime.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::body::receive;
use super::etag::{EntityTag, IF_NONE_MATCH};
use super::extract::{Fields, Planned};
use super::operation::{Access, Answer, Content, Operation, OperationMethod, RequestBody};
use super::poll_query::display;
use super::problem::{Problem, ProblemKind};
use super::{App, openapi};
use crate::mode::ModeSwitch;
use crate::registry::ServiceHandle;
use crate::service::FILE_BYTES_MAX;
use crate::spec::ServiceSpec;
use crate::specification::{ReplaceError, Specification, SpecificationSource, WritableFile};

const ANSWER: Answer = Answer {
    status: 200,
    description: "The specification. Its entity tag changes with it.",
    content: Content::Json(service_file),
};

pub(super) const SPECIFICATION: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}/specification",
    id: "specification",
    summary: "Service file, or spec of the resource, that is planned by",
    description: "All defaults are included. Keys are named by file or variable; passwords in addresses are hidden.",
    access: Access::Service,
    query: Some(openapi::query::<SpecificationQuery>),
    headers: &[IF_NONE_MATCH],
    body: None,
    answers: &[
        ANSWER,
        Answer {
            status: 304,
            description: "The client has this specification.",
            content: Content::None,
        },
    ],
    problems: &[],
};

pub(super) const SET_SPECIFICATION: Operation = Operation {
    method: OperationMethod::Put,
    id: "set_specification",
    summary: "Replace the specification of a service",
    description: "Writes the service file, and plans by it from the next cycle on. Only with `weir serve --writable`. \
                  `service`, `listen`, `keyEnv` and `keyFile` stay as they are.",
    query: None,
    headers: &[(
        "if-match",
        "Entity tag of the specification that is to be replaced; 412 if it is another by now.",
    )],
    body: Some(RequestBody {
        description: "A service file in JSON, at most 256 KiB. YAML is taken too; the file is as sent.",
        schema: service_file,
    }),
    answers: &[ANSWER],
    problems: &[
        (
            400,
            "The specification is not valid; the pointer names the field, the detail the value and a valid one.",
        ),
        (408, "The body was not received in time."),
        (
            409,
            "The service follows its resource, or a file that may not be written here, or that was edited meanwhile.",
        ),
        (412, "The specification was replaced in the meantime."),
        (413, "The body is too large."),
        (429, "Too many bodies are being received; retry later."),
        (500, "The file cannot be written."),
    ],
    ..SPECIFICATION
};

/// Query of a specification.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpecificationQuery {
    /// Whether profiles stand in place of the references to them; false if left out.
    #[schemars(with = "bool")]
    inline: Option<String>,
}

impl SpecificationQuery {
    fn validate(self) -> Result<bool, Problem> {
        match self.inline.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let message = format!("inline: '{}' must be true or false", display(other));
                Err(Problem::parameter(message))
            }
        }
    }
}

/// Keys of service files alone, which the schema of the resource leaves out: their schema's name, key and description.
const FILE_KEYS: [(&str, &str, &str); 6] = [
    ("ServiceSpec", "service", "Name that the filters carry."),
    ("ServiceSpec", "listen", "Address to listen on."),
    (
        "ServiceSpec",
        "keyEnv",
        "Environment variable that holds the keys.",
    ),
    ("ServiceSpec", "keyFile", "File that holds the keys."),
    (
        "RawReference",
        "file",
        "File, relative to the service file and below its folder.",
    ),
    (
        "RawDemand",
        "model",
        "Model file of `weir train`, relative to the service file and below its folder.",
    ),
];

/// Returns the schema of a service file.
fn service_file(generator: &mut SchemaGenerator) -> Schema {
    let schema = generator.subschema_for::<ServiceSpec>();
    for (name, key, description) in FILE_KEYS {
        let definition = generator.definitions_mut().get_mut(name);
        let properties = definition.and_then(|one| one.get_mut("properties")?.as_object_mut());
        let text = json_schema!({ "type": "string", "description": description });
        if let Some(properties) = properties {
            properties.insert(key.to_owned(), text.into());
        }
    }
    schema
}

pub(super) async fn specification(
    Planned(handle): Planned,
    Fields(query): Fields<SpecificationQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let is_inline = query.validate()?;
    let specification = known(&handle)?;
    let shown = match is_inline {
        true => specification.shown_inline(&handle.service),
        false => specification.shown(),
    };
    let tag = tag(specification, is_inline);
    Ok(tag.tag(&headers, view(shown)))
}

pub(super) async fn set_specification(
    State(app): State<Arc<App>>,
    Planned(handle): Planned,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let file = writable(known(&handle)?)?;
    let body = receive(&app, body, FILE_BYTES_MAX).await?;
    let text = String::from_utf8(body.into());
    let text = text.map_err(|_| Problem::body("the body must be UTF-8"))?;
    let name = handle.service.name.clone();
    // A client that disconnects does not leave a file that is not planned by.
    let replacing = tokio::spawn(replace(app, name, file, headers, text));
    replacing.await.map_err(|error| {
        tracing::error!("replacing a specification broke: {error}");
        Problem::new(ProblemKind::Internal, "replacing the specification broke")
    })?
}

async fn replace(
    app: Arc<App>,
    name: String,
    file: Arc<WritableFile>,
    headers: HeaderMap,
    text: String,
) -> Result<Response, Problem> {
    let mut content = file.lock().await;
    // Another client may have replaced it before the lock was taken.
    let handle = app.service(&name)?;
    let before = Arc::clone(known(&handle)?);
    let is_expected = [false, true]
        .iter()
        .any(|is_inline| tag(&before, *is_inline).is_among(&headers, &header::IF_MATCH));
    if headers.contains_key(header::IF_MATCH) && !is_expected {
        let message = "the specification was replaced in the meantime; read it again";
        return Err(Problem::new(ProblemKind::Stale, message));
    }
    let (path, sent) = (file.path().to_owned(), text.clone());
    let reading = tokio::task::spawn_blocking(move || before.successor(&sent, &path));
    let read = reading.await.map_err(|error| internal(&error))?;
    let (specification, service) = read.map_err(|error| Problem::config(&error))?;
    let (tag, shown) = (tag(&specification, false), specification.shown());
    let mode = ModeSwitch::following((&handle.mode, handle.service.mode), service.mode);
    let next = handle.with_service(service, app.clock);
    let next = next.map_err(|error| internal(&error))?;
    let next = next.with_specification(specification).with_mode(mode);
    let (written, earlier) = (Arc::clone(&file), content.clone());
    let new = text.clone();
    let writing =
        tokio::task::spawn_blocking(move || written.replace(&earlier, new.as_bytes())).await;
    writing
        .map_err(|error| internal(&error))?
        .map_err(|error| match error {
            ReplaceError::Edited(_) => Problem::new(ProblemKind::Conflict, error.to_string()),
            ReplaceError::Io { .. } => internal(&error),
        })?;
    *content = text.into_bytes();
    app.services.insert(Arc::new(next));
    tracing::info!("{name}: its specification was replaced over REST");
    Ok(tag.tag(&HeaderMap::new(), view(shown)))
}

fn internal(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(ProblemKind::Internal, error.to_string())
}

fn known(handle: &ServiceHandle) -> Result<&Arc<Specification>, Problem> {
    handle.specification.as_ref().ok_or_else(|| {
        let message = "the service's specification is not known";
        Problem::new(ProblemKind::Unavailable, message)
    })
}

/// Returns the file that may be replaced.
fn writable(specification: &Specification) -> Result<Arc<WritableFile>, Problem> {
    let message = match specification.source() {
        SpecificationSource::Writable(file) => return Ok(Arc::clone(file)),
        SpecificationSource::Resource => {
            "it follows the service's resource; change the spec of the SloService".to_owned()
        }
        SpecificationSource::File(path) => format!(
            "the planner was started without --writable; edit {}, and start it again",
            path.display()
        ),
    };
    Err(Problem::new(ProblemKind::Conflict, message))
}

fn tag(specification: &Specification, is_inline: bool) -> EntityTag {
    let form = if is_inline { "-inline" } else { "" };
    EntityTag::strong(format_args!("{:016x}{form}", specification.hash()))
}

fn view(shown: Value) -> Response {
    Json(shown).into_response()
}
