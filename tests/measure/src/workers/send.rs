//! Sends requests with individual budgets, in open loop, and records what the responses report about
//! their time at the proxy. It judges nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use reqwest::header::HeaderMap;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_replay::request::Request;

/// One request as its client saw it. Times count from the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Actual send time.
    pub left: Duration,
    /// Time at which its response had been read to its end.
    pub ended: Duration,
    /// Status; 0 without a response.
    pub status: u16,
    /// Time in the proxy's queue, from `server-timing`.
    pub held: Option<Duration>,
    /// `x-slo-remaining-ms` of the response.
    pub remaining_ms: Option<i64>,
}

/// The `x-request-id` of a request.
#[must_use]
pub fn id_of(request: &Request) -> String {
    format!("w-{}", request.id)
}

/// Sends each request at its time; returns the results in the requests' order.
///
/// # Errors
///
/// A request's task panicked.
pub async fn send(url: &str, requests: &[Request]) -> Result<Vec<Seen>> {
    Ok(send_since(url, requests).await?.1)
}

/// The same, also returning the start of the run.
///
/// # Errors
///
/// A request's task panicked.
pub async fn send_since(url: &str, requests: &[Request]) -> Result<(Instant, Vec<Seen>)> {
    let client = reqwest::Client::builder()
        .http1_only()
        .no_proxy()
        .retry(reqwest::retry::never())
        .build()?;
    let url: Arc<str> = url.into();
    let epoch_us = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for request in requests.iter().copied() {
        tokio::time::sleep_until(started + request.sent).await;
        let start_us = epoch_us + request.sent.as_micros();
        let posted = client
            .post(&*url)
            .header("x-request-id", id_of(&request))
            .header("x-slo-ms", request.budget.as_millis().to_string())
            .header("x-slo-start", start_us.to_string())
            .body("{}");
        tasks.spawn(async move {
            let left = started.elapsed();
            let (status, headers) = answer(posted.send().await).await;
            let seen = Seen {
                left,
                ended: started.elapsed(),
                status,
                held: held(&headers),
                remaining_ms: number(&headers, "x-slo-remaining-ms"),
            };
            (request.id, seen)
        });
    }
    let mut all = Vec::with_capacity(requests.len());
    while let Some(seen) = tasks.join_next().await {
        all.push(seen.context("a request's task panicked")?);
    }
    all.sort_unstable_by_key(|(id, _)| *id);
    Ok((started, all.into_iter().map(|(_, seen)| seen).collect()))
}

async fn answer(answer: reqwest::Result<reqwest::Response>) -> (u16, HeaderMap) {
    let Ok(answer) = answer else {
        return (0, HeaderMap::new());
    };
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    match answer.bytes().await {
        Ok(_) => (status, headers),
        Err(_) => (0, headers),
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<i64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// Parses `queue;dur=12.3`, in ms.
fn held(headers: &HeaderMap) -> Option<Duration> {
    let timings = headers.get_all("server-timing").iter();
    let ms: f64 = timings
        .filter_map(|timing| timing.to_str().ok()?.strip_prefix("queue;dur="))
        .find_map(|ms| ms.parse().ok())?;
    Duration::try_from_secs_f64(ms / 1e3).ok()
}
