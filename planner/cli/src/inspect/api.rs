//! Requests to a planner, and the reasons why one failed: RFC 9457 problem documents, or `{"error": …}`.

use serde_json::Value;
use url::Url;
use weir_planner::http::ApiClient;

use super::ClientKeys;

/// Maximum number of characters of an error that are shown.
const SHOWN_MAX: usize = 400;

/// Connection to one planner.
#[derive(Debug)]
pub(crate) struct Api {
    client: ApiClient,
    url: String,
    keys: ClientKeys,
}

/// Failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// No answer, and the reason.
    #[error("no answer: {0}")]
    Unreached(String),
    /// An answer that refuses, with its status and its reason.
    #[error("{0}: {1}")]
    Refused(u16, String),
}

impl Failure {
    /// Returns the status of the answer; 0 without one.
    pub(crate) const fn status(&self) -> u16 {
        match self {
            Failure::Unreached(_) => 0,
            Failure::Refused(status, _) => *status,
        }
    }
}

impl Api {
    pub(super) fn new(client: ApiClient, url: &Url, keys: ClientKeys) -> Api {
        Api {
            client,
            url: url.as_str().trim_end_matches('/').to_owned(),
            keys,
        }
    }

    /// Returns the planner's address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address of a path, for errors.
    pub(crate) fn about(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Returns the text at a path that needs no key.
    ///
    /// # Errors
    /// No answer, or another status than 200.
    pub(crate) async fn text(&self, path: &str) -> Result<String, Failure> {
        self.get(path, None).await
    }

    /// Returns the status of a service, with the latest cycles.
    ///
    /// # Errors
    /// No answer, or another status than 200.
    pub(crate) async fn status(&self, service: &str, cycles: usize) -> Result<String, Failure> {
        let path = format!("/v1/services/{service}?cycles={cycles}");
        self.get(&path, self.keys.of(service)).await
    }

    async fn get(&self, path: &str, key: Option<&str>) -> Result<String, Failure> {
        get(&self.client, &self.about(path), key).await
    }
}

/// Returns the text at an address.
///
/// # Errors
/// No answer, or another status than 200.
pub(crate) async fn get(
    client: &ApiClient,
    url: &str,
    key: Option<&str>,
) -> Result<String, Failure> {
    let answer = client.get(url, key).await.map_err(Failure::Unreached)?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(Failure::Refused(status, reason(&answer.body))),
    }
}

/// Returns the reason that an answer gives.
fn reason(body: &str) -> String {
    let document: Option<Value> = serde_json::from_str(body).ok();
    let given = document.as_ref().and_then(|document| {
        let mut keys = ["detail", "error", "title"].iter();
        keys.find_map(|key| document.get(key)?.as_str())
    });
    let text = given.unwrap_or(body).trim();
    match text.is_empty() {
        true => "no reason is given".to_owned(),
        false => text.chars().take(SHOWN_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_read_from_every_form_of_error() {
        let long = "x".repeat(SHOWN_MAX + 1);
        for (body, expected) in [
            (r#"{"error": "no such path"}"#, "no such path"),
            (
                r#"{"type": "about:blank", "title": "Not Found", "detail": "service: 'a'"}"#,
                "service: 'a'",
            ),
            (r#"{"title": "Not Found", "status": 404}"#, "Not Found"),
            ("upstream connect error\n", "upstream connect error"),
            ("{}", "{}"),
            (" \n", "no reason is given"),
            (long.as_str(), &long[1..]),
        ] {
            assert_eq!(reason(body), expected, "{body}");
        }
    }
}
