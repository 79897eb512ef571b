//! Endpoint for the Open Inference Protocol v2 over HTTP, and `/emulator/…` to inspect and control
//! the emulator.
//!
//! It only translates; queueing, execution and counting are the engine's job.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::journal::{Door, Execution};
use super::padding;
use super::server::Server;
use super::work::{self, Next, Refused};
use weir_sim::server::Parallelism;

/// Largest request body, in bytes; a larger one is answered 413.
pub const BODY_MAX: usize = 64 * 1024 * 1024;

/// The response to an inference: an Open Inference Protocol response whose outputs describe the
/// request body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InferAnswer {
    /// The emulated model: the variant that answered.
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

/// The response of `/emulator/resources`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Current cores.
    pub cores: f64,
    /// Batches executed at once; `null` means one per core.
    pub parallelism: Parallelism,
    /// Maximum requests in one batch.
    pub batch: NonZeroU32,
}

/// The body of a `PUT /emulator/resources`; omitted keys stay as they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub(super) cores: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    pub(super) parallelism: Option<Parallelism>,
    pub(super) batch: Option<NonZeroU32>,
    /// Cores of each ready replica while others load; not used by a single server.
    pub(super) each: Option<f64>,
}

impl Change {
    /// Parses the body; the error says what is wrong with it.
    pub(super) fn read(body: &[u8]) -> Result<Change, String> {
        let mut json = serde_json::Deserializer::from_slice(body);
        serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string())
    }
}

/// Distinguishes `"parallelism": null` (one per core) from a missing key.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Parallelism>, D::Error> {
    Parallelism::deserialize(value).map(Some)
}

/// The parsed part of an inference request.
#[derive(Deserialize)]
struct InferRequest {
    id: Option<String>,
}

/// The body of a `PUT /emulator/next`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NextStageBody {
    url: Option<String>,
}

/// Header with the length of the JSON part of a body, used when raw tensors follow it.
const JSON_LENGTH: &str = "inference-header-content-length";

type Shared = State<Arc<Server>>;

pub(super) fn routes() -> Router<Arc<Server>> {
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
        .route("/emulator/next", put(change_next))
        .route("/emulator/executions", get(show_executions))
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
        return Refused::unknown(&model).into_response();
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
    Refused::unknown(&model).into_response()
}

async fn infer(
    State(server): Shared,
    Path(model): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if !server.serves(&model) {
        return Refused::unknown(&model).into_response();
    }
    let body = match body {
        Ok(body) => body,
        Err(refusal) => return Refused::new(refusal.status(), refusal.body_text()).into_response(),
    };
    let at_least = match padding::requested(&headers) {
        Ok(at_least) => at_least,
        Err(refused) => return refused.into_response(),
    };
    let served = match work::serve(&server, Door::OipHttp, &headers, &body).await {
        Ok(served) => served,
        Err(answer) => return answer,
    };
    let mut answer = infer_answer(&server, &body, &headers, &served.execution);
    answer
        .parameters
        .extend(served.next.map(|next| ("next".to_owned(), next)));
    match serde_json::to_vec(&answer) {
        Ok(json) => padding::json(json, at_least),
        Err(error) => internal(&error),
    }
}

fn internal(error: &serde_json::Error) -> Response {
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

fn infer_answer(
    server: &Server,
    body: &[u8],
    headers: &HeaderMap,
    execution: &Execution,
) -> InferAnswer {
    let json_part = headers
        .get(JSON_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok())
        .and_then(|length: usize| body.get(..length))
        .unwrap_or(body);
    let own_id = serde_json::from_slice::<InferRequest>(json_part)
        .ok()
        .and_then(|request| request.id);
    let output = |name: &str, datatype: &str, value: u64| Output {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: vec![1],
        data: vec![value],
    };
    InferAnswer {
        model_name: server.model().to_owned(),
        model_version: "1".to_owned(),
        id: own_id.unwrap_or_else(|| execution.request_id.clone()),
        outputs: vec![
            output("bytes", "UINT64", body.len() as u64),
            output("crc32", "UINT32", u64::from(crc32fast::hash(body))),
        ],
        parameters: execution_details(execution)
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    }
}

/// Details of the execution that every response contains.
pub(super) fn execution_details(execution: &Execution) -> [(&'static str, serde_json::Value); 6] {
    let queued_ms = execution.started_ms - execution.arrived_ms;
    let service_ms = execution.ended_ms - execution.started_ms;
    [
        ("emulated", json!(true)),
        ("order", json!(execution.order)),
        ("batch", json!(execution.batch)),
        ("cores", json!(execution.cores)),
        ("queued_ms", json!(queued_ms)),
        ("service_ms", json!(service_ms)),
    ]
}

async fn show_resources(State(server): Shared) -> Json<Resources> {
    Json(server.resources())
}

async fn change_resources(State(server): Shared, body: Bytes) -> Response {
    let change = match Change::read(&body) {
        Ok(change) => change,
        Err(message) => return bad(message),
    };
    if let Err(message) = server.set_resources(change.cores, change.parallelism) {
        return bad(message);
    }
    if let Some(batch) = change.batch {
        server.set_batch(batch);
    }
    Json(server.resources()).into_response()
}

fn bad(message: String) -> Response {
    Refused::new(StatusCode::BAD_REQUEST, message).into_response()
}

async fn change_next(State(server): Shared, body: Bytes) -> Response {
    let change: NextStageBody = match serde_json::from_slice(&body) {
        Ok(change) => change,
        Err(error) => return bad(error.to_string()),
    };
    let next = change.url.as_deref().map(Next::new).transpose();
    match next {
        Ok(next) => {
            server.set_next(next);
            Json(json!({"url": change.url})).into_response()
        }
        Err(error) => bad(format!("url: {error}")),
    }
}

/// `after=n`: return only executions whose order is greater.
#[derive(Deserialize)]
struct ExecutionsQuery {
    #[serde(default)]
    after: u64,
}

async fn show_executions(
    State(server): Shared,
    Query(since): Query<ExecutionsQuery>,
) -> Json<Vec<Execution>> {
    Json(server.executions(since.after))
}
