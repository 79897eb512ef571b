//! Handling of an inference request, common to all protocols: admit it, execute it, and call the next stage if there
//! is one.
//!
//! It passes a request's deadline on and never reads it.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, body::Body};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::journal::{Door, Execution, RequestInfo};
use super::server::Server;
use crate::oip;

/// A refused request; each protocol reports it in its own way.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Refused {
        let message = message.into();
        Refused { status, message }
    }

    pub(super) fn unknown(model: &str) -> Refused {
        let message = format!("model '{model}' is not served here");
        Refused::new(StatusCode::NOT_FOUND, message)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.message}))).into_response()
    }
}

/// A request that is queued or executing.
pub(super) struct Work {
    begun: Option<mpsc::UnboundedReceiver<Execution>>,
    ended: oneshot::Receiver<Execution>,
}

impl Work {
    /// Queues a request; `watched` requests a record at the start of its execution as well.
    pub(super) fn queue(
        server: &Server,
        info: RequestInfo,
        watched: bool,
    ) -> Result<Work, Refused> {
        let refuse = |status, message| Err(Refused::new(status, message));
        if !server.is_ready() {
            return refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "the model is still loading",
            );
        }
        if server.is_unloaded() {
            return Err(Refused::unknown(server.model()));
        }
        if server.takes_failure() {
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "requested failure");
        }
        let (sender, receiver) = watched.then(mpsc::unbounded_channel).unzip();
        match server.execute(info, sender) {
            Some(ended) => Ok(Work {
                begun: receiver,
                ended,
            }),
            None => refuse(StatusCode::SERVICE_UNAVAILABLE, "the queue is full"),
        }
    }

    /// Its record, once its execution starts.
    pub(super) async fn begun(&mut self) -> Result<Execution, Refused> {
        let begun = match &mut self.begun {
            Some(begun) => begun.recv().await,
            None => None,
        };
        begun.ok_or_else(crashed)
    }

    /// Its record, once it has been executed.
    pub(super) async fn ended(self) -> Result<Execution, Refused> {
        self.ended.await.map_err(|_| crashed())
    }
}

fn crashed() -> Refused {
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the server crashed")
}

/// The next stage of a pipeline, called with each request after its execution here.
#[derive(Debug, Clone)]
pub(super) struct Next {
    pub(super) url: String,
    http: reqwest::Client,
    grpc: oip::Client,
}

/// A request executed here and, if there is one, by the next stage.
pub(super) struct Served {
    pub(super) execution: Execution,
    /// Response of the next stage.
    pub(super) next: Option<Value>,
}

/// Executes a request that arrived over HTTP.
pub(super) async fn serve(
    server: &Server,
    door: Door,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Served, Response> {
    let (info, hop) = (RequestInfo::of(door, headers), server.hop());
    travel(Instant::now(), hop).await;
    let work = Work::queue(server, info, false).map_err(Refused::into_response)?;
    let execution = work.ended().await.map_err(Refused::into_response)?;
    travel(server.instant(execution.ended_ms), hop).await;
    let next = match server.next() {
        Some(next) => Some(next.post(headers, body.clone()).await?),
        None => None,
    };
    Ok(Served { execution, next })
}

/// Waits until `hop` has passed since `left`. Sleeps in a thread, because Tokio's timer may be a millisecond late,
/// which is as long as a hop.
async fn travel(left: Instant, hop: Duration) {
    if hop.is_zero() {
        return;
    }
    let sleep = move || std::thread::sleep((left + hop).saturating_duration_since(Instant::now()));
    // Fails only while the runtime shuts down.
    let _ = tokio::task::spawn_blocking(sleep).await;
}

impl Next {
    pub(super) fn new(url: &str) -> anyhow::Result<Next> {
        Ok(Next {
            url: url.to_owned(),
            http: reqwest::Client::builder().no_proxy().build()?,
            grpc: oip::Client::of_url(url)?,
        })
    }

    /// Its response as JSON; an unsuccessful response is returned unchanged.
    async fn post(&self, headers: &HeaderMap, body: Bytes) -> Result<Value, Response> {
        let unreachable = |error: reqwest::Error| {
            let message = format!("no response from the next stage: {error}");
            Refused::new(StatusCode::BAD_GATEWAY, message).into_response()
        };
        let request = self.http.post(&self.url).headers(passed_on(headers));
        let answer = request.body(body).send().await.map_err(unreachable)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.bytes().await.map_err(unreachable)?;
        if status.is_success() {
            let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
            return Ok(serde_json::from_slice(&body).unwrap_or_else(|_| text()));
        }
        let mut answer = Response::new(Body::from(body));
        *answer.status_mut() = status;
        let is_returned = |name: &str| {
            name.starts_with("x-slo-")
                || name == header::RETRY_AFTER.as_str()
                || name == header::CONTENT_TYPE.as_str()
        };
        let kept = headers
            .iter()
            .filter(|(name, _)| is_returned(name.as_str()));
        answer
            .headers_mut()
            .extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        Err(answer)
    }

    /// The same over gRPC; an unsuccessful status is returned unchanged.
    pub(super) async fn infer(
        &self,
        headers: &HeaderMap,
        request: oip::ModelInferRequest,
    ) -> Result<oip::ModelInferResponse, tonic::Status> {
        let headers: Vec<_> = passed_on(headers)
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        let answer = self.grpc.infer(request, &headers).await?;
        Ok(answer.into_inner())
    }
}

/// Headers that a server passes on to the next stage.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let is_passed_on =
        |name: &str| name.starts_with("x-slo-") || matches!(name, "grpc-timeout" | "x-request-id");
    headers
        .iter()
        .filter(|(name, _)| is_passed_on(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
