//! The HTTP side: connections, tokens, and each request's path through faults, RBAC, the verbs and the log.
//!
//! One lock around the cluster, never held across an await. Each connection is a child task of the accepting one, and
//! ends with it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::controllers;
use super::faults::{Fault, Faults};
use super::journal::{self, Journal, What};
use super::patch;
use super::request::{ApiRequest, Subject, Verb, target};
use super::status::Refusal;
use super::{discovery, object, rbac, read, token, watch, write};

/// Pause after a failed accept: most likely out of file descriptors until others close theirs.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// State shared by connections, the controllers' task and the handle.
#[derive(Debug)]
pub(super) struct Server {
    cluster: Mutex<Cluster>,
    pub(super) faults: Faults,
    pub(super) journal: Arc<Journal>,
    /// Token → subject.
    tokens: Mutex<BTreeMap<String, String>>,
    /// Wakes the controllers after a change.
    changed: Notify,
}

impl Server {
    pub(super) fn new(cluster: Cluster, faults: Faults) -> Server {
        Server {
            journal: Arc::clone(&cluster.journal),
            cluster: Mutex::new(cluster),
            faults,
            tokens: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// The cluster, for reading; use [`Server::change`] to change it.
    pub(super) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the cluster and wakes the controllers.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Cluster) -> R) -> R {
        let result = change(&mut self.cluster());
        self.changed.notify_one();
        result
    }

    /// The token of a subject; always the same one.
    pub(super) fn token(&self, subject: &str) -> String {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tokens.iter().find(|(_, of)| *of == subject);
        if let Some((token, _)) = known {
            return token.clone();
        }
        let token = format!("token-{}-{}", tokens.len(), self.cluster().suffix(16));
        tokens.insert(token.clone(), subject.to_owned());
        token
    }

    fn subject(&self, request: &Request) -> Result<Subject, Refusal> {
        let unknown = || Refusal::new(401, "Unauthorized", "Unauthorized");
        let header = request
            .headers()
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        let Some(token) = header.and_then(|value| value.strip_prefix("Bearer ")) else {
            return Err(unknown());
        };
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens
            .get(token)
            .map(|user| Subject::named(user))
            .ok_or_else(unknown)
    }
}

/// Runs the controllers for as long as the emulator lives.
pub(super) async fn run_controllers(server: Arc<Server>) {
    loop {
        let next = {
            let mut cluster = server.cluster();
            let next = controllers::run(&mut cluster);
            next.map(|at| cluster.clock.instant(at))
        };
        match next {
            Some(at) => {
                let _ = tokio::time::timeout_at(at, server.changed.notified()).await;
            }
            None => server.changed.notified().await,
        }
    }
}

/// Accepts connections until aborted, which also ends the connections.
pub(super) async fn accept(server: Arc<Server>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(Arc::clone(&server), stream))),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Error that closes the connection without a response.
#[derive(Debug, thiserror::Error)]
#[error("a fault closed the connection")]
struct ConnectionClosed;

/// Service of a connection. axum's own service cannot fail, which a fault requires.
#[derive(Debug, Clone)]
struct ConnectionService(Arc<Server>);

impl<B> tower::Service<axum::http::Request<B>> for ConnectionService
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = ConnectionClosed;
    type Future = Pin<Box<dyn Future<Output = Result<Response, ConnectionClosed>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionClosed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: axum::http::Request<B>) -> Self::Future {
        let server = Arc::clone(&self.0);
        Box::pin(async move { answer(&server, request.map(Body::new)).await })
    }
}

