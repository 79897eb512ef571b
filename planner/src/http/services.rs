//! Status of a service: the published plans, the latest cycles, and the polling proxies. For a pipeline,
//! the top-level plan and proxies are those of the first stage.
//!
//! 200 and the status · 400 invalid query · 401 wrong or no key · 404 unknown service.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use weir_api::{Plan, Revision};

use super::leadership::LeaderView;
use super::poll_query::number;
use super::{App, Refusal};
use crate::distribution::Publisher;
use crate::distribution::slot_allocation::ProxyView;
use crate::registry::ServiceHandle;
use crate::service::Mode;
use crate::spec::RawCpu;
use crate::telemetry::metrics::Counters;
use crate::telemetry::status::{CYCLES_MAX, CycleReport};

/// Default number of cycles shown. One cycle of three variants takes some 1.3 KB.
pub const CYCLES_SHOWN: usize = 10;
const _: () = assert!(CYCLES_SHOWN <= CYCLES_MAX);

/// Query of the status.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusQuery {
    /// Number of the latest cycles to show; [`CYCLES_SHOWN`] if left out, at most [`CYCLES_MAX`].
    cycles: Option<String>,
}

impl StatusQuery {
    fn validate(self) -> Result<usize, String> {
        if self.cycles.is_none() {
            return Ok(CYCLES_SHOWN);
        }
        let cycles = number("cycles", self.cycles, CYCLES_MAX as u64)?;
        Ok(usize::try_from(cycles).unwrap_or(CYCLES_MAX))
    }
}

#[derive(Debug, Serialize)]
struct View<'a> {
    service: &'a str,
    mode: Mode,
    slo_ms: u128,
    budget_cores: RawCpu,
    revision: Option<Revision>,
    plan: Option<&'a Plan>,
    counters: Counters,
    leader: LeaderView,
    proxies: BTreeMap<String, ProxyView>,
    /// Empty for a service without stages.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stages: BTreeMap<&'a str, StageView>,
    latest: Option<&'a CycleReport>,
    cycles: Vec<&'a CycleReport>,
}

#[derive(Debug, Serialize)]
struct StageView {
    plan: Option<Plan>,
    proxies: BTreeMap<String, ProxyView>,
}

pub(super) async fn status(
    State(app): State<Arc<App>>,
    Path(service): Path<String>,
    query: Result<Query<StatusQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let handle = app.service(&service)?;
    let service = &handle.service;
    let bad = |message: String| Refusal(StatusCode::BAD_REQUEST, message);
    let Query(query) = query.map_err(|error| bad(error.body_text()))?;
    let most = query.validate().map_err(bad)?;
    let cycles = handle.status.latest(most.max(1));
    let entry = handle.publishers.entry();
    let newest = entry.newest();
    let plan = newest.as_ref().map(|newest| &newest.plan);
    // Each lock is released before the next is taken.
    let proxies = entry.allocation().view(app.clock.now());
    let view = View {
        service: &service.name,
        mode: service.mode,
        slo_ms: service.slo.as_millis(),
        budget_cores: RawCpu(service.budget_cores()),
        revision: plan.map(|plan| plan.revision),
        plan,
        counters: handle.metrics.counters(),
        leader: app.route().view(),
        proxies,
        stages: stages(&app, &handle),
        latest: cycles.last().map(AsRef::as_ref),
        cycles: cycles
            .iter()
            .skip(cycles.len().saturating_sub(most))
            .map(AsRef::as_ref)
            .collect(),
    };
    Ok(Json(view).into_response())
}

fn stages<'a>(app: &App, handle: &'a ServiceHandle) -> BTreeMap<&'a str, StageView> {
    let view = |stage: &Publisher| StageView {
        plan: stage.newest().map(|newest| newest.plan.clone()),
        proxies: stage.allocation().view(app.clock.now()),
    };
    let of_pipeline = handle
        .publishers
        .all()
        .filter(|_| handle.service.stages.len() > 1);
    of_pipeline
        .map(|stage| (stage.stage(), view(stage)))
        .collect()
}
