//! Endpoints for probes and Prometheus, without a key: health, readiness, metrics.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use super::problem::{Problem, ProblemKind};
use crate::registry::ServiceHandle;
use crate::telemetry::metrics::EndpointState;

/// Maximum number of texts of metrics in memory. While so many slow readers have one each, a further one gets the
/// latest.
pub const METRICS_TEXTS_MAX: usize = 8;

const TEXT: &[Answer] = &[Answer {
    status: 200,
    description: "So it is.",
    content: Content::Text,
}];

pub(super) const HEALTHZ: Operation = Operation {
    method: OperationMethod::Get,
    path: "/healthz",
    id: "health",
    summary: "Liveness of the process",
    description: "All cycles come back in time.",
    access: Access::Open,
    query: None,
    headers: &[],
    body: None,
    answers: TEXT,
    problems: &[(
        503,
        "A cycle has not come back for too long; the detail names the service and the age.",
    )],
};

pub(super) const READYZ: Operation = Operation {
    path: "/readyz",
    id: "readiness",
    summary: "Readiness: a plan is published",
    description: "A plan is published, and polls are answered.",
    problems: &[(
        503,
        "No plan is published yet, or no planner that leads is reached; the detail says which.",
    )],
    ..HEALTHZ
};

pub(super) const METRICS: Operation = Operation {
    path: "/metrics",
    id: "metrics",
    summary: "Metrics in Prometheus' text format",
    description: "Metrics of the planner and of all services.",
    problems: &[(500, "A metric cannot be written, which is a defect.")],
    ..HEALTHZ
};

/// Succeeds while all cycles come back in time.
pub(super) async fn healthz(State(app): State<Arc<App>>) -> Result<&'static str, Problem> {
    let now = app.clock.now().at;
    let services = app.services.all();
    let late = services.iter().find_map(|handle| {
        let late = handle.heartbeat.late(handle.service.cycle, now)?;
        Some((&handle.service.name, late))
    });
    match late {
        None => Ok("ok\n"),
        Some((name, late)) => {
            let message = format!("service '{name}': {late}");
            Err(Problem::new(ProblemKind::Unavailable, message))
        }
    }
}

/// Succeeds once any service has a plan, and while polls are answered. A planner without services is ready: it
/// waits for some.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<&'static str, Problem> {
    let unavailable = |why: String| Problem::new(ProblemKind::Unavailable, why);
    app.route().ready().map_err(unavailable)?;
    // A cycle publishes plans for all stages or for none.
    let services = app.services.all();
    let published = |handle: &Arc<ServiceHandle>| handle.publishers.entry().newest().is_some();
    match services.is_empty() || services.iter().any(published) {
        true => Ok("ready\n"),
        false => Err(unavailable("no plan is published yet".to_owned())),
    }
}

/// Texts of metrics that are being read.
#[derive(Debug, Default)]
pub struct MetricsTexts(Mutex<Vec<Weak<Text>>>);

#[derive(Debug)]
struct Text(Vec<u8>);

/// A shared text, as the owner of the bytes of an answer.
struct SharedText(Arc<Text>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl MetricsTexts {
    /// Returns a new text; the latest one if [`METRICS_TEXTS_MAX`] are being read.
    fn text<E>(&self, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Bytes, E> {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        texts.retain(|text| text.strong_count() > 0);
        let latest = texts.last().and_then(Weak::upgrade);
        let text = match latest.filter(|_| texts.len() >= METRICS_TEXTS_MAX) {
            Some(latest) => latest,
            None => {
                let text = Arc::new(Text(make()?));
                texts.push(Arc::downgrade(&text));
                text
            }
        };
        Ok(Bytes::from_owner(SharedText(text)))
    }
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let make = || {
        let services = app.services.all();
        let each = services.iter().map(|handle| handle.gather(app.clock));
        let route = app.route();
        let state = EndpointState {
            waiting: app.waiting(),
            leads: route.is_local(),
            leader_reached: route.ready().is_ok(),
        };
        app.metrics.text(state, each)
    };
    let text = app.texts.text(make);
    let text = text.map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_memory_are_limited() {
        let texts = MetricsTexts::default();
        let mut made = 0;
        let mut read = || {
            texts.text(|| {
                made += 1;
                Ok::<_, ()>(format!("{made}").into_bytes())
            })
        };
        let mut reading: Vec<_> = (0..METRICS_TEXTS_MAX + 3)
            .map(|_| read().unwrap())
            .collect();
        let latest = format!("{METRICS_TEXTS_MAX}");
        assert_eq!(reading.pop().unwrap(), latest);
        assert_eq!(reading.remove(0), "1");
        let next = format!("{}", METRICS_TEXTS_MAX + 1);
        assert_eq!(read().unwrap(), next, "one of them has been read");
    }
}
