//! Authentication by the request's head alone. A request without a valid key is refused before its body is read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::extract::ServiceName;
use super::places::Place;
use super::problem::{Problem, ProblemKind};
use crate::key::{Right, Scope};
use crate::telemetry::metrics::PollAnswer;

/// Requires a key of the stage in the path, or of its service.
pub(super) async fn stage_key(
    State(app): State<Arc<App>>,
    name: Result<ServiceName, Problem>,
    request: Request,
    next: Next,
) -> Response {
    let stage = match name {
        Ok(name) => name.service,
        Err(problem) => return admit(Err(problem), request, next).await,
    };
    let handle = app.services.get_by_stage(&stage);
    let service = handle.as_ref().map(|handle| handle.service.name.as_str());
    let names = [stage.as_str(), service.unwrap_or(&stage)];
    let keys = app.keys.current();
    let opens = bearer(request.headers()).and_then(|key| keys.open(&names, key));
    let opens = authorised(opens, plan_right(&request));
    if opens.is_err() {
        app.metrics.count_poll(service, PollAnswer::Unauthorised);
    }
    admit(opens, request, next).await
}

/// Requires a key of the service in the path.
pub(super) async fn service_key(
    State(app): State<Arc<App>>,
    name: Result<ServiceName, Problem>,
    request: Request,
    next: Next,
) -> Response {
    let opens = name.and_then(|ServiceName { service }| {
        let keys = app.keys.current();
        let opens = bearer(request.headers()).and_then(|key| keys.open(&[&service], key));
        authorised(opens, right(&request))
    });
    admit(opens, request, next).await
}

/// Requires a key with `write`, of the service in the path or of all services. [`may_write`] and [`may_create`] tell them
/// apart.
pub(super) async fn write_key(
    State(app): State<Arc<App>>,
    name: Result<ServiceName, Problem>,
    request: Request,
    next: Next,
) -> Response {
    let opens = name.and_then(|ServiceName { service }| {
        let keys = app.keys.current();
        let key = bearer(request.headers());
        let opens = key.and_then(|key| keys.open(&[&service], key).max(keys.open_all(key)));
        authorised(opens, Right::Change)
    });
    admit(opens, request, next).await
}

/// Requires a key of that service with `write`.
pub(super) fn may_write(app: &App, headers: &HeaderMap, service: &str) -> Result<(), Problem> {
    let keys = app.keys.current();
    let opens = bearer(headers).and_then(|key| keys.open(&[service], key));
    authorised(opens, Right::Change)
}

/// Requires a key of all services with `write`, as for the creation or deletion of one.
pub(super) fn may_create(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let keys = app.keys.current();
    let opens = bearer(headers).and_then(|key| keys.open_all(key));
    match opens {
        Some(Scope::Write) => Ok(()),
        _ => Err(Problem::new(
            ProblemKind::LimitedKey,
            "authorization: services are created and deleted with a key of all services with `write`: a line `KEY write` of \
             the key file",
        )),
    }
}

/// Requires any key.
pub(super) async fn any_key(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let keys = app.keys.current();
    let opens = bearer(request.headers()).and_then(|key| keys.open_any(key));
    let opens = authorised(opens, right(&request));
    admit(opens, request, next).await
}

/// Returns the right that a request needs.
fn right(request: &Request) -> Right {
    match *request.method() {
        Method::GET | Method::HEAD => Right::Read,
        Method::POST => Right::Solve,
        _ => Right::Change,
    }
}

/// Returns the right that a request for a plan needs. A proxy that polls takes slots.
fn plan_right(request: &Request) -> Right {
    let query = request.uri().query().unwrap_or_default();
    let mut names = url::form_urlencoded::parse(query.as_bytes());
    match (names.any(|(name, _)| name == "proxy"), right(request)) {
        (true, _) => Right::Poll,
        (false, Right::Read) => Right::Plan,
        (false, other) => other,
    }
}

fn authorised(opens: Option<Scope>, needs: Right) -> Result<(), Problem> {
    let (kind, right) = match opens {
        Some(scope) if scope.permits(needs) => return Ok(()),
        Some(_) => (
            ProblemKind::LimitedKey,
            "authorization: the key file gives the key less; polls take any key but one with `read`, reads any but one with \
             `poll`, solves one with no word, changes one with `write`",
        ),
        None => (
            ProblemKind::NoKey,
            "authorization: Bearer <key> is missing or wrong",
        ),
    };
    Err(Problem::new(kind, right))
}

async fn admit(opens: Result<(), Problem>, request: Request, next: Next) -> Response {
    if let Err(problem) = opens {
        return problem.into_response();
    }
    let place = request.extensions().get::<Arc<Place>>();
    if let Some(Err(full)) = place.map(|place| place.promote()) {
        return Problem::new(ProblemKind::Unavailable, full.to_string()).into_response();
    }
    next.run(request).await
}

/// Returns the key of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
