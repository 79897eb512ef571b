//! Many requests queued at once over HTTP/2 and then released: checks that each is answered once,
//! and measures the memory that remains allocated.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};
use weir_api::metrics::Metric;

use super::gauges::{Bytes, memory};
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::wait;

/// Maximum growth of Envoy's allocated memory from start to end, percent.
pub const LEFT_MAX_PERCENT: f64 = 10.0;
/// Requests on one connection; the shipped limit is 1,024.
const STREAMS: usize = 500;
/// Slots through which the queued requests leave.
const SLOTS: u32 = 64;
/// Slowdown factor of the first executions, which keep the slots taken.
const SLOW: f64 = 1e6;
/// Service time predicted by the plan. The slots stay taken much longer: a worker must not lose its
/// lease, however busy it is.
const PREDICTED_MS: f64 = 1.0;
/// The requests' budget; the shipped limits would reduce it.
const BUDGET_MS: u64 = 300_000;
/// Time limit of any wait; it bounds a failing run.
const PATIENCE: Duration = Duration::from_secs(120);

/// The results of one round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crowd {
    /// Requests queued at once.
    pub held: usize,
    /// Envoy's workers.
    pub workers: u32,
    /// Connections used.
    pub connections: usize,
    /// Answered 200.
    pub answered: usize,
    /// Executed by the server, each request counted once.
    pub executed: usize,
    /// Number of executions.
    pub executions: usize,
    /// Time from the release to the last response, s.
    pub drained_s: f64,
    /// Memory at the start: Envoy without a connection.
    pub before: Bytes,
    /// Memory while the requests were queued.
    pub during: Bytes,
    /// Memory after the last response, with connections still open.
    pub idle: Bytes,
    /// Memory after the connections were closed and it no longer changed.
    pub after: Bytes,
    /// Time until then, s.
    pub settled_s: f64,
}

impl Crowd {
    /// Checks that each request was answered once and no memory remains allocated.
    ///
    /// # Errors
    ///
    /// A figure exceeds its bound.
    pub fn check(&self) -> Result<()> {
        let all = [self.answered, self.executed, self.executions];
        ensure!(
            all == [self.held; 3],
            "not every request was answered and executed once: {self:?}"
        );
        let left = self.left_percent();
        ensure!(
            left <= LEFT_MAX_PERCENT,
            "{left:.1} % more memory allocated: {self:?}"
        );
        Ok(())
    }

    /// Growth of the allocated memory, percent.
    #[must_use]
    pub fn left_percent(&self) -> f64 {
        (self.after.allocated / self.before.allocated - 1.0) * 100.0
    }
}

/// Queues `count` requests for `span`, `rounds` times in one Envoy.
///
/// # Errors
///
/// A part does not start, or the requests do not complete.
pub async fn hold(count: usize, span: Duration, workers: u32, rounds: u32) -> Result<Vec<Crowd>> {
    let mut config = ServerConfig::new("small", LatencyModel::constant(1.0));
    config.cores = 1000.0;
    let emulator = Emulator::start(config).await?;
    let plugin = json!({
        "service": "crowd", "queue": { "max_requests": 100_000 },
        "deadline": { "max_ms": BUDGET_MS },
        "plan": { "variants": [{ "name": "small", "cluster": "small", "share": 1.0,
                                 "slots": SLOTS, "service_ms": PREDICTED_MS, "accuracy": 70.0 }] },
    });
    let bootstrap = Bootstrap::shipped()?
        .plugin(&plugin)
        .backend("small", emulator.addr())
        .stream_idle_timeout(Duration::from_millis(BUDGET_MS));
    let envoy = Envoy::start(&bootstrap, workers).await?;
    let scene = Scene {
        url: format!("http://{}/v2/models/small/infer", envoy.listener("weir")?),
        envoy,
        emulator,
        workers,
    };
    let before = memory(&scene.envoy).await?;
    let mut crowds = Vec::new();
    for round in 0..rounds {
        crowds.push(scene.round(round, count, span, before).await?);
    }
    Ok(crowds)
}

/// Clients with one connection each.
fn clients(count: usize) -> Result<Vec<reqwest::Client>> {
    let client = || {
        let builder = reqwest::Client::builder().no_proxy().timeout(PATIENCE * 2);
        Ok(builder.http2_prior_knowledge().build()?)
    };
    (0..count).map(|_| client()).collect()
}

