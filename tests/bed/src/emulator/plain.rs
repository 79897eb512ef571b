//! Endpoints without a protocol of their own: any body to `/predict`, server-sent events from
//! `/v1/stream`, and `/ws`, which echoes.
//!
//! It only translates. A stream's events are spread over its execution, the last at its end. An
//! echo is no execution.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::execution_details;
use super::journal::{Door, Execution, RequestInfo};
use super::server::Server;
use super::work::{self, Refused, Work};

/// Maximum events of one stream.
pub const EVENTS_MAX: u32 = 10_000;
/// Default number of events of a stream.
const EVENTS_DEFAULT: u32 = 10;

type Shared = State<Arc<Server>>;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/predict", get(about).post(predict).options(methods))
        .route("/v1/stream", get(events).post(events))
        .route("/v1/chat/completions", post(events))
        .route("/ws", any(echo))
}

async fn about(State(server): Shared) -> Json<Value> {
    Json(json!({"model": server.model(), "emulated": true}))
}

async fn methods() -> impl IntoResponse {
    let allowed = "GET, HEAD, POST, OPTIONS";
    (StatusCode::NO_CONTENT, [(header::ALLOW, allowed)])
}

async fn predict(
    State(server): Shared,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(refusal) => return Refused::new(refusal.status(), refusal.body_text()).into_response(),
    };
    let served = match work::serve(&server, Door::Plain, &headers, &body).await {
        Ok(served) => served,
        Err(answer) => return answer,
    };
    let mut answer = json!({
        "model": server.model(), "bytes": body.len(), "crc32": crc32fast::hash(&body),
    });
    if let Some(fields) = answer.as_object_mut() {
        let details = execution_details(&served.execution);
        fields.extend(details.map(|(name, value)| (name.to_owned(), value)));
        fields.extend(served.next.map(|next| ("next".to_owned(), next)));
    }
    Json(answer).into_response()
}

/// `events=n`: number of events, spread evenly.
#[derive(Deserialize)]
struct StreamQuery {
    events: Option<u32>,
}

async fn events(
    State(server): Shared,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Response {
    let count = query.events.unwrap_or(EVENTS_DEFAULT);
    if !(1..=EVENTS_MAX).contains(&count) {
        let message = format!("events: {count} must be 1 to {EVENTS_MAX}");
        return Refused::new(StatusCode::BAD_REQUEST, message).into_response();
    }
    let work = Work::queue(&server, RequestInfo::of(Door::Events, &headers), true);
    let mut work = match work {
        Ok(work) => work,
        Err(refused) => return refused.into_response(),
    };
    let execution = match work.begun().await {
        Ok(execution) => execution,
        Err(refused) => return refused.into_response(),
    };
    let spoken = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (spoken, Body::from_stream(spread(server, execution, count))).into_response()
}

/// The events, each at its time, and the final end marker.
fn spread(
    server: Arc<Server>,
    execution: Execution,
    count: u32,
) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send {
    stream::unfold(1, move |index| {
        let due_ms = execution.started_ms
            + (execution.ended_ms - execution.started_ms) * f64::from(index) / f64::from(count);
        let server = Arc::clone(&server);
        async move {
            if index > count {
                return None;
            }
            tokio::time::sleep_until(server.instant(due_ms)).await;
            let event = json!({
                "model": server.model(), "emulated": true, "index": index, "of": count,
            });
            let end = if index == count {
                "data: [DONE]\n\n"
            } else {
                ""
            };
            let text = format!("data: {event}\n\n{end}");
            Some((Ok(Bytes::from(text)), index + 1))
        }
    })
}

async fn echo(State(server): Shared, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(move |socket| echo_all(server, socket))
}

async fn echo_all(server: Arc<Server>, mut socket: WebSocket) {
    let mut hung_up = server.watch_hang_up();
    loop {
        let message = tokio::select! {
            message = socket.recv() => message,
            _ = hung_up.changed() => None,
        };
        let Some(Ok(message)) = message else {
            return;
        };
        use axum::extract::ws::Message;
        // Pings and closes are answered by the websocket library.
        let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
        if is_data && socket.send(message).await.is_err() {
            return;
        }
    }
}
