//! curl, over HTTP/1.1 or, with prior knowledge, HTTP/2.
//!
//! Parses curl's output: HTTP version, status, headers and body.

use anyhow::{Context, Result};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tokio::process::Command;

use super::run;

/// A response as reported by curl.
#[derive(Debug, Clone)]
pub struct Heard {
    /// `1.1` or `2`.
    pub version: String,
    /// Status.
    pub status: u16,
    /// Headers of the last response, and its trailers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Heard {
    /// Value of a header, or "" if it is missing.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// Runs curl with these arguments, which include the URL.
///
/// # Errors
///
/// curl is missing or failed; the message contains its error output.
pub async fn curl(arguments: &[&str]) -> Result<Heard> {
    let folder = tempfile::tempdir()?;
    let (headers, body) = (folder.path().join("headers"), folder.path().join("body"));
    let mut command = Command::new("curl");
    // Ignores the user's configuration file. Must be the first argument.
    command.arg("--disable");
    command.args(["--silent", "--show-error", "--noproxy", "*"]);
    command.args(["--write-out", "%{http_version} %{response_code}"]);
    command.arg("--dump-header").arg(&headers);
    command.arg("--output").arg(&body);
    let output = run(command.args(arguments), "curl").await?;
    let (version, status) = output
        .trim()
        .split_once(' ')
        .with_context(|| format!("unexpected output of curl: '{output}'"))?;
    Ok(Heard {
        version: version.to_owned(),
        status: status.parse().context("no status in the output of curl")?,
        headers: last_headers(&std::fs::read_to_string(headers).unwrap_or_default()),
        body: std::fs::read(body).unwrap_or_default(),
    })
}

/// The headers after the last status line; earlier ones belong to interim responses.
fn last_headers(dumped: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in dumped.lines() {
        if line.starts_with("HTTP/") {
            headers.clear();
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value.trim());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interim_response_headers_are_dropped() {
        let dumped =
            "HTTP/1.1 100 Continue\r\nx-a: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-B: 2\r\nx-c: a:b\r\n\r\n";
        let headers = last_headers(dumped);
        assert_eq!(headers.len(), 2);
        assert_eq!(
            (&headers["x-b"], &headers["x-c"]),
            (&"2".parse().unwrap(), &"a:b".parse().unwrap())
        );
    }
}
