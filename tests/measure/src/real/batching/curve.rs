//! Throughput of a server by requests in flight, in a closed loop, and its capacity within an objective by that.

use std::time::Duration;

use anyhow::Result;
use axum::body::Bytes;
use serde::Serialize;

use super::super::own_queue::{closed_loop, until_empty};
use super::server::Server;

/// Requests in flight at each server: around multiples of its batch, and between them.
const IN_FLIGHT: [usize; 12] = [1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32];
/// Time before answers count.
const BEFORE: Duration = Duration::from_secs(1);

/// One number of requests in flight.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Requests in flight at the server.
    pub in_flight: usize,
    /// Answers per second.
    pub rps: f64,
    /// Median of the latency, ms.
    pub p50_ms: f64,
    /// 95th percentile of the latency, ms.
    pub p95_ms: f64,
}

/// Throughput of one server.
#[derive(Debug, Clone, Serialize)]
pub struct Curve(pub Vec<Point>);

impl Curve {
    /// Greatest throughput whose 95th percentile meets the objective, requests/s.
    pub(super) fn capacity_rps(&self, slo: Duration) -> f64 {
        let slo_ms = slo.as_secs_f64() * 1e3;
        let within = self.0.iter().filter(|point| point.p95_ms <= slo_ms);
        within.map(|point| point.rps).fold(0.0, f64::max)
    }

    /// Median time of a request that is alone, ms.
    pub(super) fn alone_ms(&self) -> f64 {
        self.0.first().map_or(0.0, |point| point.p50_ms)
    }
}

/// Measures all servers at the same time, each point for `span`.
pub(super) async fn measured(servers: &[Server], span: Duration) -> Result<Vec<Curve>> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut curves = vec![Curve(Vec::new()); servers.len()];
    for in_flight in IN_FLIGHT {
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let mut loops = Vec::new();
        for (server, url) in servers.iter().zip(urls.clone()) {
            let (client, body) = (client.clone(), Bytes::from(server.kind.body()));
            let one =
                async move { closed_loop(&client, &url, &body, in_flight, (BEFORE, span)).await };
            loops.push(tokio::spawn(one));
        }
        for (one, curve) in loops.into_iter().zip(&mut curves) {
            curve.0.push(point(in_flight, one.await??, span));
        }
        let body = servers.first().map_or("", |server| server.kind.body());
        until_empty(urls, &body.into()).await?;
    }
    Ok(curves)
}

fn point(in_flight: usize, mut latencies: Vec<Duration>, span: Duration) -> Point {
    latencies.sort_unstable();
    let quantile_ms = |part: f64| {
        let index = (latencies.len() as f64 * part) as usize;
        let latency = latencies.get(index).copied().unwrap_or(Duration::MAX);
        latency.as_secs_f64() * 1e3
    };
    Point {
        in_flight,
        rps: latencies.len() as f64 / span.as_secs_f64(),
        p50_ms: quantile_ms(0.5),
        p95_ms: quantile_ms(0.95),
    }
}
