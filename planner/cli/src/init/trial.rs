//! Trial of a request: it is sent once, to see that the server takes it.

use std::time::Duration;

use anyhow::Context;
use reqwest::Url;
use tokio::time::Instant;
use weir_profile::endpoint::{Batching, Endpoint, Protocol, SendError};

use super::path_style::KNOWN;

/// Maximum time of the answer: a server may load its model at the first request.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Sends the request once, and returns the time of the answer.
///
/// # Errors
/// What came back instead of an answer with success.
pub(super) async fn trial(url: &Url, request: &str) -> anyhow::Result<Duration> {
    let body = ("application/json".to_owned(), request.as_bytes().to_vec());
    let protocol = Protocol::of(url);
    let endpoint = Endpoint::new(url.clone(), protocol, Batching::Rows, body, &[1], TIME_MAX)?;
    let sent = Instant::now();
    match endpoint.send(1).await {
        Ok(_) => Ok(sent.elapsed()),
        Err(error @ SendError::Status(404 | 405, _)) => Err(error)
            .with_context(|| format!("{url} takes no such request; known paths are {KNOWN}")),
        Err(error) => Err(error).with_context(|| format!("{url} does not take the request")),
    }
}
