//! The servers' own queues: throughput from them while a closed loop keeps each server busy, and their end.

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
    let from = Instant::now() + BEFORE;
    let until = from + span;
    let mut clients = JoinSet::new();
    for server in servers {
        for _ in 0..IN_FLIGHT {
            let (client, url, body) = (client.clone(), server.url(), body.clone());
            clients.spawn(async move {
                let mut answered = 0_u64;
                while Instant::now() < until {
                    let request = client.post(&url).headers(as_clients_send());
                    let request = request.body(body.clone()).send().await?;
                    request.error_for_status()?.bytes().await?;
                    answered += u64::from((from..until).contains(&Instant::now()));
                }
                anyhow::Ok(answered)
            });
        }
    }
    let mut answered = 0;
    while let Some(done) = clients.join_next().await {
        answered += done??;
    }
    Ok(answered as f64 / span.as_secs_f64())
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
pub(crate) async fn until_empty(servers: &[Server], body: &Bytes) -> Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    for server in servers {
        for _ in 0..LAST_REQUESTS {
            let request = client.post(server.url()).body(body.clone());
            let request = request.header("content-type", "application/json");
            request.send().await?.error_for_status()?.bytes().await?;
        }
    }
    Ok(())
}
