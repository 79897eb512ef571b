//! The long poll: a proxy asks for a plan of its stage newer than its own, and the request is held until
//! there is one.
//!
//! 200 and the plan, with this proxy's slots · 204 nothing newer within the hold time, or the planner is
//! shutting down · 400 invalid query · 401 wrong or no key · 404 unknown service · 409 fewer slots than
//! proxies and none for this one, or no such variant as the proxy gates · 503 with retry-after if too many
//! polls wait, too many proxies share, or no planner that leads is reached.
//!
//! If another planner leads, it also allocates the slots, and the poll is forwarded to it ([`forward`]). A planner
//! that does not lead never answers by a plan of its own: the leader's proxies may have the same slots.
//!
//! A poll that does not identify its proxy (`proxy`) gets the whole plan and takes no part in the slot
//! allocation.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use schemars::SchemaGenerator;
use tokio::sync::SemaphorePermit;
use weir_api::{Plan, Revision};

use super::extract::{Fields, ServiceName, unknown};
use super::leadership::{Route, Term};
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use super::poll_query::PollQuery;
use super::problem::{Problem, ProblemKind};
use super::{App, forward, openapi};
use crate::distribution::slot_allocation::Poll;
use crate::distribution::{PollResponse, Published, Publisher};
use crate::registry::ServiceHandle;
use crate::telemetry::metrics::PollAnswer;

pub(super) const POLL: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/plans/{service}",
    id: "plan",
    summary: "Wait for a plan newer than `after`",
    description: "A long poll: held for 20 s, or less while proxies share slots. A poll with `proxy` shows that this \
                  proxy is alive, and gets its slots.",
    access: Access::Stage,
    query: Some(openapi::query::<PollQuery>),
    headers: &[],
    body: None,
    answers: &[
        Answer {
            status: 200,
            description: "The plan, with the proxy's slots.",
            content: Content::Json(SchemaGenerator::subschema_for::<Plan>),
        },
        Answer {
            status: 204,
            description: "No newer plan within the hold time.",
            content: Content::None,
        },
    ],
    problems: &[
        (403, "The key may only read, and the poll names its proxy."),
        (
            409,
            "Fewer slots than proxies, and none for this one; or unknown variant.",
        ),
        (
            503,
            "Too many polls wait, or no planner that leads is reached. The proxy keeps its plan.",
        ),
    ],
};

/// A poll without a plan, with the label of its answer.
struct PollRefusal(PollAnswer, Problem);

impl From<Problem> for PollRefusal {
    fn from(problem: Problem) -> PollRefusal {
        let answer = match problem.kind {
            ProblemKind::Conflict => PollAnswer::Refused,
            ProblemKind::Unavailable => PollAnswer::Full,
            _ => PollAnswer::Bad,
        };
        PollRefusal(answer, problem)
    }
}

impl PollRefusal {
    fn no_leader(why: String) -> PollRefusal {
        let problem = Problem::new(ProblemKind::Unavailable, why);
        PollRefusal(PollAnswer::NoLeader, problem)
    }
}

impl IntoResponse for PollRefusal {
    fn into_response(self) -> Response {
        let PollRefusal(answer, problem) = self;
        let mut response = problem.into_response();
        let headers = response.headers_mut();
        if answer == PollAnswer::NoLeader {
            // The next connection may reach the leader.
            let close = header::HeaderValue::from_static("close");
            headers.insert(header::CONNECTION, close);
        }
        response
    }
}

pub(super) async fn poll(
    State(app): State<Arc<App>>,
    ServiceName { service: stage }: ServiceName,
    query: Result<Fields<PollQuery>, Problem>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut handle = None;
    let result = match accept(&app, &stage, query, &mut handle) {
        Ok(accepted) => match app.route() {
            Route::Local(term) => answer(&app, &stage, accepted, term).await,
            Route::Forward { address, .. } => {
                match forward::to_leader(&app, &address, &uri, &headers).await {
                    Ok(forwarded) => return forwarded,
                    Err(why) => Err(PollRefusal::no_leader(why)),
                }
            }
            Route::Refuse(why) => Err(PollRefusal::no_leader(why)),
        },
        Err(refusal) => Err(refusal.into()),
    };
    let (answer, response) = match result {
        Ok(Some(plan)) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (PollAnswer::Plan, (json, plan).into_response())
        }
        Ok(None) => (PollAnswer::None, StatusCode::NO_CONTENT.into_response()),
        Err(refusal) => (refusal.0, refusal.into_response()),
    };
    // The metrics of a service that was deleted meanwhile are gone.
    let service = handle.as_ref().map(|handle| handle.service.name.as_str());
    let service = service.filter(|name| app.services.get(name).is_some());
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

fn accept<'a>(
    app: &'a App,
    stage: &str,
    query: Result<Fields<PollQuery>, Problem>,
    stage_service: &mut Option<Arc<ServiceHandle>>,
) -> Result<AcceptedPoll<'a>, Problem> {
    let handle = app.stage(stage)?;
    *stage_service = Some(Arc::clone(&handle));
    let Fields(query) = query?;
    let (after, poll) = query.validate().map_err(Problem::parameter)?;
    let permit = app.polls.try_acquire().map_err(|_| {
        let message = format!("{} polls wait already, no more are held", app.polls_max);
        Problem::new(ProblemKind::Unavailable, message)
    })?;
    Ok(AcceptedPoll {
        handle,
        after,
        poll,
        _permit: permit,
    })
}

/// Answers in `term`: not with slots that were allocated in an earlier one, and not once it has ended.
async fn answer(
    app: &App,
    stage: &str,
    accepted: AcceptedPoll<'_>,
    term: Term,
) -> Result<Option<Vec<u8>>, PollRefusal> {
    let publishers = &accepted.handle.publishers;
    let Some(publisher) = publishers.of(stage) else {
        return Err(unknown(stage).into());
    };
    if publishers.began_at() < term.since {
        // A new allocation is about to begin.
        return Ok(None);
    }
    let ended = async {
        let mut stop = app.stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = accepted.handle.wait_replaced() => {}
            () = app.leadership.wait_changed() => {}
        }
    };
    let plan = match &accepted.poll {
        Some(poll) => proxy_plan(app, publisher, poll, ended).await?,
        None => whole_plan(app, publisher, accepted.after, ended).await,
    };
    match app.leadership.is_in(term, app.clock.now().at) {
        true => Ok(plan),
        false => Err(PollRefusal::no_leader(
            "this planner no longer leads".to_owned(),
        )),
    }
}

/// Returns the plan with this proxy's slots.
async fn proxy_plan(
    app: &App,
    stage: &Publisher,
    poll: &Poll,
    ended: impl Future<Output = ()>,
) -> Result<Option<Vec<u8>>, Problem> {
    let held = stage.long_poll(poll, app.clock);
    let mut held = held.map_err(|full| Problem::new(ProblemKind::Unavailable, full.to_string()))?;
    let response = tokio::select! {
        biased;
        response = held.wait(app.hold) => response,
        () = ended => PollResponse::Nothing,
    };
    held.answered();
    match response {
        PollResponse::Nothing => Ok(None),
        PollResponse::Refused(why) => {
            let mut problem = Problem::parameter(format!("proxy: '{}': {why}", poll.proxy));
            problem.kind = ProblemKind::Conflict;
            Err(problem)
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
