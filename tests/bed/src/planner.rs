//! The real planner as a child process, and its status.
//!
//! It starts, queries and ends it; its service file says what it plans.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Client;
use serde::Deserialize;
use tempfile::TempDir;

use crate::built;
use crate::process::Process;
use crate::wait;

/// Time limit for one response of the planner.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Number of log lines that an error repeats.
const LOG_TAIL_MAX: usize = 20;

/// The running planner; it ends when dropped.
#[derive(Debug)]
pub struct Planner {
    process: Process,
    folder: TempDir,
    address: SocketAddr,
    service: String,
    key: String,
    client: Client,
}

/// The parsed part of the status.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// Revision of the published plan.
    pub revision: Option<u64>,
    /// The latest cycles, oldest first.
    pub cycles: Vec<Cycle>,
    /// The proxies that have been assigned slots, by node id.
    pub proxies: BTreeMap<String, Sharer>,
    /// A pipeline's stages, by name; empty if the service is no pipeline.
    #[serde(default)]
    pub stages: BTreeMap<String, StageStatus>,
}

impl Status {
    /// Revision of the published plan of that stage.
    pub fn revision_at(&self, stage: &str) -> Option<u64> {
        match self.stages.get(stage) {
            Some(stage) => stage.plan.as_ref().map(|plan| plan.revision),
            None => self.revision,
        }
    }
}

/// The parsed part of a stage's status.
#[derive(Debug, Clone, Deserialize)]
pub struct StageStatus {
    /// The published plan.
    pub plan: Option<StagePlan>,
}

/// The parsed part of a stage's plan.
#[derive(Debug, Clone, Deserialize)]
pub struct StagePlan {
    /// Its revision.
    pub revision: u64,
}

/// A proxy that polls.
#[derive(Debug, Clone, Deserialize)]
pub struct Sharer {
    /// Incarnation of the proxy process that polls.
    pub incarnation: u64,
    /// Slots assigned to it, by variant.
    pub slots: BTreeMap<String, u32>,
    /// Revision of the plan with these slots.
    pub allocation_revision: Option<u64>,
    /// Whether it has confirmed that it uses them.
    pub confirmed: bool,
}

/// One cycle of the planner.
#[derive(Debug, Clone, Deserialize)]
pub struct Cycle {
    /// Its start, Unix time in ms.
    pub at_ms: u64,
    /// Time from the first observation to the published plan.
    pub cycle_ms: f64,
    /// Plans published.
    pub plans_published: u64,
    /// Demand with headroom, in requests/s.
    pub demand_rps: Option<f64>,
    /// Reasons for the decision.
    pub why: String,
    /// The variants, by name.
    pub variants: BTreeMap<String, CycleVariant>,
}

/// One variant at the end of a cycle.
#[derive(Debug, Clone, Deserialize)]
pub struct CycleVariant {
    /// Actual cores.
    pub cores_actual: f64,
    /// Ready replicas.
    pub replicas_ready: u32,
    /// Its quota.
    pub share: f64,
    /// Requests in one batch.
    pub batch: u32,
}

impl Planner {
    /// Starts it for `service` with this service file, which makes it listen on `address`. `key` is
    /// the environment variable that the file names for the shared key, and the key.
    ///
    /// # Errors
    ///
    /// The planner is not found or cannot be started.
    pub fn start(
        service: &str,
        address: SocketAddr,
        service_file: &str,
        key: (&str, &str),
    ) -> Result<Planner> {
        let folder = tempfile::Builder::new().prefix("weir-planner-").tempdir()?;
        let config = folder.path().join("service.yaml");
        fs::write(&config, service_file)?;
        let mut command = Command::new(built::planner()?);
        command.arg("serve").arg(&config).env(key.0, key.1);
        let process = Process::spawn(&mut command, &folder.path().join(LOG))?;
        let client = Client::builder().no_proxy().timeout(ANSWER_MAX).build()?;
        Ok(Planner {
            process,
            folder,
            address,
            service: service.to_owned(),
            key: key.1.to_owned(),
            client,
        })
    }

    /// Waits until a plan is published.
    ///
    /// # Errors
    ///
    /// The planner exits, or publishes none within `limit`; the message ends with its log.
    pub async fn until_ready(&mut self, limit: Duration) -> Result<()> {
        let url = format!("{}/readyz", self.url());
        let mut ended = None;
        let (process, client) = (&mut self.process, &self.client);
        let ready = async || {
            ended = process.exited().ok().flatten();
            let answer = client.get(&url).send().await;
            ended.is_some() || answer.is_ok_and(|answer| answer.status().is_success())
        };
        let waited = wait::until_async("the planner's first plan", limit, ready).await;
        let failed = match ended {
            Some(status) => Err(anyhow::anyhow!("the planner exited: {status}")),
            None => waited,
        };
        failed.with_context(|| format!("the planner's log ends:\n{}", self.log_tail()))
    }

    /// Its status, with the latest `cycles` cycles.
    ///
    /// # Errors
    ///
    /// The planner does not answer, or the response is no status.
    pub async fn status(&self, cycles: usize) -> Result<Status> {
        let url = format!(
            "{}/v1/services/{}?cycles={cycles}",
            self.url(),
            self.service
        );
        let request = self.client.get(url).bearer_auth(&self.key);
        let answer = request.send().await?.error_for_status()?;
        answer.json().await.context("invalid status of the planner")
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.folder.path().join(LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(LOG_TAIL_MAX);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

const LOG: &str = "planner.log";

/// Ports outside Linux's ephemeral range: the kernel never assigns them to listeners or outgoing
/// connections.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// A port on which nobody listens. Envoy's configuration needs the planner's port before the
/// planner starts, and meanwhile no other process may get it.
///
/// # Errors
///
/// All ports are in use.
pub fn free_port() -> Result<SocketAddr> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let count = PORTS.end - PORTS.start;
    for _ in 0..count {
        // Programs that run at the same time begin at different ports.
        let nth = std::process::id()
            .wrapping_mul(97)
            .wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + nth % count)?;
        if let Ok(listener) = std::net::TcpListener::bind(("127.0.0.1", port)) {
            return Ok(listener.local_addr()?);
        }
    }
    anyhow::bail!("no free port")
}
