//! Authentication by the request's head alone. A request without a valid key is refused before its body is read.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::places::Place;
use super::{App, Refusal};
use crate::telemetry::metrics::PollAnswer;

/// Seconds after which a client retries when all places are taken.
const RETRY_AFTER_S: &str = "1";

/// Requires a key of the stage in the path, or of its service.
pub(super) async fn stage_key(
    State(app): State<Arc<App>>,
    Path(stage): Path<String>,
    request: Request,
    next: Next,
) -> Response {
    let handle = app.services.get_by_stage(&stage);
    let service = handle.as_ref().map(|handle| handle.service.name.as_str());
    let names = [stage.as_str(), service.unwrap_or(&stage)];
    let keys = app.keys.current();
    let opens = bearer(request.headers()).is_some_and(|key| keys.open(&names, key));
    if !opens {
        app.metrics.count_poll(service, PollAnswer::Unauthorised);
    }
    admit(opens, request, next).await
}

/// Requires a key of the service in the path.
pub(super) async fn service_key(
    State(app): State<Arc<App>>,
    Path(service): Path<String>,
    request: Request,
    next: Next,
) -> Response {
    let keys = app.keys.current();
    let opens = bearer(request.headers()).is_some_and(|key| keys.open(&[&service], key));
    admit(opens, request, next).await
}

/// Requires any key.
pub(super) async fn any_key(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let keys = app.keys.current();
    let opens = bearer(request.headers()).is_some_and(|key| keys.open_any(key));
    admit(opens, request, next).await
}

async fn admit(opens: bool, request: Request, next: Next) -> Response {
    if !opens {
        let right = "authorization: Bearer <key> is missing or wrong";
        return Refusal(StatusCode::UNAUTHORIZED, right.to_owned()).into_response();
    }
    let place = request.extensions().get::<Arc<Place>>();
    if let Some(Err(full)) = place.map(|place| place.promote()) {
        let refusal = Refusal(StatusCode::SERVICE_UNAVAILABLE, full.to_string());
        return ([(header::RETRY_AFTER, RETRY_AFTER_S)], refusal).into_response();
    }
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
