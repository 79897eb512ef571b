//! Forwarding of polls to the leader. Only the leader allocates slots; two planners would give the same
//! slots out twice.
//!
//! Request and response are forwarded unchanged. If the leader does not respond, this planner answers by
//! the last known plan. The next leader learns of the proxy from the proxy's own polls.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::{App, Leader};

/// Connection timeout to the leader.
pub const CONNECT_MAX: Duration = Duration::from_millis(500);
/// Time beyond the hold time within which the leader must respond.
const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// Header of a forwarded poll, which is never forwarded again.
const PASSED: &str = "x-weir-forwarded";
/// Response headers that are forwarded.
const KEPT: [header::HeaderName; 2] = [header::CONTENT_TYPE, header::RETRY_AFTER];

/// Returns the leader's response if another planner leads and responds.
pub(super) async fn to_leader(app: &Arc<App>, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    let mut leads = app.leader.clone();
    let leader = match &*leads.borrow_and_update() {
        Leader::At(base) => base.clone(),
        Leader::Us | Leader::Nobody => return None,
    };
    if headers.contains_key(PASSED) {
        let answer = "another planner leads, and this one may not pass on what was passed on";
        let refusal = super::Refusal(StatusCode::SERVICE_UNAVAILABLE, answer.to_owned());
        return Some(refusal.into_response());
    }
    let requested = forward(app, &leader, uri, headers);
    let mut stop = app.stop.clone();
    tokio::select! {
        answer = requested => match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!("the planner that leads did not answer a poll: {error}");
                None
            }
        },
        // The new leader answers the proxy's next poll.
        _ = leads.changed() => Some(StatusCode::NO_CONTENT.into_response()),
        _ = stop.wait_for(|stop| *stop) => Some(StatusCode::NO_CONTENT.into_response()),
    }
}

async fn forward(
    app: &App,
    base: &str,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, reqwest::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = app
        .http
        .get(format!("{base}{path}"))
        .timeout(app.hold + ANSWER_GRACE)
        .header(PASSED, "1");
    if let Some(key) = headers.get(header::AUTHORIZATION) {
        request = request.header(header::AUTHORIZATION, key);
    }
    let answer = request.send().await?;
    let mut response = Response::builder().status(answer.status());
    for name in KEPT {
        if let Some(value) = answer.headers().get(&name) {
            response = response.header(name, value);
        }
    }
    let body = answer.bytes().await?;
    let response = response.body(Body::from(body));
    Ok(response.unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response()))
}
