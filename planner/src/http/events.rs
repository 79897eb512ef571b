//! `GET /v1/services/{service}/events`: cycles and plans of a service as server-sent events. The id of each event is a
//! cursor: a stream that begins with `last-event-id` continues behind it, as far as cycles and plans are kept.
//!
//! A pipeline's stages have plans and revisions of their own; the cursor has a revision for each, in stage order.
//!
//! A stream ends when the planner shuts down and when the service is changed or removed; its client then comes back
//! with the latest id.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::future::select_all;
use futures_util::stream;
use schemars::SchemaGenerator;
use tokio::sync::{OwnedSemaphorePermit, watch};
use weir_api::Revision;

use super::App;
use super::extract::Planned;
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use super::poll_query::display;
use super::problem::{Problem, ProblemKind};
use crate::distribution::{Published, Publisher};
use crate::registry::ServiceHandle;
use crate::service::STAGES_MAX;
use crate::telemetry::status::CycleReport;

/// Maximum number of streams at once.
pub const EVENTS_MAX: usize = 64;
/// Interval of comments on an idle stream, by which either side notices that the other is no longer connected.
pub const EVENTS_KEEP_ALIVE: Duration = Duration::from_secs(15);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) const EVENTS: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}/events",
    id: "events",
    summary: "Cycles and plans as server-sent events",
    description: "Events `cycle`, with the report of a cycle, and `plan`, with the plan of one stage; `service` in it is the \
                  stage's name. Without `last-event-id` the stream begins with the latest of each. It ends at shutdown, and when the \
                  service is changed.",
    access: Access::Service,
    query: None,
    headers: &[(
        "last-event-id",
        "Id of the latest event that the client has; the stream continues behind it.",
    )],
    body: None,
    answers: &[Answer {
        status: 200,
        description: "The events; the data of `cycle` is a CycleReport, that of `plan` a Plan.",
        content: Content::EventStream(SchemaGenerator::subschema_for::<CycleReport>),
    }],
    problems: &[(429, "Too many streams are open; retry later.")],
};

/// Position in the cycles and plans of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    at_ms: u64,
    /// Latest revision of each stage.
    revisions: Vec<Revision>,
}

impl Cursor {
    fn parse(id: &str) -> Option<Cursor> {
        let (at_ms, revisions) = id.split_once('-')?;
        let revisions = revisions.splitn(STAGES_MAX + 1, '.');
        let revisions: Option<Vec<Revision>> = revisions
            .map(|revision| revision.parse().ok().map(Revision))
            .collect();
        Some(Cursor {
            at_ms: at_ms.parse().ok()?,
            revisions: revisions.filter(|all| all.len() <= STAGES_MAX)?,
        })
    }

    fn id(&self) -> String {
        let revisions: Vec<String> = self.revisions.iter().map(Revision::to_string).collect();
        format!("{}-{}", self.at_ms, revisions.join("."))
    }
}

/// An event that has not been sent.
#[derive(Debug)]
enum Pending {
    Cycle(Arc<CycleReport>),
    /// Plan of the stage with that index.
    Plan(usize, Arc<Published>),
}

