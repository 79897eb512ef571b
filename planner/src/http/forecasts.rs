//! `GET /v1/services/{service}/forecast`: the forecast of the latest cycle.

use axum::Json;
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use weir_api::Rps;

use super::extract::Planned;
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use crate::telemetry::status::ForecastReport;

pub(super) const FORECAST: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}/forecast",
    id: "forecast",
    summary: "Forecast of the demand",
    description: "The demand of the latest cycle, with the estimates that it is made of and the peak ahead.",
    access: Access::Service,
    query: None,
    headers: &[],
    body: None,
    answers: &[Answer {
        status: 200,
        description: "The forecast.",
        content: Content::Json(SchemaGenerator::subschema_for::<ForecastView>),
    }],
    problems: &[],
};

/// Forecast of the demand.
#[derive(Debug, Serialize, JsonSchema)]
struct ForecastView {
    /// Start of the cycle, Unix time in ms; `null` before the first.
    at_ms: Option<u64>,
    /// Arrivals since the cycle before; `null` if unknown.
    measured_rps: Option<Rps>,
    /// Forecast; `null` while nothing is known.
    forecast: Option<ForecastReport>,
}

pub(super) async fn forecast(Planned(handle): Planned) -> Response {
    let latest = handle.status.latest(1).pop();
    let view = ForecastView {
        at_ms: latest.as_ref().map(|latest| latest.at_ms),
        measured_rps: latest.as_ref().and_then(|latest| latest.measured_rps),
        forecast: latest.and_then(|latest| latest.forecast),
    };
    Json(view).into_response()
}
