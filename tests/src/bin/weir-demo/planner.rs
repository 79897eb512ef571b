//! The planner as a child process, and what its status says about the run.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Client;
use serde::Deserialize;
use tempfile::TempDir;
use weir_tests::process::Process;
use weir_tests::wait;

use crate::scenario::Scenario;

/// Names the program; `cargo xtask` sets it.
const PROGRAM: &str = "WEIR_PLANNER_BIN";
/// How long one answer of the planner may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How much of the log an error repeats, in lines.
const LOG_TAIL_MAX: usize = 20;

/// The running planner; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Planner {
    process: Process,
    folder: TempDir,
    address: SocketAddr,
    service: String,
    client: Client,
}

/// The part of the status that is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Status {
    /// Of the plan that is out.
    pub(crate) revision: Option<u64>,
    /// The latest turns, oldest first.
    pub(crate) cycles: Vec<Cycle>,
}

/// One turn of the planner.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Cycle {
    /// When it began, Unix time in ms.
    pub(crate) at_ms: u64,
    /// From the first observation to the plan handed out.
    pub(crate) cycle_ms: f64,
    /// Plans published.
    pub(crate) published: u64,
    /// The demand planned for, in requests/s.
    pub(crate) demand_rps: Option<f64>,
    /// By name.
    pub(crate) variants: BTreeMap<String, CycleVariant>,
}

/// One variant at the end of a turn.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CycleVariant {
    /// Cores in force.
    pub(crate) cores_actuated: f64,
    /// Its quota.
    pub(crate) share: f64,
}

impl Planner {
    /// Starts it with this service file.
    pub(crate) fn start(
        scenario: &Scenario,
        address: SocketAddr,
        service_file: &str,
        key: &str,
    ) -> Result<Planner> {
        let folder = tempfile::Builder::new().prefix("weir-planner-").tempdir()?;
        let config = folder.path().join("service.yaml");
        fs::write(&config, service_file)?;
        let mut command = Command::new(program()?);
        command
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .env(&scenario.key_env, key);
        let process = Process::spawn(&mut command, &folder.path().join(LOG))?;
        let client = Client::builder().no_proxy().timeout(ANSWER_MAX).build()?;
        Ok(Planner {
            process,
            folder,
            address,
            service: scenario.service.clone(),
            client,
        })
    }

    /// Waits until a plan is out.
    pub(crate) async fn until_ready(&mut self, limit: Duration) -> Result<()> {
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
            Some(status) => Err(anyhow::anyhow!("the planner ended: {status}")),
            None => waited,
        };
        failed.with_context(|| format!("the planner's log ends:\n{}", self.log_tail()))
    }

    /// The latest `cycles` turns.
    pub(crate) async fn status(&self, cycles: usize) -> Result<Status> {
        let url = format!(
            "{}/v1/services/{}?cycles={cycles}",
            self.url(),
            self.service
        );
        let answer = self.client.get(url).send().await?.error_for_status()?;
        answer.json().await.context("the planner's status")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn service(&self) -> &str {
        &self.service
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

/// The planner that `cargo xtask` names, or the one built beside this program.
fn program() -> Result<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("weir-planner"));
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let found = named.or_else(beside).filter(|path| path.is_file());
    found.with_context(|| format!("there is no planner ({PROGRAM}): run `cargo xtask demo`"))
}