/// One stream.
struct Feed {
    handle: Arc<ServiceHandle>,
    cycles: watch::Receiver<u64>,
    /// Newest plan of each stage.
    plans: Vec<watch::Receiver<Option<Arc<Published>>>>,
    stop: watch::Receiver<bool>,
    /// Number of the latest cycle that has been taken.
    number: u64,
    /// Revision of the latest plan of each stage that has been taken.
    taken: Vec<Revision>,
    /// Position of the latest event that has been sent.
    cursor: Cursor,
    pending: VecDeque<Pending>,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    Planned(handle): Planned,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let cursor = cursor(&headers)?;
    let permit = Arc::clone(&app.events).try_acquire_owned().map_err(|_| {
        let message = format!("{EVENTS_MAX} event streams are open already, no more at once");
        Problem::new(ProblemKind::Busy, message)
    })?;
    let feed = Feed::new(handle, app.stop.clone(), cursor, permit);
    let events = stream::unfold(feed, |mut feed| async {
        let event = feed.next().await?;
        Some((Ok::<_, Infallible>(event), feed))
    });
    let keep_alive = KeepAlive::new().interval(EVENTS_KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

fn cursor(headers: &HeaderMap) -> Result<Option<Cursor>, Problem> {
    let Some(id) = headers.get(&LAST_EVENT_ID) else {
        return Ok(None);
    };
    let id = String::from_utf8_lossy(id.as_bytes());
    let cursor = Cursor::parse(&id).ok_or_else(|| {
        let right =
            "must be the id of an event of this stream, such as 1767225600000-1767225599000";
        Problem::parameter(format!("last-event-id: '{}' {right}", display(&id)))
    })?;
    Ok(Some(cursor))
}

impl Feed {
    fn new(
        handle: Arc<ServiceHandle>,
        stop: watch::Receiver<bool>,
        cursor: Option<Cursor>,
        permit: OwnedSemaphorePermit,
    ) -> Feed {
        let cycles = handle.status.subscribe();
        let plans = handle.publishers.all().map(Publisher::subscribe);
        let plans: Vec<watch::Receiver<Option<Arc<Published>>>> = plans.collect();
        let (number, mut cursor) = match cursor {
            Some(cursor) => (handle.status.number_at(cursor.at_ms), cursor),
            // The latest of each comes first.
            None => {
                let latest = handle.status.latest(1).pop();
                let before = |stage: &watch::Receiver<Option<Arc<Published>>>| {
                    let newest = stage.borrow().as_ref().map(|newest| newest.plan.revision.0);
                    Revision(newest.unwrap_or_default().saturating_sub(1))
                };
                let cursor = Cursor {
                    at_ms: latest.map_or(0, |latest| latest.at_ms.saturating_sub(1)),
                    revisions: plans.iter().map(before).collect(),
                };
                (cycles.borrow().saturating_sub(1), cursor)
            }
        };
        cursor.revisions.resize(plans.len(), Revision(0));
        Feed {
            handle,
            cycles,
            plans,
            stop,
            number,
            taken: cursor.revisions.clone(),
            cursor,
            pending: VecDeque::new(),
            _permit: permit,
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if *self.stop.borrow() {
                return None;
            }
            if let Some(pending) = self.pending.pop_front() {
                return self.event(&pending);
            }
            self.take();
            if !self.pending.is_empty() {
                continue;
            }
            let published = self.plans.iter_mut().map(|stage| Box::pin(stage.changed()));
            let published = async { select_all(published).await.0 };
            tokio::select! {
                changed = self.cycles.changed() => changed.ok()?,
                changed = published => changed.ok()?,
                () = self.handle.wait_replaced() => return None,
                _ = self.stop.wait_for(|stop| *stop) => return None,
            }
        }
    }

    /// Takes the plans and cycles that are new; at most as many as are kept.
    fn take(&mut self) {
        self.cycles.mark_unchanged();
        let mut plans = Vec::new();
        let stages = self.handle.publishers.all().zip(&mut self.plans);
        for ((index, (stage, newest)), taken) in stages.enumerate().zip(&mut self.taken) {
            newest.mark_unchanged();
            for published in stage.kept() {
                if published.plan.revision > *taken {
                    *taken = published.plan.revision;
                    plans.push((index, published));
                }
            }
        }
        plans.sort_by_key(|(index, published)| (published.plan.revision, *index));
        let plans = plans.into_iter();
        self.pending
            .extend(plans.map(|(index, published)| Pending::Plan(index, published)));
        let (reports, number) = self.handle.status.after(self.number);
        self.number = number;
        self.pending.extend(reports.into_iter().map(Pending::Cycle));
    }

    fn event(&mut self, pending: &Pending) -> Option<Event> {
        let (name, data) = match pending {
            Pending::Cycle(report) => {
                self.cursor.at_ms = report.at_ms;
                ("cycle", serde_json::to_string(&**report).ok()?)
            }
            Pending::Plan(index, published) => {
                if let Some(revision) = self.cursor.revisions.get_mut(*index) {
                    *revision = published.plan.revision;
                }
                ("plan", String::from_utf8(published.json.to_vec()).ok()?)
            }
        };
        Some(Event::default().event(name).id(self.cursor.id()).data(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_is_read_as_written() {
        for revisions in [vec![7], vec![7, 0, 9], vec![1; STAGES_MAX]] {
            let cursor = Cursor {
                at_ms: 1_767_225_600_000,
                revisions: revisions.into_iter().map(Revision).collect(),
            };
            assert_eq!(Cursor::parse(&cursor.id()), Some(cursor));
        }
        let many = format!("7-{}", ["1"; STAGES_MAX + 1].join("."));
        assert_eq!(Cursor::parse(&many), None);
        for id in [
            "",
            "7",
            "7-",
            "-7",
            "7-x",
            "7-8-9",
            "x-7",
            "1e3-7",
            "99999999999999999999-1",
            "7-8.",
            "7-8.x",
        ] {
            assert_eq!(Cursor::parse(id), None, "{id}");
        }
    }
}
