//! Refused requests as problem details (RFC 9457): `application/problem+json`, with each field that is wrong.

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::service::ConfigError;
use crate::solve::InputError;

/// Media type of a problem document.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";
/// Seconds after which a client retries.
const RETRY_AFTER_S: &str = "1";
/// Begin of a problem's type, before the name of its kind.
const TYPE: &str = "urn:problem-type:weir:";

/// Kind of a problem; a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProblemKind {
    /// A parameter of the path or the query is not valid.
    InvalidParameter,
    /// The body is not valid.
    InvalidBody,
    /// The key is missing or wrong.
    NoKey,
    /// The key is limited to less.
    LimitedKey,
    /// No such path.
    UnknownPath,
    /// No such service.
    UnknownService,
    /// No such plan is kept.
    UnknownPlan,
    /// The path takes another method.
    Method,
    /// The body was not received in time.
    SlowBody,
    /// The request conflicts with the present state.
    Conflict,
    /// The state has changed since it was read.
    Stale,
    /// The body is too large.
    LargeBody,
    /// As many as may run are running.
    Busy,
    /// Nothing can be answered now.
    Unavailable,
    /// The planner has a defect.
    Internal,
    /// The planner was built without it.
    NotBuilt,
}

impl ProblemKind {
    /// Returns its status, name and title: one table for answers and documentation.
    const fn entry(self) -> (StatusCode, &'static str, &'static str) {
        use ProblemKind as Kind;
        match self {
            Kind::InvalidParameter => (
                StatusCode::BAD_REQUEST,
                "invalid-parameter",
                "A parameter is not valid",
            ),
            Kind::InvalidBody => (
                StatusCode::BAD_REQUEST,
                "invalid-body",
                "The body is not valid",
            ),
            Kind::NoKey => (
                StatusCode::UNAUTHORIZED,
                "no-key",
                "The key is missing or wrong",
            ),
            Kind::LimitedKey => (
                StatusCode::FORBIDDEN,
                "limited-key",
                "The key is limited to less",
            ),
            Kind::UnknownPath => (StatusCode::NOT_FOUND, "unknown-path", "No such path"),
            Kind::UnknownService => (StatusCode::NOT_FOUND, "unknown-service", "No such service"),
            Kind::UnknownPlan => (
                StatusCode::NOT_FOUND,
                "unknown-plan",
                "No such plan is kept",
            ),
            Kind::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method",
                "The path takes another method",
            ),
            Kind::SlowBody => (
                StatusCode::REQUEST_TIMEOUT,
                "slow-body",
                "The body was not received in time",
            ),
            Kind::Conflict => (
                StatusCode::CONFLICT,
                "conflict",
                "The present state does not allow it",
            ),
            Kind::Stale => (
                StatusCode::PRECONDITION_FAILED,
                "stale",
                "The state has changed since it was read",
            ),
            Kind::LargeBody => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "large-body",
                "The body is too large",
            ),
            Kind::Busy => (
                StatusCode::TOO_MANY_REQUESTS,
                "busy",
                "As many as may run are running",
            ),
            Kind::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "Nothing can be answered now",
            ),
            Kind::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "The planner has a defect",
            ),
            Kind::NotBuilt => (
                StatusCode::NOT_IMPLEMENTED,
                "not-built",
                "The planner was built without it",
            ),
        }
    }

    /// Returns the status of such problems.
    pub(super) const fn status(self) -> StatusCode {
        self.entry().0
    }
}

/// A refused request.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) kind: ProblemKind,
    pub(super) detail: String,
    pub(super) errors: Vec<FieldProblem>,
}

/// A field that is wrong: of the body by `pointer`, of path or query by `parameter`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct FieldProblem {
    /// JSON pointer into the body, as a URI fragment such as `#/variants/0/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// Name of the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// Reason: the field, its value, and a valid one.
    detail: String,
}

/// Problem details (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemDocument<'a> {
    /// Kind of the problem, `urn:problem-type:weir:` and a word of a closed list.
    r#type: String,
    /// Summary of the kind.
    title: &'a str,
    /// Status of the answer.
    status: u16,
    /// Reason, in one sentence.
    detail: &'a str,
    /// Id of the request, as in the header `x-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    /// Fields that are wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldProblem],
}

