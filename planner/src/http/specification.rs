//! `GET`, `PUT` and `DELETE /v1/services/{service}/specification`: the service file, or the spec of the resource, that a
//! service is planned for by. A `PUT` replaces the file of a `weir serve` that was started for that (`--writable`). In a
//! folder a `PUT` of another name creates a service, and `DELETE` deletes one.
//!
//! A new specification goes through the same checks as a file at start. What is refused changes neither the file nor the
//! plan. A write is conditional by `if-match` and `if-none-match`: 412 if the specification was replaced in the meantime.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::authentication::{may_create, may_write};
use super::body::receive;
use super::etag::{EntityTag, IF_NONE_MATCH};
use super::extract::{Fields, Planned, ServiceName, unknown};
use super::operation::{Access, Answer, Content, Operation, OperationMethod, RequestBody};
use super::poll_query::display;
use super::problem::{Problem, ProblemKind};
use super::{App, openapi};
use crate::catalog::CatalogError;
use crate::registry::ServiceHandle;
use crate::service::FILE_BYTES_MAX;
use crate::spec::ServiceSpec;
use crate::specification::Specification;

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

const IF_MATCH: (&str, &str) = (
    "if-match",
    "Entity tag of the specification that is to be replaced or deleted; 412 if it is another by now.",
);

pub(super) const SET_SPECIFICATION: Operation = Operation {
    method: OperationMethod::Put,
    id: "set_specification",
    summary: "Replace the specification of a service, or create a service",
    description: "Writes the service file, and plans by it from the next cycle on. Only with `weir serve --writable`. \
                  `service`, `listen`, `keyEnv` and `keyFile` stay as they are. A name that is not planned for is created, \
                  with a folder of service files and a key of all services.",
    access: Access::Write,
    query: None,
    headers: &[
        IF_MATCH,
        (
            "if-none-match",
            "`*` to create alone: 412 if the service exists.",
        ),
    ],
    body: Some(RequestBody {
        description: "A service file in JSON, at most 256 KiB. YAML is taken too; the file is as sent.",
        schema: service_file,
    }),
    answers: &[
        ANSWER,
        Answer {
            status: 201,
            description: "The specification of the service that was created; `location` is its path.",
            content: Content::Json(service_file),
        },
    ],
    problems: &[
        (
            400,
            "The specification is not valid; the pointer names the field, the detail the value and a valid one.",
        ),
        (408, "The body was not received in time."),
        (
            409,
            "The service follows its resource, or a file that may not be written here, or that was edited meanwhile; or no \
             service is created here, or no more.",
        ),
        (412, "The specification is not as the headers have it."),
        (413, "The body is too large."),
        (429, "Too many bodies are being received; retry later."),
        (500, "The file cannot be written."),
    ],
    ..SPECIFICATION
};

pub(super) const DELETE_SPECIFICATION: Operation = Operation {
    method: OperationMethod::Delete,
    id: "delete_specification",
    summary: "Delete a service",
    description: "Renames the service file (`.deleted`), and plans no more for the service. Only with `weir serve --writable` \
                  of a folder, and with a key of all services. Its servers stay as they are.",
    access: Access::Write,
    query: None,
    headers: &[IF_MATCH],
    body: None,
    answers: &[Answer {
        status: 204,
        description: "The service is deleted.",
        content: Content::None,
    }],
    problems: &[
        (
            409,
            "No service is deleted here, or it is the last one, or its file was edited meanwhile.",
        ),
        (412, "The specification is not as the header has it."),
        (500, "The file cannot be renamed."),
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
    ServiceName { service: name }: ServiceName,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    // Before the body is received; checked again when it is written.
    let exists = match app.services.get(&name) {
        Some(handle) => {
            may_write(&app, &headers, &name)?;
            known(&handle)?;
            let writable = app.catalog.writable(&name);
            writable.map_err(|error| problem(&name, &error))?;
            true
        }
        None => {
            may_create(&app, &headers)?;
            let creatable = app.catalog.creatable(&name);
            creatable.map_err(|error| problem(&name, &error))?;
            false
        }
    };
    let body = receive(&app, body, FILE_BYTES_MAX).await?;
    let text = String::from_utf8(body.into());
    let text = text.map_err(|_| Problem::body("the body must be UTF-8"))?;
    // A client that disconnects does not leave a file that is not planned by.
    let (catalog, of) = (Arc::clone(&app.catalog), name.clone());
    let writing = tokio::spawn(async move {
        let is_expected = |present: Option<&Specification>| is_expected(&headers, present);
        match exists {
            true => catalog.replace(&of, text, is_expected).await,
            false => catalog.create(&of, text, is_expected).await,
        }
    });
    let written = writing.await.map_err(|error| broken(&error))?;
    let specification = written.map_err(|error| problem(&name, &error))?;
    let mut response = view(specification.shown());
    if !exists {
        *response.status_mut() = StatusCode::CREATED;
        let location = HeaderValue::from_str(&format!("/v1/services/{name}/specification"));
        let location = location.map_err(|error| internal(&error))?;
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(tag(&specification, false).tag(&HeaderMap::new(), response))
}

pub(super) async fn delete_specification(
    State(app): State<Arc<App>>,
    ServiceName { service: name }: ServiceName,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    may_create(&app, &headers)?;
    let (catalog, of) = (Arc::clone(&app.catalog), name.clone());
    let deleting = tokio::spawn(async move {
        let is_expected = |present: Option<&Specification>| is_expected(&headers, present);
        catalog.delete(&of, is_expected).await
    });
    let deleted = deleting.await.map_err(|error| broken(&error))?;
    deleted.map_err(|error| problem(&name, &error))?;
    app.metrics.forget_polls(&name);
    Ok(StatusCode::NO_CONTENT)
}

/// Whether the present specification, or none, is one that the request's conditions allow.
fn is_expected(headers: &HeaderMap, present: Option<&Specification>) -> bool {
    let is_among = |name| match present {
        Some(present) => [false, true]
            .iter()
            .any(|is_inline| tag(present, *is_inline).is_among(headers, &name)),
        None => false,
    };
    let matches = !headers.contains_key(header::IF_MATCH) || is_among(header::IF_MATCH);
    matches && !is_among(header::IF_NONE_MATCH)
}

/// Returns the problem of a change of that service that was refused.
fn problem(name: &str, error: &CatalogError) -> Problem {
    let kind = match error {
        CatalogError::Config(error) => return Problem::config(error),
        CatalogError::Unknown => return unknown(name),
        CatalogError::Name(error) => return Problem::parameter(error.to_string()),
        CatalogError::Conflict(_) => ProblemKind::Conflict,
        CatalogError::Stale => ProblemKind::Stale,
        CatalogError::Internal(_) => ProblemKind::Internal,
    };
    Problem::new(kind, error.to_string())
}

fn broken(error: &tokio::task::JoinError) -> Problem {
    tracing::error!("a change of a service broke: {error}");
    Problem::new(ProblemKind::Internal, "the change of the service broke")
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

fn tag(specification: &Specification, is_inline: bool) -> EntityTag {
    let form = if is_inline { "-inline" } else { "" };
    EntityTag::strong(format_args!("{:016x}{form}", specification.hash()))
}

fn view(shown: Value) -> Response {
    Json(shown).into_response()
}
