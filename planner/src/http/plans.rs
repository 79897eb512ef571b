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

use super::asked::Asked;
use super::{App, Refusal, admitted, forward, unknown};
use crate::distribution::slot_allocation::Poll;
use crate::distribution::{PollResponse, Published, Publisher};
use crate::served::Served;
use crate::telemetry::metrics::PollAnswer;

/// Seconds after which a proxy retries when too many polls wait.
const RETRY_AFTER_S: &str = "1";

pub(super) async fn poll(
    State(app): State<Arc<App>>,
    Path(stage): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut served = None;
    let answered = match admit(&app, &stage, asked, &headers, &mut served) {
        Ok(admitted) => match forward::to_leader(&app, &uri, &headers).await {
            Some(forwarded) => return forwarded,
            None => answer(&app, &stage, admitted).await,
        },
        Err(refusal) => Err(refusal),
    };
    let (answer, response) = match answered {
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
    let service = served.as_ref().map(|served| served.service.name.as_str());
    app.metrics.polled(service, answer);
    if let (Some(served), PollAnswer::Refused) = (&served, answer) {
        served.metrics.refused();
    }
    response
}

/// A poll that may be held.
struct Admitted<'a> {
    served: Arc<Served>,
    after: Revision,
    poll: Option<Poll>,
    _permit: SemaphorePermit<'a>,
}

/// Checks the key first: a caller without it learns nothing.
fn admit<'a>(
    app: &'a App,
    stage: &str,
    asked: Result<Query<Asked>, QueryRejection>,
    headers: &HeaderMap,
    found: &mut Option<Arc<Served>>,
) -> Result<Admitted<'a>, Refusal> {
    admitted(app, headers)?;
    let served = app.stage(stage)?;
    *found = Some(Arc::clone(&served));
    let bad = |message: String| Refusal(StatusCode::BAD_REQUEST, message);
    let Query(asked) = asked.map_err(|error| bad(error.body_text()))?;
    let (after, poll) = asked.checked().map_err(bad)?;
    let full = |message: String| Refusal(StatusCode::SERVICE_UNAVAILABLE, message);
    let permit = app.polls.try_acquire().map_err(|_| {
        full(format!(
            "{} polls wait already, no more are held",
            app.polls_max
        ))
    })?;
    Ok(Admitted {
        served,
        after,
        poll,
        _permit: permit,
    })
}

async fn answer(
    app: &App,
    stage: &str,
    admitted: Admitted<'_>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(publisher) = admitted.served.publishers.of(stage) else {
        return Err(unknown(stage));
    };
    let ended = async {
        let mut stop = app.stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = admitted.served.over() => {}
        }
    };
    match &admitted.poll {
        Some(poll) => part(app, publisher, poll, ended).await,
        None => Ok(whole(app, publisher, admitted.after, ended).await),
    }
}

/// Returns the plan with this proxy's slots.
async fn part(
    app: &App,
    stage: &Publisher,
    poll: &Poll,
    ended: impl Future<Output = ()>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let held = stage.long_poll(poll, app.clock);
    let mut held =
        held.map_err(|full| Refusal(StatusCode::SERVICE_UNAVAILABLE, full.to_string()))?;
    let told = tokio::select! {
        biased;
        told = held.wait(app.hold) => told,
        () = ended => PollResponse::Nothing,
    };
    held.answered();
    match told {
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

async fn whole(
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
