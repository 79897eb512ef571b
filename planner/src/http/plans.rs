//! The long poll: a proxy asks for a plan newer than the one it has and is held until there is one.
//!
//! 200 and the plan · 204 nothing newer for as long as a poll is held, or the planner is ending · 400
//! not a poll · 401 wrong or no key · 404 another service · 503 with retry-after where too many wait.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use weir_api::Revision;

use super::{App, Refusal};
use crate::metrics::PollAnswer;
use crate::publish::{AFTER_MAX, Poll, Published, Role};

/// Longest node id of a proxy.
pub(super) const PROXY_BYTES_MAX: usize = 256;
/// Most workers a proxy may claim.
pub(super) const WORKERS_MAX: u32 = 4096;
/// When a proxy that found too many waiting shall ask again.
const RETRY_AFTER_S: &str = "1";

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    after: Revision,
    proxy: Option<String>,
    #[serde(default)]
    incarnation: u64,
    #[serde(default)]
    workers: u32,
    #[serde(default)]
    role: Role,
}

pub(super) async fn poll(
    State(app): State<Arc<App>>,
    Path(service): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let (answer, response) = match answer(&app, &service, asked, &headers).await {
        Ok(Some(plan)) => {
            let json = axum::body::Bytes::copy_from_slice(&plan.json);
            (
                PollAnswer::Plan,
                ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
            )
        }
        Ok(None) => (PollAnswer::None, StatusCode::NO_CONTENT.into_response()),
        Err(refusal) => {
            let answer = match refusal.0 {
                StatusCode::UNAUTHORIZED => PollAnswer::Unauthorised,
                StatusCode::SERVICE_UNAVAILABLE => PollAnswer::Full,
                _ => PollAnswer::Bad,
            };
            let mut response = refusal.into_response();
            if answer == PollAnswer::Full {
                response.headers_mut().insert(
                    header::RETRY_AFTER,
                    header::HeaderValue::from_static(RETRY_AFTER_S),
                );
            }
            (answer, response)
        }
    };
    app.metrics.polled(answer);
    response
}

/// The key first: who does not have it learns nothing.
async fn answer(
    app: &App,
    service: &str,
    asked: Result<Query<Asked>, QueryRejection>,
    headers: &HeaderMap,
) -> Result<Option<Arc<Published>>, Refusal> {
    if !carries_key(app, headers) {
        let right = "authorization: Bearer <key> is missing or wrong";
        return Err(Refusal(StatusCode::UNAUTHORIZED, right.to_owned()));
    }
    app.known(service)?;
    let Query(asked) =
        asked.map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.body_text()))?;
    let after = asked.after;
    if let Some(poll) = asked.checked()? {
        app.publisher.proxies().polled(poll, app.clock.now());
    }
    app.publisher.outrun(after, app.clock.now());
    let _permit = app.polls.try_acquire().map_err(|_| {
        Refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{} polls wait already, no more are held", app.polls_max),
        )
    })?;
    Ok(newer(app, after).await)
}

async fn newer(app: &App, after: Revision) -> Option<Arc<Published>> {
    let mut plans = app.publisher.subscribe();
    let mut stop = app.stop.clone();
    let is_newer = |plan: &Option<Arc<Published>>| {
        plan.as_ref().is_some_and(|plan| plan.plan.revision > after)
    };
    tokio::select! {
        biased;
        plan = plans.wait_for(is_newer) => plan.ok().and_then(|plan| plan.clone()),
        _ = stop.wait_for(|stop| *stop) => None,
        () = tokio::time::sleep(app.hold) => None,
    }
}

fn carries_key(app: &App, headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = value
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    bearer.is_some_and(|(_, key)| app.key.matches(key.trim()))
}

impl Asked {
    /// What is said of the proxy, if it says who it is.
    fn checked(self) -> Result<Option<Poll>, Refusal> {
        let bad = |message: String| Err(Refusal(StatusCode::BAD_REQUEST, message));
        if self.after > AFTER_MAX {
            return bad(format!("after: {} must be 0 to {AFTER_MAX}", self.after));
        }
        if self.workers > WORKERS_MAX {
            return bad(format!(
                "workers: {} must be at most {WORKERS_MAX}",
                self.workers
            ));
        }
        let Some(proxy) = self.proxy else {
            return Ok(None);
        };
        if proxy.len() > PROXY_BYTES_MAX || proxy.chars().any(char::is_control) {
            return bad(format!(
                "proxy: must be at most {PROXY_BYTES_MAX} bytes without control characters"
            ));
        }
        let Asked {
            after,
            incarnation,
            workers,
            role,
            ..
        } = self;
        Ok(Some(Poll {
            proxy,
            incarnation,
            workers,
            role,
            after,
        }))
    }
}