async fn connection(server: Arc<Server>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = ConnectionService(server);
    let builder = auto::Builder::new(TokioExecutor::new());
    let service = TowerToHyperService::new(service);
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(server: &Arc<Server>, request: Request) -> Result<Response, ConnectionClosed> {
    let subject = match server.subject(&request) {
        Ok(subject) => subject,
        Err(refusal) => return Ok(refused(&refusal)),
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, write::BODY_MAX).await else {
        let message = format!("Request entity too large: limit is {}", write::BODY_MAX);
        return Ok(refused(&Refusal::new(
            413,
            "RequestEntityTooLarge",
            message,
        )));
    };
    let path = parts.uri.path();
    let Some(target) = target(path) else {
        let cluster = server.cluster();
        let found = discovery::answer(&cluster.kinds, &cluster.options, path);
        return Ok(match found {
            Some(body) => json_answer(200, &body),
            None => refused(&Refusal::no_path()),
        });
    };
    let read = ApiRequest::read(&server.cluster().kinds, target, &parts, subject, body);
    let mut api_request = match read {
        Ok(api_request) => api_request,
        Err(refusal) => return Ok(refused(&refusal)),
    };
    api_request.arrived = server.cluster().clock.elapsed();
    served(server, &api_request).await
}

async fn served(server: &Arc<Server>, request: &ApiRequest) -> Result<Response, ConnectionClosed> {
    let fault = server.faults.of(request);
    match fault {
        Some(Fault::Overdue(wait)) => {
            let (server, request) = (Arc::clone(server), request.clone());
            // Not part of the connection, which may be closed first.
            let carried_out = tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                carried_out(&server, &request, false)
            });
            return carried_out.await.map_err(|_| ConnectionClosed);
        }
        Some(Fault::Late(wait)) => tokio::time::sleep(wait).await,
        Some(Fault::Error(code)) => {
            let message = "an emulated fault";
            let refusal = Refusal::new(code, "InternalError", message);
            return Ok(log_refused(server, request, &refusal, false));
        }
        Some(Fault::NotFound) => {
            return Ok(log_refused(server, request, &Refusal::no_path(), false));
        }
        Some(Fault::Forbidden) => {
            return Ok(log_refused(server, request, &rbac::refused(request), false));
        }
        Some(Fault::TooMany(seconds)) => {
            let message =
                "the server has received too many requests and has asked us to try again later";
            let refusal = Refusal::new(429, "TooManyRequests", message).again_after(seconds);
            return Ok(log_refused(server, request, &refusal, false));
        }
        Some(Fault::HangUp) => return Err(ConnectionClosed),
        _ => {}
    }
    let lost = fault == Some(Fault::LoseAnswer);
    let response = carried_out(server, request, lost);
    if let Some(Fault::Slow(wait)) = fault {
        tokio::time::sleep(wait).await;
    }
    if lost {
        Err(ConnectionClosed)
    } else {
        Ok(response)
    }
}

/// Performs a request and logs it. A write does both under one lock, so that the log's order is the order of effects.
fn carried_out(server: &Arc<Server>, request: &ApiRequest, lost: bool) -> Response {
    // The lock must be free again for the log.
    let allowed = rbac::authorise(&server.cluster(), request);
    if let Err(refusal) = allowed {
        return log_refused(server, request, &refusal, lost);
    }
    if request.verb == Verb::Watch {
        let response = watch::begin(server, request);
        return match response {
            Ok(response) => {
                log(&server.cluster(), request, 200, "", lost);
                response
            }
            Err(refusal) => log_refused(server, request, &refusal, lost),
        };
    }
    if request.subresource == "token" {
        return token_given(server, request, lost);
    }
    let act = |cluster: &mut Cluster| {
        let answer = match request.verb {
            Verb::Get => read::get(cluster, request).map(|body| (200, body)),
            Verb::List => read::list(cluster, request).map(|body| (200, body)),
            _ => write::write(cluster, request),
        };
        match &answer {
            Ok((status, _)) => log(cluster, request, *status, "", lost),
            Err(refusal) => log(cluster, request, refusal.code, refusal.reason, lost),
        }
        answer
    };
    let answer = match request.verb.writes() {
        true => server.change(act),
        false => act(&mut server.cluster()),
    };
    match answer {
        Ok((status, body)) => json_answer(status, &body),
        Err(refusal) => refused(&refusal),
    }
}

fn token_given(server: &Server, request: &ApiRequest, lost: bool) -> Response {
    let answer = token::answer(&server.cluster(), request);
    match answer {
        Ok((subject, mut body)) => {
            let token = server.token(&subject);
            object::set(&mut body, "/status/token", Value::from(token));
            log(&server.cluster(), request, 201, "", lost);
            json_answer(201, &body)
        }
        Err(refusal) => log_refused(server, request, &refusal, lost),
    }
}

fn log_refused(server: &Server, request: &ApiRequest, refusal: &Refusal, lost: bool) -> Response {
    log(
        &server.cluster(),
        request,
        refusal.code,
        refusal.reason,
        lost,
    );
    refused(refusal)
}

fn log(cluster: &Cluster, request: &ApiRequest, status: u16, reason: &str, lost: bool) {
    let patches = request.verb == Verb::Patch;
    let body = match patches {
        true => patch::body(request).unwrap_or_default(),
        false => Value::Null,
    };
    let content_type = if patches {
        request.content_type.clone()
    } else {
        String::new()
    };
    let logged = journal::Request {
        subject: request.subject.user.clone(),
        verb: request.verb,
        group: request.kind.group.clone(),
        resource: request.resource(),
        key: request.key.clone(),
        status,
        reason: reason.to_owned(),
        content_type,
        body,
        dry_run: request.is_dry(),
        lost,
        arrived: request.arrived,
    };
    cluster
        .journal
        .write(cluster.clock.elapsed(), What::Request(logged));
}

fn json_answer(status: u16, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    response
}

fn refused(refusal: &Refusal) -> Response {
    let mut response = json_answer(refusal.code, &refusal.body());
    if let Some(seconds) = refusal.retry_after_s() {
        response
            .headers_mut()
            .insert("retry-after", HeaderValue::from(seconds));
    }
    response
}
