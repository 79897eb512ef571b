//! The emulator's door: Open Inference Protocol v2 over HTTP, and `/emulator/…` to look and turn.
//!
//! It only translates: what waits, runs and counts is the engine's.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::journal::Execution;
use super::server::Server;
use weir_model::server::Parallelism;

/// Largest request body, in bytes; a larger one is answered 413.
pub const BODY_MAX: usize = 64 * 1024 * 1024;

/// The answer to an inference: an Open Inference Protocol response whose outputs say what arrived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InferAnswer {
    /// The emulator's model: the variant that really answered.
    pub model_name: String,
    /// Always "1".
    pub model_version: String,
    /// The request's own `id`, else its `x-request-id`.
    pub id: String,
    /// `bytes` (UINT64) and `crc32` (UINT32) of the body received.
    pub outputs: Vec<Output>,
    /// Times, batch and order of the execution; `emulated` is always true.
    pub parameters: BTreeMap<String, serde_json::Value>,
}

impl InferAnswer {
    /// The single value of the output `name`.
    pub fn output(&self, name: &str) -> Option<u64> {
        self.outputs
            .iter()
            .find(|output| output.name == name)?
            .data
            .first()
            .copied()
    }
}

/// One output tensor of an [`InferAnswer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// `bytes` or `crc32`.
    pub name: String,
    /// The protocol's data type.
    pub datatype: String,
    /// Always one value.
    pub shape: Vec<u64>,
    /// The value.
    pub data: Vec<u64>,
}

/// What `/emulator/resources` shows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Cores now.
    pub cores: f64,
    /// Batches executed at once: `null` for one per core.
    pub parallelism: Parallelism,
}

/// The body of a `PUT /emulator/resources`; what is left out stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    cores: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    parallelism: Option<Parallelism>,
}

/// Tells `"parallelism": null` (one per core) from no such key.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Parallelism>, D::Error> {
    Parallelism::deserialize(value).map(Some)
}

/// The part of an inference request that is read.
#[derive(Deserialize)]
struct InferRequest {
    id: Option<String>,
}

type Shared = State<Arc<Server>>;

pub(super) fn routes(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v2/health/live", get(async || Json(json!({"live": true}))))
        .route("/v2/health/ready", get(ready))
        .route("/v2", get(about_server))
        .route("/v2/models/{model}", get(about_model))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/infer", post(infer))
        .route(
            "/emulator/resources",
            get(show_resources).put(change_resources),
        )
        .route("/emulator/executions", get(show_executions))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(server)
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"error": message}))).into_response()
}

fn readiness(server: &Server) -> Response {
    let ready = server.is_ready();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(json!({"name": server.model(), "ready": ready})),
    )
        .into_response()
}

async fn ready(State(server): Shared) -> Response {
    readiness(&server)
}

async fn about_server() -> Json<serde_json::Value> {
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({"name": "weir-variant-emulator", "version": version, "extensions": []}))
}

async fn about_model(State(server): Shared, Path(model): Path<String>) -> Response {
    if !server.serves(&model) {
        return refuse(
            StatusCode::NOT_FOUND,
            &format!("model '{model}' is not served here"),
        );
    }
    let shape = [1];
    Json(json!({
        "name": server.model(), "versions": ["1"], "platform": "emulated",
        "inputs": [{"name": "input", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [
            {"name": "bytes", "datatype": "UINT64", "shape": shape},
            {"name": "crc32", "datatype": "UINT32", "shape": shape},
        ],
    }))
    .into_response()
}

async fn model_ready(State(server): Shared, Path(model): Path<String>) -> Response {
    if server.serves(&model) {
        return readiness(&server);
    }
    refuse(
        StatusCode::NOT_FOUND,
        &format!("model '{model}' is not served here"),
    )
}

async fn infer(
    State(server): Shared,
    Path(model): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if !server.serves(&model) {
        return refuse(
            StatusCode::NOT_FOUND,
            &format!("model '{model}' is not served here"),
        );
    }
    let body = match body {
        Ok(body) => body,
        Err(refusal) => return refuse(refusal.status(), &refusal.body_text()),
    };
    if !server.is_ready() {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the model is still loading",
        );
    }
    if server.takes_failure() {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "a failure was asked for");
    }
    let request_id = header(&headers, "x-request-id");
    let slo: BTreeMap<String, String> = headers
        .keys()
        .map(|name| name.as_str())
        .filter(|name| name.starts_with("x-slo-") || *name == "grpc-timeout")
        .map(|name| (name.to_owned(), header(&headers, name)))
        .collect();
    let Some(execution) = server.execute(request_id.clone(), slo) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the queue is full");
    };
    let Ok(execution) = execution.await else {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "the server crashed");
    };
    Json(infer_answer(&server, &body, request_id, &execution)).into_response()
}

fn infer_answer(
    server: &Server,
    body: &[u8],
    request_id: String,
    execution: &Execution,
) -> InferAnswer {
    let own_id = serde_json::from_slice::<InferRequest>(body)
        .ok()
        .and_then(|request| request.id);
    let output = |name: &str, datatype: &str, value: u64| Output {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: vec![1],
        data: vec![value],
    };
    let parameters = [
        ("emulated", json!(true)),
        ("order", json!(execution.order)),
        ("batch", json!(execution.batch)),
        ("cores", json!(execution.cores)),
        (
            "queued_ms",
            json!(execution.started_ms - execution.arrived_ms),
        ),
        (
            "service_ms",
            json!(execution.ended_ms - execution.started_ms),
        ),
    ];
    InferAnswer {
        model_name: server.model().to_owned(),
        model_version: "1".to_owned(),
        id: own_id.unwrap_or(request_id),
        outputs: vec![
            output("bytes", "UINT64", body.len() as u64),
            output("crc32", "UINT32", u64::from(crc32fast::hash(body))),
        ],
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    }
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map_or_else(String::new, |value| {
        String::from_utf8_lossy(value.as_bytes()).into_owned()
    })
}

async fn show_resources(State(server): Shared) -> Json<Resources> {
    Json(server.resources())
}

async fn change_resources(State(server): Shared, body: Bytes) -> Response {
    let mut json = serde_json::Deserializer::from_slice(&body);
    let change: Change = match serde_path_to_error::deserialize(&mut json) {
        Ok(change) => change,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match server.set_resources(change.cores, change.parallelism) {
        Ok(resources) => Json(resources).into_response(),
        Err(message) => refuse(StatusCode::BAD_REQUEST, &message),
    }
}

/// `after=n`: only executions whose order is greater.
#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    after: u64,
}

async fn show_executions(
    State(server): Shared,
    Query(since): Query<Since>,
) -> Json<Vec<Execution>> {
    Json(server.executions(since.after))
}