struct Scene {
    envoy: Envoy,
    emulator: Emulator,
    url: String,
    workers: u32,
}

impl Scene {
    fn request(&self, client: &reqwest::Client, id: String) -> reqwest::RequestBuilder {
        client
            .post(&self.url)
            .header("x-slo-ms", BUDGET_MS.to_string())
            .header("x-request-id", id)
            .body("{}")
    }

    async fn round(
        &self,
        round: u32,
        count: usize,
        span: Duration,
        before: Bytes,
    ) -> Result<Crowd> {
        let clients = clients(count.div_ceil(STREAMS))?;
        let blockers = self.block().await?;
        self.emulator.reset();
        let mut crowd: JoinSet<Result<u16>> = JoinSet::new();
        for (index, client) in (0..count).zip(clients.iter().cycle()) {
            let request = self.request(client, format!("{round}-{index}"));
            crowd.spawn(async move {
                let answer = request.send().await?;
                let status = answer.status().as_u16();
                answer.bytes().await?;
                Ok(status)
            });
        }
        self.until(Metric::HeldRequests, "", count as u64).await?;
        let held_since = Instant::now();
        // Only the blockers' connections remain: an idle one would break under the next request.
        let alone = async || {
            let open = self.envoy.counter("envoy_cluster_upstream_cx_active").await;
            open.is_ok_and(|open| open == u64::from(SLOTS))
        };
        wait::until_async("idle connections to close", PATIENCE, alone).await?;
        tokio::time::sleep(span.saturating_sub(held_since.elapsed())).await;
        let during = memory(&self.envoy).await?;
        let held = self.envoy.metric(Metric::HeldRequests, "crowd", "").await?;
        ensure!(
            held == count as u64,
            "{held} of {count} queued after {:?}",
            held_since.elapsed()
        );
        let released = Instant::now();
        // The server aborts the blockers' executions, which frees their slots at once.
        self.emulator.hang_up();
        let mut answered = 0;
        while let Some(done) = crowd.join_next().await {
            answered += usize::from(done?? == 200);
        }
        for blocker in blockers {
            blocker.await?;
        }
        let drained_s = released.elapsed().as_secs_f64();
        let executions = self.emulator.executions();
        let ids = executions.iter().map(|run| run.request_id.as_str());
        let ids: BTreeSet<&str> = ids.collect();
        let idle = memory(&self.envoy).await?;
        let connections = clients.len();
        drop(clients);
        let began = Instant::now();
        let after = self.wait_until_stable(before).await?;
        Ok(Crowd {
            held: count,
            workers: self.workers,
            connections,
            answered,
            executed: ids.len(),
            executions: executions.len(),
            drained_s,
            before,
            during,
            idle,
            after,
            settled_s: began.elapsed().as_secs_f64(),
        })
    }

    /// Takes all slots until aborted.
    async fn block(&self) -> Result<Vec<JoinHandle<()>>> {
        self.emulator.slow_by(SLOW)?;
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut blockers = Vec::new();
        for _ in 0..SLOTS {
            let request = self.request(&client, "blocker".to_owned());
            blockers.push(tokio::spawn(async move {
                let _ = request.send().await;
            }));
        }
        self.until(Metric::SlotsInUse, "small", u64::from(SLOTS))
            .await?;
        let executing = || self.emulator.load().1 >= SLOTS as usize;
        wait::until("the blockers", PATIENCE, executing).await?;
        self.emulator.slow_by(1.0)?;
        Ok(blockers)
    }

    async fn until(&self, metric: Metric, label: &str, value: u64) -> Result<()> {
        let reached = async || {
            let now = self.envoy.metric(metric, "crowd", label).await;
            now.is_ok_and(|now| now == value)
        };
        let what = format!("{} {label} = {value}", metric.name());
        wait::until_async(&what, PATIENCE, reached).await
    }

    /// Waits until the allocated memory is back to the start or no longer falls.
    async fn wait_until_stable(&self, before: Bytes) -> Result<Bytes> {
        const LONGEST: Duration = Duration::from_secs(15);
        let bound = before.allocated * (1.0 + LEFT_MAX_PERCENT / 100.0);
        let back = async || {
            let now = memory(&self.envoy).await;
            now.is_ok_and(|now| now.allocated <= bound)
        };
        // The caller judges a timeout.
        let _ = wait::until_async("memory", LONGEST, back).await;
        memory(&self.envoy).await.context("Envoy's memory")
    }
}
