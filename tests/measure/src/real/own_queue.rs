//! The servers' own queues: closed loops that keep each server busy, the throughput then, and the queues' end.

use std::time::Duration;

use anyhow::Result;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::servers::Server;

/// Requests in flight at each server.
const IN_FLIGHT: usize = 4;
/// Time before answers count, until the queues are full.
const BEFORE: Duration = Duration::from_secs(2);

/// Returns answers per second of all servers together, all busy for `span`.
pub(crate) async fn throughput_rps(
    servers: &[Server],
    body: &Bytes,
    span: Duration,
) -> Result<f64> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut loops = JoinSet::new();
    for server in servers {
        let (client, url, body) = (client.clone(), server.url(), body.clone());
        let one = async move { closed_loop(&client, &url, &body, IN_FLIGHT, (BEFORE, span)).await };
        loops.spawn(one);
    }
    let mut answered = 0;
    while let Some(done) = loops.join_next().await {
        answered += done??.len();
    }
    Ok(answered as f64 / span.as_secs_f64())
}

/// Keeps that many requests in flight at a server. Returns the latencies of those that are answered in `span`, which begins
/// after `before`.
pub(crate) async fn closed_loop(
    client: &reqwest::Client,
    url: &str,
    body: &Bytes,
    in_flight: usize,
    (before, span): (Duration, Duration),
) -> Result<Vec<Duration>> {
    let from = Instant::now() + before;
    let until = from + span;
    let mut clients = JoinSet::new();
    for _ in 0..in_flight {
        let (client, url, body) = (client.clone(), url.to_owned(), body.clone());
        clients.spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < until {
                let sent = Instant::now();
                let request = client.post(&url).headers(as_clients_send());
                let request = request.body(body.clone()).send().await?;
                request.error_for_status()?.bytes().await?;
                if (from..until).contains(&Instant::now()) {
                    latencies.push(sent.elapsed());
                }
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = clients.join_next().await {
        latencies.extend(done??);
    }
    Ok(latencies)
}

/// Headers as the load's clients send them: the servers spend CPU time on each.
fn as_clients_send() -> HeaderMap {
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", "0-12345678"),
        ("x-slo-ms", "400"),
        ("x-slo-start", "1764240000123456"),
    ];
    let one = |(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    headers.into_iter().map(one).collect()
}

/// Requests one after the other that show that a server's queue is empty: it answers in the order of arrival.
const LAST_REQUESTS: usize = 3;

/// Waits until the servers have answered all that earlier clients left with them, whether those still wait or not.
pub(crate) async fn until_empty(
    urls: impl IntoIterator<Item = String>,
    body: &Bytes,
) -> Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    for url in urls {
        for _ in 0..LAST_REQUESTS {
            let request = client.post(&url).body(body.clone());
            let request = request.header("content-type", "application/json");
            request.send().await?.error_for_status()?.bytes().await?;
        }
    }
    Ok(())
}
