//! Failed requests to the API server as a closed list, whether the server answered or not. Pure.

use std::error::Error as _;
use std::io::ErrorKind;
use std::time::Duration;

use kube::core::Status;

/// Retry delay after a 429 that names none.
pub const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Causes of a 403 that concern the node, not the caller's permissions.
const NEVER: [&str; 2] = ["NodeCapacity", "UnsupportedPlatform"];

/// Cause of a 429 that a short wait does not resolve.
const BUDGET: &str = "DisruptionBudget";

/// Reasons why a request failed, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ApiFailure {
    #[error("its node can never hold it: {why}")]
    Infeasible { why: String },
    #[error("not allowed to {verb}: {why}")]
    Forbidden { verb: &'static str, why: String },
    #[error("it is gone")]
    NotFound,
    #[error("somebody else changed it at the same time")]
    Conflict,
    #[error("the API server finds it invalid: {why}")]
    Invalid { why: String },
    #[error("the API server is overloaded, and can be called again in {after:?}")]
    Throttled { after: Duration },
    #[error("a PodDisruptionBudget does not let it go now: {why}")]
    Protected { why: String },
    #[error("this planner does not lead any more")]
    NotLeading,
    #[error("the API server did not answer: {why}")]
    Unreachable { why: String, indeterminate: bool },
}

impl ApiFailure {
    /// Classifies the failure of a request to `verb`, such as `patch pods/resize`.
    pub fn of(error: &kube::Error, verb: &'static str) -> ApiFailure {
        match error {
            kube::Error::Api(status) => ApiFailure::by_server(status, verb),
            kube::Error::BuildRequest(_) | kube::Error::TlsRequired => ApiFailure::Invalid {
                why: error.to_string(),
            },
            _ => ApiFailure::Unreachable {
                why: innermost(error),
                indeterminate: !never_sent(error),
            },
        }
    }

    /// Whether the request may have been carried out all the same.
    pub fn may_have_applied(&self) -> bool {
        matches!(
            self,
            ApiFailure::Unreachable {
                indeterminate: true,
                ..
            }
        )
    }

    /// Returns the same failure for a read, which changes nothing.
    #[must_use]
    pub fn of_read(self) -> ApiFailure {
        match self {
            ApiFailure::Unreachable { why, .. } => ApiFailure::Unreachable {
                why,
                indeterminate: false,
            },
            other => other,
        }
    }

    /// Whether the same request would be refused again.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            ApiFailure::Infeasible { .. } | ApiFailure::Invalid { .. }
        )
    }

    fn by_server(status: &Status, verb: &'static str) -> ApiFailure {
        let why = status.message.clone();
        let details = status.details.as_ref();
        let causes = || details.into_iter().flat_map(|details| &details.causes);
        match status.code {
            403 if causes().any(|cause| NEVER.contains(&cause.reason.as_str())) => {
                ApiFailure::Infeasible { why }
            }
            401 | 403 => ApiFailure::Forbidden { verb, why },
            // An API server without the subresource names no object.
            404 if details.is_some_and(|details| !details.name.is_empty()) => ApiFailure::NotFound,
            404 => ApiFailure::Invalid {
                why: format!("it cannot {verb} (Kubernetes before 1.33?): {why}"),
            },
            409 => ApiFailure::Conflict,
            429 if causes().any(|cause| cause.reason == BUDGET) => {
                let each = causes().map(|cause| cause.message.as_str());
                ApiFailure::Protected {
                    why: each.collect::<Vec<_>>().join("; "),
                }
            }
            429 => {
                let seconds = details.map_or(0, |details| details.retry_after_seconds);
                let after = Duration::from_secs(u64::from(seconds));
                let after = Some(after).filter(|after| !after.is_zero());
                ApiFailure::Throttled {
                    after: after.unwrap_or(AGAIN_AFTER),
                }
            }
            400..500 => {
                let causes: Vec<String> = causes()
                    .map(|cause| format!("{}: {}", cause.field, cause.message))
                    .collect();
                ApiFailure::Invalid {
                    why: match causes.is_empty() {
                        true => why,
                        false => causes.join("; "),
                    },
                }
            }
            code => ApiFailure::Unreachable {
                why: format!("status {code}: {why}"),
                indeterminate: true,
            },
        }
    }
}