impl Problem {
    /// Creates a problem that is no single field's.
    pub(super) fn new(kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem {
            kind,
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// Creates the problem of a parameter; the message begins with its name and a colon.
    pub(super) fn parameter(message: impl Into<String>) -> Problem {
        let message = message.into();
        let name = message.split(':').next().unwrap_or_default().to_owned();
        Problem::field(ProblemKind::InvalidParameter, message, None, Some(name))
    }

    /// Creates the problem of the whole body.
    pub(super) fn body(message: impl Into<String>) -> Problem {
        let pointer = Some("#".to_owned());
        Problem::field(ProblemKind::InvalidBody, message.into(), pointer, None)
    }

    /// Creates the problem of a field of the body.
    pub(super) fn body_field(error: &InputError) -> Problem {
        Problem::body_at(&error.field, error.to_string())
    }

    /// Creates the problem of a body whose field at that path has not the right form.
    pub(super) fn body_path(path: &str, error: &serde_json::Error) -> Problem {
        let (path, detail) = match path {
            "." | "?" => ("", error.to_string()),
            path => (path, format!("{path}: {error}")),
        };
        Problem::field(ProblemKind::InvalidBody, detail, Some(pointer(path)), None)
    }

    /// Creates the problem of a body that is no valid service file.
    pub(super) fn config(error: &ConfigError) -> Problem {
        let path = match error {
            ConfigError::TooLarge(_) => "",
            ConfigError::Form { path, .. } | ConfigError::Value { path, .. } => path,
        };
        // Of several keys that contradict each other, the first is named; of a profile, its reference.
        let first = path.split([',', ':']).next().unwrap_or_default();
        Problem::body_at(first, error.to_string())
    }

    /// Creates the problem of the field of the body at that path.
    pub(super) fn body_at(path: &str, detail: String) -> Problem {
        let pointer = Some(pointer(path));
        Problem::field(ProblemKind::InvalidBody, detail, pointer, None)
    }

    fn field(
        kind: ProblemKind,
        detail: String,
        pointer: Option<String>,
        parameter: Option<String>,
    ) -> Problem {
        let error = FieldProblem {
            pointer,
            parameter,
            detail: detail.clone(),
        };
        Problem {
            kind,
            detail,
            errors: vec![error],
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.kind.status()
    }

    fn is_temporary(&self) -> bool {
        matches!(self.kind, ProblemKind::Busy | ProblemKind::Unavailable)
    }

    /// Returns the document as sent.
    pub(super) fn json(&self, request_id: Option<&str>) -> Bytes {
        let (status, name, title) = self.kind.entry();
        let document = ProblemDocument {
            r#type: format!("{TYPE}{name}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            request_id,
            errors: &self.errors,
        };
        // It contains no map and no number that JSON cannot represent.
        serde_json::to_vec(&document).unwrap_or_default().into()
    }
}

/// The rejection names an unknown or repeated field in backticks, and nothing else.
impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        let message = rejection.body_text();
        let name = message.split('`').nth(1).unwrap_or("query").to_owned();
        Problem::field(ProblemKind::InvalidParameter, message, None, Some(name))
    }
}

/// The server adds the request's id ([`super::request_id`]).
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.json(None)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if self.is_temporary() {
            let retry_after = HeaderValue::from_static(RETRY_AFTER_S);
            headers.insert(header::RETRY_AFTER, retry_after);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns the JSON pointer of a path such as `variants[2].accuracy_percent`; of the whole body for what is no path.
fn pointer(path: &str) -> String {
    if path.contains(' ') {
        return "#".to_owned();
    }
    let steps = path
        .split(['.', '['])
        .map(|step| step.trim_end_matches(']'));
    let steps = steps.filter(|step| !step.is_empty());
    let steps = steps.map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")));
    format!("#{}", steps.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_pointers() {
        for (path, expected) in [
            ("rate_rps", "#/rate_rps"),
            (
                "variants[2].accuracy_percent",
                "#/variants/2/accuracy_percent",
            ),
            ("points[0][1]", "#/points/0/1"),
            ("a/b~c", "#/a~1b~0c"),
            ("the document", "#"),
            ("", "#"),
        ] {
            assert_eq!(pointer(path), expected, "{path}");
        }
    }

    #[test]
    fn document_names_parameter_and_request() {
        let problem = Problem::parameter("cycles: 'x' must be a number");
        let json = problem.json(Some("r-1"));
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let detail = "cycles: 'x' must be a number";
        assert_eq!(
            json,
            serde_json::json!({
                "type": "urn:problem-type:weir:invalid-parameter",
                "title": "A parameter is not valid",
                "status": 400,
                "detail": detail,
                "request_id": "r-1",
                "errors": [{"parameter": "cycles", "detail": detail}],
            })
        );
    }
}
