//! Endpoint for TF Serving's REST: `POST /v1/models/{model}:predict` by rows or columns, and the
//! model's status.
//!
//! It only translates. A prediction names the emulated model and describes the request body, as in
//! the other protocols.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::execution_details;
use super::journal::Door;
use super::server::Server;
use super::work::{self, Refused};

/// Suffix of a predict call's path, after the model's name.
const PREDICT: &str = ":predict";

/// The body of a call: rows (`instances`) or columns (`inputs`).
#[derive(Deserialize)]
struct Predict {
    instances: Option<Vec<Value>>,
    inputs: Option<Value>,
}

type Shared = State<Arc<Server>>;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/models/{model}", get(status).post(predict))
        .route("/v1/models/{model}/metadata", get(metadata))
}

async fn status(State(server): Shared, Path(model): Path<String>) -> Response {
    if !server.serves(&model) {
        return Refused::unknown(&model).into_response();
    }
    let state = if server.is_ready() {
        "AVAILABLE"
    } else {
        "LOADING"
    };
    let fine = json!({"error_code": "OK", "error_message": ""});
    let version = json!({"version": "1", "state": state, "status": fine});
    Json(json!({"model_version_status": [version]})).into_response()
}

async fn metadata(State(server): Shared, Path(model): Path<String>) -> Response {
    if !server.serves(&model) {
        return Refused::unknown(&model).into_response();
    }
    let spec = json!({"name": server.model(), "signature_name": "", "version": "1"});
    Json(json!({"model_spec": spec, "metadata": {}})).into_response()
}

async fn predict(
    State(server): Shared,
    Path(call): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let refuse = |status, message: String| Refused::new(status, message).into_response();
    let Some(model) = call.strip_suffix(PREDICT) else {
        let message = format!("'{call}' is not supported: only '{PREDICT}' is emulated");
        return refuse(StatusCode::NOT_FOUND, message);
    };
    if !server.serves(model) {
        return Refused::unknown(model).into_response();
    }
    let body = match body {
        Ok(body) => body,
        Err(refusal) => return refuse(refusal.status(), refusal.body_text()),
    };
    let request: Predict = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, format!("JSON: {error}")),
    };
    let (key, count) = match (&request.instances, &request.inputs) {
        (Some(rows), None) => ("predictions", rows.len()),
        (None, Some(_)) => ("outputs", 1),
        _ => {
            let message = "exactly one of 'instances' and 'inputs' is required".to_owned();
            return refuse(StatusCode::BAD_REQUEST, message);
        }
    };
    let served = match work::serve(&server, Door::TfServing, &headers, &body).await {
        Ok(served) => served,
        Err(answer) => return answer,
    };
    let mut prediction = json!({
        "model": server.model(), "bytes": body.len(), "crc32": crc32fast::hash(&body),
    });
    if let Some(fields) = prediction.as_object_mut() {
        let details = execution_details(&served.execution);
        fields.extend(details.map(|(name, value)| (name.to_owned(), value)));
        fields.extend(served.next.map(|next| ("next".to_owned(), next)));
    }
    Json(json!({ key: vec![prediction; count] })).into_response()
}
