//! The status of a service: the plan that is out, the latest turns, the proxies that poll.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use weir_api::{Plan, Revision};

use super::{App, Refusal};
use crate::config::Mode;
use crate::metrics::Counters;
use crate::sharing::ProxyView;
use crate::status::{CYCLES_MAX, CycleReport};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// Turns wanted; all that are remembered if left out.
    cycles: Option<usize>,
}

#[derive(Debug, Serialize)]
struct View<'a> {
    service: &'a str,
    mode: Mode,
    slo_ms: u128,
    budget_cores: u32,
    revision: Option<Revision>,
    plan: Option<&'a Plan>,
    counters: Counters,
    proxies: BTreeMap<String, ProxyView>,
    latest: Option<&'a CycleReport>,
    cycles: Vec<&'a CycleReport>,
}

pub(super) async fn status(
    State(app): State<Arc<App>>,
    Path(service): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Refusal> {
    app.known(&service)?;
    let Query(asked) =
        asked.map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.body_text()))?;
    let most = asked.cycles.unwrap_or(CYCLES_MAX);
    let cycles = app.status.latest(most.max(1));
    let newest = app.publisher.newest();
    let plan = newest.as_ref().map(|newest| &newest.plan);
    let view = View {
        service: &app.service.name,
        mode: app.service.mode,
        slo_ms: app.service.slo.as_millis(),
        budget_cores: app.service.budget,
        revision: plan.map(|plan| plan.revision),
        plan,
        counters: app.metrics.counters(),
        proxies: app.publisher.sharing().view(app.clock.now()),
        latest: cycles.last().map(AsRef::as_ref),
        cycles: cycles
            .iter()
            .skip(cycles.len().saturating_sub(most))
            .map(AsRef::as_ref)
            .collect(),
    };
    Ok(Json(view).into_response())
}
