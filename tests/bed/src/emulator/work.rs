//! What every door does with a request for inference: let it in or not, execute it, and have the next
//! stage's answer where there is one.
//!
//! It passes a request's deadline on and never looks at it.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, body::Body};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::journal::{Asked, Door, Execution};
use super::server::Server;
use crate::oip;

/// Why a request was not executed; each protocol says it its own way.
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

/// A request in the queue or under way.
pub(super) struct Work {
    begun: Option<mpsc::UnboundedReceiver<Execution>>,
    ended: oneshot::Receiver<Execution>,
}

impl Work {
    /// Puts a request into the queue; `watched`: somebody will wait for its beginning.
    pub(super) fn queue(server: &Server, asked: Asked, watched: bool) -> Result<Work, Refused> {
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
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "a failure was asked for");
        }
        let (sender, receiver) = watched.then(mpsc::unbounded_channel).unzip();
        match server.execute(asked, sender) {
            Some(ended) => Ok(Work {
                begun: receiver,
                ended,
            }),
            None => refuse(StatusCode::SERVICE_UNAVAILABLE, "the queue is full"),
        }
    }

    /// Its record, when its execution starts.
    pub(super) async fn begun(&mut self) -> Result<Execution, Refused> {
        let begun = match &mut self.begun {
            Some(begun) => begun.recv().await,
            None => None,
        };
        begun.ok_or_else(crashed)
    }

    /// Its record, when it has been executed.
    pub(super) async fn ended(self) -> Result<Execution, Refused> {
        self.ended.await.map_err(|_| crashed())
    }
}

fn crashed() -> Refused {
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the server crashed")
}

/// A stage that is called with each request when this one has executed it.
#[derive(Debug, Clone)]
pub(super) struct Next {
    pub(super) url: String,
    http: reqwest::Client,
    grpc: oip::Client,
}

/// A request executed here and, where there is a next stage, there.
pub(super) struct Served {
    pub(super) execution: Execution,
    /// What the next stage answered.
    pub(super) next: Option<Value>,
}

/// Executes a request that came over HTTP.
pub(super) async fn serve(
    server: &Server,
    door: Door,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Served, Response> {
    let (asked, hop) = (Asked::of(door, headers), server.hop());
    travel(Instant::now(), hop).await;
    let work = Work::queue(server, asked, false).map_err(Refused::into_response)?;
    let execution = work.ended().await.map_err(Refused::into_response)?;
    travel(server.instant(execution.ended_ms), hop).await;
    let next = match server.next() {
        Some(next) => Some(next.post(headers, body.clone()).await?),
        None => None,
    };
    Ok(Served { execution, next })
}

/// Waits until `hop` has passed since `left`. A thread sleeps: Tokio's timer may be a millisecond late, which is as
/// much as a hop.
async fn travel(left: Instant, hop: Duration) {
    if hop.is_zero() {
        return;
    }
    let sleep = move || std::thread::sleep((left + hop).saturating_duration_since(Instant::now()));
    // It fails only where the runtime ends.
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

    /// Its answer as JSON; one that is no success is passed on as it is.
    async fn post(&self, headers: &HeaderMap, body: Bytes) -> Result<Value, Response> {
        let unreachable = |error: reqwest::Error| {
            let message = format!("no answer of the next stage: {error}");
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
        let told = |name: &str| {
            name.starts_with("x-slo-")
                || name == header::RETRY_AFTER.as_str()
                || name == header::CONTENT_TYPE.as_str()
        };
        let kept = headers.iter().filter(|(name, _)| told(name.as_str()));
        answer
            .headers_mut()
            .extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        Err(answer)
    }

    /// The same over gRPC: a status that is no success is passed on as it is.
    pub(super) async fn infer(
        &self,
        headers: &HeaderMap,
        asked: oip::ModelInferRequest,
    ) -> Result<oip::ModelInferResponse, tonic::Status> {
        let headers: Vec<_> = passed_on(headers)
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        let answer = self.grpc.infer(asked, &headers).await?;
        Ok(answer.into_inner())
    }
}

/// What a server hands on of a request that it answers with another's help.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let told =
        |name: &str| name.starts_with("x-slo-") || matches!(name, "grpc-timeout" | "x-request-id");
    headers
        .iter()
        .filter(|(name, _)| told(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
