//! The long poll: a proxy asks for a plan of its stage newer than the one it has and is held until there is one.
//!
//! 200 and the plan, or this proxy's part of it · 204 nothing newer for as long as a poll is held, or
//! the planner is ending · 400 not a poll · 401 wrong or no key · 404 another service · 409 there are
//! fewer slots than proxies, and none for this one, or no such variant as it fronts · 503 with retry-after where too many wait or share.
//!
//! A poll that does not say who it is (`proxy`) gets the whole plan and shares in nothing.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_api::Revision;

use super::asked::Asked;
use super::{App, Refusal, carries_key};
use crate::metrics::PollAnswer;
use crate::publish::{Published, Publisher, Told};
use crate::sharing::Poll;

/// When a proxy that found too many waiting shall ask again.
const RETRY_AFTER_S: &str = "1";

pub(super) async fn poll(
    State(app): State<Arc<App>>,
    Path(service): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let (answer, response) = match answer(&app, &service, asked, &headers).await {
        Ok(Some(plan)) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (PollAnswer::Plan, (json, plan).into_response())
        }
        Ok(None) => (PollAnswer::None, StatusCode::NO_CONTENT.into_response()),
        Err(refusal) => {
            let answer = match refusal.0 {
                StatusCode::UNAUTHORIZED => PollAnswer::Unauthorised,
                StatusCode::CONFLICT => PollAnswer::Refused,
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
) -> Result<Option<Vec<u8>>, Refusal> {
    if !carries_key(app, headers) {
        let right = "authorization: Bearer <key> is missing or wrong";
        return Err(Refusal(StatusCode::UNAUTHORIZED, right.to_owned()));
    }
    let stage = app.stage(service)?;
    let bad = |message: String| Refusal(StatusCode::BAD_REQUEST, message);
    let Query(asked) = asked.map_err(|error| bad(error.body_text()))?;
    let (after, poll) = asked.checked().map_err(bad)?;
    let full = |message: String| Refusal(StatusCode::SERVICE_UNAVAILABLE, message);
    let _permit = app.polls.try_acquire().map_err(|_| {
        full(format!(
            "{} polls wait already, no more are held",
            app.polls_max
        ))
    })?;
    match poll {
        Some(poll) => part(app, stage, &poll).await,
        None => Ok(whole(app, stage, after).await),
    }
}

/// The proxy's own part.
async fn part(app: &App, stage: &Publisher, poll: &Poll) -> Result<Option<Vec<u8>>, Refusal> {
    let visit = stage.visit(poll, app.clock);
    let mut visit =
        visit.map_err(|full| Refusal(StatusCode::SERVICE_UNAVAILABLE, full.to_string()))?;
    let mut stop = app.stop.clone();
    let told = tokio::select! {
        biased;
        told = visit.wait(app.hold) => told,
        _ = stop.wait_for(|stop| *stop) => Told::Nothing,
    };
    visit.answered();
    match told {
        Told::Nothing => Ok(None),
        Told::Refused(why) => {
            let message = format!("proxy: '{}': {why}", poll.proxy);
            Err(Refusal(StatusCode::CONFLICT, message))
        }
        Told::Plan(plan) => match plan.check() {
            // A checked plan holds no map and no number that JSON lacks.
            Ok(()) => Ok(serde_json::to_vec(&plan).ok()),
            Err(error) => {
                debug_assert!(false, "a part of a valid plan is none: {error}");
                tracing::error!("the part of '{}' is no valid plan: {error}", poll.proxy);
                Ok(None)
            }
        },
    }
}

async fn whole(app: &App, stage: &Publisher, after: Revision) -> Option<Vec<u8>> {
    stage.outrun(after, app.clock.now());
    let mut plans = stage.subscribe();
    let mut stop = app.stop.clone();
    let is_newer = |plan: &Option<Arc<Published>>| {
        plan.as_ref().is_some_and(|plan| plan.plan.revision > after)
    };
    tokio::select! {
        biased;
        plan = plans.wait_for(is_newer) => plan.ok().and_then(|plan| plan.as_ref().map(|plan| plan.json.to_vec())),
        _ = stop.wait_for(|stop| *stop) => None,
        () = tokio::time::sleep(app.hold) => None,
    }
}
