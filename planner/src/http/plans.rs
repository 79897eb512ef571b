//! The long poll: a proxy asks for a plan of its stage newer than its own, and the request is held until
//! there is one.
//!
//! 200 and the plan, with this proxy's slots · 204 nothing newer within the hold time, or the planner is
//! shutting down · 400 invalid query · 401 wrong or no key · 404 unknown service · 409 fewer slots than
//! proxies and none for this one, or no such variant as the proxy gates · 503 with retry-after if too many
//! polls wait or too many proxies share.
//!
//! If another planner leads, it also allocates the slots, and the poll is forwarded to it ([`forward`]).
//!
//! A poll that does not identify its proxy (`proxy`) gets the whole plan and takes no part in the slot
//! allocation.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::SemaphorePermit;
use weir_api::Revision;

use super::poll_query::PollQuery;
use super::{App, Refusal, check_key, forward, unknown};
use crate::distribution::slot_allocation::Poll;
use crate::distribution::{PollResponse, Published, Publisher};
use crate::registry::ServiceHandle;
use crate::telemetry::metrics::PollAnswer;

/// Seconds after which a proxy retries when too many polls wait.
const RETRY_AFTER_S: &str = "1";

pub(super) async fn poll(
    State(app): State<Arc<App>>,
    Path(stage): Path<String>,
    query: Result<Query<PollQuery>, QueryRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut handle = None;
    let result = match accept(&app, &stage, query, &headers, &mut handle) {
        Ok(accepted) => match forward::to_leader(&app, &uri, &headers).await {
            Some(forwarded) => return forwarded,
            None => answer(&app, &stage, accepted).await,
        },
        Err(refusal) => Err(refusal),
    };
    let (answer, response) = match result {
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
    let service = handle.as_ref().map(|handle| handle.service.name.as_str());
    app.metrics.count_poll(service, answer);
    if let (Some(handle), PollAnswer::Refused) = (&handle, answer) {
        handle.metrics.count_refusal();
    }
    response
}

/// A poll that may be held.
struct AcceptedPoll<'a> {
    handle: Arc<ServiceHandle>,
    after: Revision,
    poll: Option<Poll>,
    _permit: SemaphorePermit<'a>,
}

/// Checks the key first: a caller without it learns nothing.
fn accept<'a>(
    app: &'a App,
    stage: &str,
    query: Result<Query<PollQuery>, QueryRejection>,
    headers: &HeaderMap,
    stage_service: &mut Option<Arc<ServiceHandle>>,
) -> Result<AcceptedPoll<'a>, Refusal> {
    check_key(app, headers)?;
    let handle = app.stage(stage)?;
    *stage_service = Some(Arc::clone(&handle));
    let bad = |message: String| Refusal(StatusCode::BAD_REQUEST, message);
    let Query(query) = query.map_err(|error| bad(error.body_text()))?;
    let (after, poll) = query.validate().map_err(bad)?;
    let full = |message: String| Refusal(StatusCode::SERVICE_UNAVAILABLE, message);
    let permit = app.polls.try_acquire().map_err(|_| {
        full(format!(
            "{} polls wait already, no more are held",
            app.polls_max
        ))
    })?;
    Ok(AcceptedPoll {
        handle,
        after,
        poll,
        _permit: permit,
    })
}

async fn answer(
    app: &App,
    stage: &str,
    accepted: AcceptedPoll<'_>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(publisher) = accepted.handle.publishers.of(stage) else {
        return Err(unknown(stage));
    };
    let ended = async {
        let mut stop = app.stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = accepted.handle.wait_replaced() => {}
        }
    };
    match &accepted.poll {
        Some(poll) => proxy_plan(app, publisher, poll, ended).await,
        None => Ok(whole_plan(app, publisher, accepted.after, ended).await),
    }
}

/// Returns the plan with this proxy's slots.
async fn proxy_plan(
    app: &App,
    stage: &Publisher,
    poll: &Poll,
    ended: impl Future<Output = ()>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let held = stage.long_poll(poll, app.clock);
    let mut held =
        held.map_err(|full| Refusal(StatusCode::SERVICE_UNAVAILABLE, full.to_string()))?;
    let response = tokio::select! {
        biased;
        response = held.wait(app.hold) => response,
        () = ended => PollResponse::Nothing,
    };
    held.answered();
    match response {
        PollResponse::Nothing => Ok(None),
        PollResponse::Refused(why) => {
            let message = format!("proxy: '{}': {why}", poll.proxy);
            Err(Refusal(StatusCode::CONFLICT, message))
        }
        PollResponse::Plan(plan) => match plan.check() {
            // A validated plan contains no map and no number that JSON cannot represent.
            Ok(()) => Ok(serde_json::to_vec(&plan).ok()),
            Err(error) => {
                debug_assert!(false, "division makes a valid plan invalid: {error}");
                tracing::error!("plan for proxy '{}' is invalid: {error}", poll.proxy);
                Ok(None)
            }
        },
    }
}

async fn whole_plan(
    app: &App,
    stage: &Publisher,
    after: Revision,
    ended: impl Future<Output = ()>,
) -> Option<Vec<u8>> {
    stage.advance_revision(after, app.clock.now());
    let mut plans = stage.subscribe();
    let is_newer = |plan: &Option<Arc<Published>>| {
        plan.as_ref().is_some_and(|plan| plan.plan.revision > after)
    };
    tokio::select! {
        biased;
        plan = plans.wait_for(is_newer) => plan.ok().and_then(|plan| plan.as_ref().map(|plan| plan.json.to_vec())),
        () = ended => None,
        () = tokio::time::sleep(app.hold) => None,
    }
}