/// Whether nothing listened, so that the request cannot have been carried out.
fn never_sent(error: &kube::Error) -> bool {
    let mut cause = error.source();
    while let Some(now) = cause {
        if let Some(io) = now.downcast_ref::<std::io::Error>() {
            return io.kind() == ErrorKind::ConnectionRefused;
        }
        cause = now.source();
    }
    false
}

fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks an answer as recorded from a real API server.
    fn check(answer: serde_json::Value, expected: &ApiFailure) {
        let status: Status = serde_json::from_value(answer).unwrap();
        let error = kube::Error::Api(status.boxed());
        assert_eq!(&ApiFailure::of(&error, "patch pods/resize"), expected);
    }

    #[test]
    fn each_answer_is_classified() {
        let why = |text: &str| text.to_owned();
        let text = "pods \"web-0\" is forbidden: node didn't have enough allocatable resources";
        for cause in NEVER {
            check(
                json!({"code": 403, "reason": "Forbidden", "message": text, "details": {"causes": [{"reason": cause}]}}),
                &ApiFailure::Infeasible { why: why(text) },
            );
        }
        let text =
            "pods \"web-0\" is forbidden: User \"weir\" cannot patch resource \"pods/resize\"";
        let forbidden = ApiFailure::Forbidden {
            verb: "patch pods/resize",
            why: why(text),
        };
        check(
            json!({"code": 403, "reason": "Forbidden", "message": text, "details": {"name": "web-0"}}),
            &forbidden,
        );
        assert!(
            forbidden
                .to_string()
                .starts_with("not allowed to patch pods/resize: ")
        );
        check(
            json!({"code": 404, "reason": "NotFound", "message": "pods \"a\" not found", "details": {"name": "a", "kind": "pods"}}),
            &ApiFailure::NotFound,
        );
        let text = "the server could not find the requested resource";
        let failure = ApiFailure::Invalid {
            why: format!("it cannot patch pods/resize (Kubernetes before 1.33?): {text}"),
        };
        check(
            json!({"code": 404, "reason": "NotFound", "message": text, "details": {}}),
            &failure,
        );
        check(
            json!({"code": 409, "reason": "Conflict", "message": "modified"}),
            &ApiFailure::Conflict,
        );
        check(
            json!({"code": 422, "reason": "Invalid", "message": "long", "details": {"causes": [
                {"reason": "FieldValueInvalid", "field": "spec", "message": "class"},
                {"reason": "FieldValueForbidden", "field": "spec.x", "message": "never"}]}}),
            &ApiFailure::Invalid {
                why: why("spec: class; spec.x: never"),
            },
        );
        check(
            json!({"code": 400, "reason": "BadRequest", "message": "what"}),
            &ApiFailure::Invalid { why: why("what") },
        );
        check(
            json!({"code": 429, "reason": "TooManyRequests", "message": "", "details": {"retryAfterSeconds": 3}}),
            &ApiFailure::Throttled {
                after: Duration::from_secs(3),
            },
        );
        check(
            json!({"code": 429, "message": ""}),
            &ApiFailure::Throttled { after: AGAIN_AFTER },
        );
        let text = "The disruption budget web needs 2 healthy pods and has 2 currently";
        check(
            json!({"code": 429, "reason": "TooManyRequests", "message": "Cannot evict pod as it would violate the pod's disruption budget.",
                "details": {"causes": [{"reason": "DisruptionBudget", "message": text}]}}),
            &ApiFailure::Protected { why: why(text) },
        );
        let lost = ApiFailure::Unreachable {
            why: why("status 504: slow"),
            indeterminate: true,
        };
        check(json!({"code": 504, "message": "slow"}), &lost);
        assert!(lost.may_have_applied());
        assert!(!forbidden.may_have_applied());
    }

    #[tokio::test]
    async fn refused_connection_changes_nothing() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let uri = format!("http://{address}").parse().unwrap();
        let mut config = kube::Config::new(uri);
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        let error = client.apiserver_version().await.unwrap_err();
        let refused = ApiFailure::of(&error, "get version");
        assert!(
            matches!(
                refused,
                ApiFailure::Unreachable {
                    indeterminate: false,
                    ..
                }
            ),
            "{refused:?}"
        );
    }
}
