//! Parts of a request that handlers take: the service or stage of the path, and the query. What is not valid is a
//! problem document, never a bare text.

use std::sync::Arc;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::App;
use super::problem::{Problem, ProblemKind};
use crate::registry::ServiceHandle;

/// Name of the service, or of the stage, in the path.
#[derive(Debug, Deserialize)]
pub(super) struct ServiceName {
    pub(super) service: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ServiceName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ServiceName, Problem> {
        let path = Path::<ServiceName>::from_request_parts(parts, state).await;
        path.map(|Path(name)| name)
            .map_err(|rejection| path_problem(&rejection))
    }
}

/// Returns the problem of a path whose parameter is not UTF-8.
pub(super) fn path_problem(rejection: &PathRejection) -> Problem {
    let name = match rejection {
        PathRejection::FailedToDeserializePathParams(failed) => match failed.kind() {
            ErrorKind::InvalidUtf8InPathParam { key } => key,
            _ => "path",
        },
        _ => "path",
    };
    Problem::parameter(format!("{name}: must be UTF-8, percent-encoded"))
}

/// Service of the path.
pub(super) struct Planned(pub(super) Arc<ServiceHandle>);

impl FromRequestParts<Arc<App>> for Planned {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Planned, Problem> {
        let ServiceName { service } = ServiceName::from_request_parts(parts, app).await?;
        app.service(&service).map(Planned)
    }
}

/// Query with these fields.
pub(super) struct Fields<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Fields<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Fields<T>, Problem> {
        let query = Query::<T>::try_from_uri(&parts.uri)?;
        Ok(Fields(query.0))
    }
}

/// Returns the problem of a name that no service, or no stage, has.
pub(super) fn unknown(name: &str) -> Problem {
    let shown: String = name.chars().take(weir_api::plan::NAME_MAX).collect();
    let message = format!("service: '{shown}' is not planned for here");
    let mut problem = Problem::parameter(message);
    problem.kind = ProblemKind::UnknownService;
    problem
}
