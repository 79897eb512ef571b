//! `GET` and `PUT /v1/services/{service}/mode`: whether a service's cores are changed, and whether its cycles run. In
//! mode `serve` alone; an operator's service follows its resource.
//!
//! A write is conditional by `if-match`: 412 if the mode was changed in the meantime.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::body::receive;
use super::etag::{EntityTag, IF_NONE_MATCH};
use super::extract::Planned;
use super::operation::{Access, Answer, Content, Operation, OperationMethod, RequestBody};
use super::problem::{Problem, ProblemKind};
use super::{App, BODY_MAX};
use crate::mode::{ModeError, ModeState, RunMode};
use crate::registry::ServiceHandle;

const ANSWER: Answer = Answer {
    status: 200,
    description: "The mode. Its entity tag changes with it.",
    content: Content::Json(SchemaGenerator::subschema_for::<ModeView>),
};

pub(super) const MODE: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}/mode",
    id: "mode",
    summary: "Mode of a service",
    description: "Whether cores are changed, and whether cycles run.",
    access: Access::Service,
    query: None,
    headers: &[IF_NONE_MATCH],
    body: None,
    answers: &[
        ANSWER,
        Answer {
            status: 304,
            description: "The client has this mode.",
            content: Content::None,
        },
    ],
    problems: &[],
};

pub(super) const SET_MODE: Operation = Operation {
    method: OperationMethod::Put,
    id: "set_mode",
    summary: "Change the mode of a service",
    description: "From the next cycle on, and until the planner ends: its next start is by the service file again.",
    headers: &[(
        "if-match",
        "Entity tag of the mode that is to be changed; 412 if it is another by now.",
    )],
    body: Some(RequestBody {
        description: "The mode.",
        schema: SchemaGenerator::subschema_for::<ModeChange>,
    }),
    answers: &[ANSWER],
    problems: &[
        (400, "The body is not valid; the pointer names the field."),
        (408, "The body was not received in time."),
        (409, "The mode follows the service's resource."),
        (412, "The mode was changed in the meantime."),
        (413, "The body is too large."),
        (429, "Too many bodies are being received; retry later."),
    ],
    ..MODE
};

/// Mode of a service.
#[derive(Debug, Serialize, JsonSchema)]
struct ModeView {
    /// Mode in force.
    mode: RunMode,
    /// Mode in the service file or resource.
    configured: RunMode,
    /// Whether it may be changed here.
    changeable: bool,
}

/// Change of a mode.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModeChange {
    /// The mode.
    mode: RunMode,
}

pub(super) async fn mode(Planned(handle): Planned, headers: HeaderMap) -> Response {
    let state = handle.mode.current();
    tag(state).tag(&headers, view(&handle, state))
}

pub(super) async fn set_mode(
    State(app): State<Arc<App>>,
    Planned(handle): Planned,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = receive(&app, body, BODY_MAX).await?;
    let mut reader = serde_json::Deserializer::from_slice(&body);
    let change: ModeChange = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| Problem::body_path(&error.path().to_string(), error.inner()))?;
    reader
        .end()
        .map_err(|error| Problem::body(error.to_string()))?;
    let is_expected = |state: ModeState| match headers.contains_key(header::IF_MATCH) {
        true => tag(state).is_among(&headers, &header::IF_MATCH),
        false => true,
    };
    let state = handle.mode.set(change.mode, is_expected).map_err(|error| {
        let kind = match error {
            ModeError::Fixed => ProblemKind::Conflict,
            ModeError::Stale => ProblemKind::Stale,
        };
        Problem::new(kind, error.to_string())
    })?;
    tracing::info!("{}: mode {:?}", handle.service.name, state.mode);
    Ok(tag(state).tag(&HeaderMap::new(), view(&handle, state)))
}

fn tag(state: ModeState) -> EntityTag {
    EntityTag::strong(format_args!("mode-{}", state.version))
}

fn view(handle: &ServiceHandle, state: ModeState) -> Response {
    let view = ModeView {
        mode: state.mode,
        configured: handle.service.mode.into(),
        changeable: state.changeable,
    };
    Json(view).into_response()
}
