//! A poll that another planner is to answer: it deals the slots, and two who deal would deal them twice.
//!
//! Passed on as it came, and the answer as it comes. Where that planner does not answer, the poll is this one's
//! to answer, by the plan that was known last; whoever leads next hears of it by the proxies' own polls.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::{App, Leader};

/// How long a planner may take to be connected to.
pub const CONNECT_MAX: Duration = Duration::from_millis(500);
/// How much longer than it holds polls a planner may take to answer one.
const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// Says that a poll has been passed on: never twice.
const PASSED: &str = "x-weir-forwarded";
/// Headers of an answer that are passed on.
const KEPT: [header::HeaderName; 2] = [header::CONTENT_TYPE, header::RETRY_AFTER];

/// The leader's answer, where another planner leads and answers.
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
    let asked = ask(app, &leader, uri, headers);
    let mut stop = app.stop.clone();
    tokio::select! {
        answer = asked => match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!("the planner that leads did not answer a poll: {error}");
                None
            }
        },
        // Who leads now answers the next poll.
        _ = leads.changed() => Some(StatusCode::NO_CONTENT.into_response()),
        _ = stop.wait_for(|stop| *stop) => Some(StatusCode::NO_CONTENT.into_response()),
    }
}

async fn ask(
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
