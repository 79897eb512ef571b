//! Many requests held at once over HTTP/2, then let go: whether each is answered once, and what memory
//! is left behind.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};
use weir_api::metrics::Metric;

use super::gauges::{Bytes, memory};
use weir_bed::emulator::{Emulator, Law, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};
use weir_bed::wait;

/// How much more than at the start Envoy may have allocated in the end, percent.
pub const LEFT_MAX_PERCENT: f64 = 10.0;
/// Requests on one connection; the shipped limit is 1,024.
const STREAMS: usize = 500;
/// Slots through which the crowd leaves.
const SLOTS: u32 = 64;
/// How much slower the first executions are, which keep the slots taken.
const SLOW: f64 = 1e6;
/// What the plan predicts. The slots stay taken long past it: however busy a worker is, it must not
/// lose its lease.
const PREDICTED_MS: f64 = 1.0;
/// The requests' budget, which the shipped limits would cut.
const BUDGET_MS: u64 = 300_000;
/// How long anything may take: it bounds a failing run.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a crowd came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crowd {
    /// Held at once.
    pub held: usize,
    /// Envoy's workers.
    pub workers: u32,
    /// Connections they came over.
    pub connections: usize,
    /// Answered 200.
    pub answered: usize,
    /// Executed by the server, each counted once.
    pub executed: usize,
    /// Executions of them.
    pub executions: usize,
    /// From letting go to the last answer, s.
    pub drained_s: f64,
    /// At the start: Envoy without a connection.
    pub before: Bytes,
    /// While they were held.
    pub during: Bytes,
    /// After the last answer, their connections still open.
    pub idle: Bytes,
    /// After their connections are closed and memory has settled.
    pub after: Bytes,
    /// How long that took, s.
    pub settled_s: f64,
}

impl Crowd {
    /// Whether each was answered once and no memory stays behind.
    ///
    /// # Errors
    /// Which figure is off.
    pub fn check(&self) -> Result<()> {
        let all = [self.answered, self.executed, self.executions];
        ensure!(all == [self.held; 3], "not each once: {self:?}");
        let left = self.left_percent();
        ensure!(left <= LEFT_MAX_PERCENT, "{left:.1} % left: {self:?}");
        Ok(())
    }

    /// How much more than before is allocated, percent.
    #[must_use]
    pub fn left_percent(&self) -> f64 {
        (self.after.allocated / self.before.allocated - 1.0) * 100.0
    }
}

/// Holds so many for so long, as often as `rounds` says in one Envoy.
///
/// # Errors
/// Something does not start, or they do not get through.
pub async fn hold(count: usize, span: Duration, workers: u32, rounds: u32) -> Result<Vec<Crowd>> {
    let mut config = ServerConfig::new("small", Law::constant(1.0));
    config.cores = 1000.0;
    let emulator = Emulator::start(config).await?;
    let plugin = json!({
        "service": "crowd", "queue": { "held_max": 100_000 },
        "deadline": { "greatest_ms": BUDGET_MS },
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

/// One connection each.
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
        self.until(Metric::Held, "", count as u64).await?;
        let held_since = Instant::now();
        // Only the blockers' connections: another one, idle, would break under who comes next.
        let alone = async || {
            let open = self.envoy.counter("envoy_cluster_upstream_cx_active").await;
            open.is_ok_and(|open| open == u64::from(SLOTS))
        };
        wait::until_async("idle connections to close", PATIENCE, alone).await?;
        tokio::time::sleep(span.saturating_sub(held_since.elapsed())).await;
        let during = memory(&self.envoy).await?;
        let held = self.envoy.metric(Metric::Held, "crowd", "").await?;
        ensure!(
            held == count as u64,
            "{held} of {count} held after {:?}",
            held_since.elapsed()
        );
        let released = Instant::now();
        // The server breaks off what it executes for the blockers: their slots are free at once.
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
        let settling = Instant::now();
        let after = self.settle(before).await?;
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
            settled_s: settling.elapsed().as_secs_f64(),
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
        self.until(Metric::InFlight, "small", u64::from(SLOTS))
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

    /// Waits until what is allocated is back, or does not get less any more.
    async fn settle(&self, before: Bytes) -> Result<Bytes> {
        const LONGEST: Duration = Duration::from_secs(15);
        let bound = before.allocated * (1.0 + LEFT_MAX_PERCENT / 100.0);
        let back = async || {
            let now = memory(&self.envoy).await;
            now.is_ok_and(|now| now.allocated <= bound)
        };
        // Not back in time is for the caller to judge.
        let _ = wait::until_async("memory", LONGEST, back).await;
        memory(&self.envoy).await.context("Envoy's memory")
    }
}
