//! Forwarding of polls to the leader. Only the leader allocates slots; two planners would give the same
//! slots out twice.
//!
//! Request and response are forwarded unchanged. If the leader does not respond, the poll is refused: the proxy
//! keeps its plan, and its next poll may reach the leader.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::request_id::REQUEST_ID;

/// Time beyond the hold time within which the leader must respond.
pub(super) const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// Header of a forwarded poll, which is never forwarded again.
const PASSED: HeaderName = HeaderName::from_static("x-weir-forwarded");
/// Response headers that are forwarded.
const KEPT: [HeaderName; 2] = [header::CONTENT_TYPE, header::RETRY_AFTER];

/// Returns the response of the leader at `base`.
///
/// # Errors
/// Fails with the reason if it does not respond, or if the poll has been forwarded already.
pub(super) async fn to_leader(
    app: &Arc<App>,
    base: &str,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, String> {
    if headers.contains_key(PASSED) {
        let why = "another planner leads, and this one may not pass on what was passed on";
        return Err(why.to_owned());
    }
    let mut stop = app.stop.clone();
    tokio::select! {
        answer = forward(app, base, uri, headers) => answer.map_err(|why| {
            format!("the planner at {base} leads and did not answer: {why}")
        }),
        // The new leader answers the proxy's next poll.
        () = app.leadership.wait_changed() => Ok(StatusCode::NO_CONTENT.into_response()),
        _ = stop.wait_for(|stop| *stop) => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

async fn forward(
    app: &App,
    base: &str,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut passed = HeaderMap::from_iter([(PASSED, HeaderValue::from_static("1"))]);
    for name in [header::AUTHORIZATION, REQUEST_ID] {
        if let Some(value) = headers.get(&name) {
            passed.insert(name, value.clone());
        }
    }
    let url = format!("{base}{path}");
    let limit = app.hold + ANSWER_GRACE;
    let (head, body) = app
        .leader_client
        .get(&url, passed, limit)
        .await?
        .into_parts();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = head.status;
    for name in KEPT {
        if let Some(value) = head.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}
