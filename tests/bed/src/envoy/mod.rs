//! A real Envoy with the shipped configuration, on free ports, stopped when dropped.
//!
//! Decides how Envoy is started, when it counts as ready and which files are kept when a test fails. The
//! configuration is `envoy/weir.yaml` or `envoy/gate.yaml`, adapted by [`Bootstrap`].

mod admin;
mod backend;
mod bootstrap;
mod clock;
mod discovery;
mod launch;
mod listeners;
mod pointer;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use weir_api::metrics::{Metric, Series};

pub use bootstrap::Bootstrap;
pub use clock::Clock;
pub use discovery::Discovery;
pub use launch::{Launch, Restart};
pub use listeners::Careful;

use crate::built;
use crate::process::Process;
use admin::Admin;

/// Time limit until Envoy serves; then [`Envoy::start`] fails. Compiling the module and a busy machine take seconds;
/// a hang takes forever.
pub const START_MAX: Duration = Duration::from_secs(30);
/// Time until the filter has reported its counters to Envoy: it does so on each tick, 50 ms apart, later on a busy
/// machine.
const COUNTERS_REPORTED_AFTER: Duration = Duration::from_millis(150);
/// Interval between readiness checks of a starting Envoy.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Number of log lines that an error repeats.
pub const LOG_TAIL_MAX: usize = 40;

/// Environment variable that makes a dropped [`Envoy`] keep its configuration and log. Without it only one dropped by
/// a panic keeps them.
pub const KEEP_LOGS: &str = "WEIR_KEEP_LOGS";

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    // Declared before the folder, so that the process has ended when its log is removed.
    process: Process,
    folder: Option<TempDir>,
    log: PathBuf,
    admin: Admin,
    listeners: BTreeMap<String, SocketAddr>,
    base_id: Option<u32>,
}

impl Envoy {
    /// Starts Envoy with `concurrency` workers and waits until all its listeners are open.
    ///
    /// # Errors
    ///
    /// Envoy or the filter module is missing, or Envoy exits or is not ready within [`START_MAX`]; the message then
    /// ends with the last [`LOG_TAIL_MAX`] lines of its log.
    pub async fn start(bootstrap: &Bootstrap, concurrency: u32) -> Result<Self> {
        let program = built::envoy()?;
        let folder = tempfile::Builder::new().prefix("weir-envoy-").tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let (config, log, address) = (path("envoy.json"), path("envoy.log"), path("admin"));
        let mut finished = bootstrap.config()?;
        if let Some(discovery) = bootstrap.discovery() {
            let resources = discovery.take_from(&mut finished, folder.path())?;
            discovery.write(&resources, folder.path())?;
        }
        std::fs::write(&config, serde_json::to_vec_pretty(&finished)?)?;
        let mut command = Command::new(program);
        command
            .arg("--config-path")
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&address);
        command.arg("--concurrency").arg(concurrency.to_string());
        command.args(["--log-level", "info"]);
        bootstrap.how().add_to(&mut command, folder.path());
        let mut process = Process::spawn(&mut command, &log)?;
        match until_ready(&mut process, &address).await {
            Ok((admin, listeners)) => Ok(Self {
                base_id: bootstrap.how().base_id(folder.path())?,
                process,
                folder: Some(folder),
                log,
                admin,
                listeners,
            }),
            Err(error) => {
                drop(process);
                Err(error.context(format!(
                    "Envoy did not start; its log ends:\n{}",
                    tail(&log)
                )))
            }
        }
    }

    /// Writes the dynamic part of `bootstrap` to the file that Envoy watches. Envoy's metrics and log show whether it
    /// has been applied.
    ///
    /// # Errors
    ///
    /// `bootstrap` has no dynamic part, or the file cannot be written.
    pub fn update(&self, bootstrap: &Bootstrap) -> Result<()> {
        let discovery = bootstrap
            .discovery()
            .context("the bootstrap has no dynamic part")?;
        let folder = self.folder.as_ref().context("no folder")?.path();
        let resources = discovery.take_from(&mut bootstrap.config()?, folder)?;
        discovery.write(&resources, folder)
    }

    /// Address of the listener `name`: `weir`, `plain` or `careful`.
    ///
    /// # Errors
    ///
    /// There is no listener of that name.
    pub fn listener(&self, name: &str) -> Result<SocketAddr> {
        let known = || {
            self.listeners
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(", ")
        };
        let found = self.listeners.get(name).copied();
        found.with_context(|| format!("no listener '{name}'; known: {}", known()))
    }

    /// Address of the admin interface.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Envoy's metrics whose name matches the regular expression, as Prometheus text.
    ///
    /// # Errors
    /// The admin interface does not answer.
    pub async fn stats(&self, filter: &str) -> Result<String> {
        self.admin.stats(filter).await
    }

    /// A counter or gauge by its Prometheus name, summed over its labels; 0 if it does not exist yet.
    ///
    /// # Errors
    ///
    /// The admin interface does not answer.
    pub async fn counter(&self, name: &str) -> Result<u64> {
        self.admin.counter(name).await
    }

    /// One of the filter's own counters or gauges; `value` is the variant, reason or header, and empty if the metric
    /// has no such label. 0 if it does not exist yet. Waits first, so that the result includes everything counted
    /// before the call.
    ///
    /// # Errors
    ///
    /// The admin interface does not answer.
    pub async fn metric(&self, metric: Metric, service: &str, value: &str) -> Result<u64> {
        tokio::time::sleep(COUNTERS_REPORTED_AFTER).await;
        let series = series(metric, service, value);
        Ok(self.admin.metric(&series, "").await? as u64)
    }

    /// Number and sum of the values in one of the filter's histograms without a further label, at Envoy's latest
    /// flush; 0 if it does not exist yet.
    ///
    /// # Errors
    ///
    /// The admin interface does not answer.
    pub async fn histogram(&self, metric: Metric, service: &str) -> Result<(u64, f64)> {
        let series = series(metric, service, "");
        let count = self.admin.metric(&series, "_count").await?;
        Ok((count as u64, self.admin.metric(&series, "_sum").await?))
    }

    /// Begins to drain: connections are told to close, and the listeners are closed after the drain time. Requests go
    /// on.
    ///
    /// # Errors
    ///
    /// The admin interface does not answer.
    pub async fn drain(&self) -> Result<()> {
        self.admin.post("/drain_listeners?graceful").await
    }

    /// Tells Envoy to exit; requests in flight are cut off.
    ///
    /// # Errors
    ///
    /// The admin interface does not answer.
    pub async fn quit(&self) -> Result<()> {
        self.admin.post("/quitquitquit").await
    }

    /// Sends SIGTERM, as a supervisor does.
    ///
    /// # Errors
    ///
    /// The signal cannot be sent.
    pub fn terminate(&self) -> Result<()> {
        let status = Command::new("kill")
            .args(["-TERM", &self.pid().to_string()])
            .status()
            .context("cannot run kill")?;
        anyhow::ensure!(status.success(), "kill -TERM {}: {status}", self.pid());
        Ok(())
    }

    /// Its exit status, if it has exited.
    ///
    /// # Errors
    ///
    /// The system call failed.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.process.exited()
    }

    /// The base id for a successor; `None` if it takes part in no hot restart.
    #[must_use]
    pub fn base_id(&self) -> Option<u32> {
        self.base_id
    }

    /// Everything Envoy has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        read_log(&self.log)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        if (std::thread::panicking() || std::env::var_os(KEEP_LOGS).is_some())
            && let Some(folder) = self.folder.take()
        {
            eprintln!(
                "Envoy's configuration and log are kept in {}",
                folder.keep().display()
            );
        }
    }
}

fn series(metric: Metric, service: &str, value: &str) -> Series {
    Series {
        metric,
        service: service.to_owned(),
        value: value.to_owned(),
        group: String::new(),
    }
}

/// Checks a configuration file with `envoy --mode validate`.
///
/// # Errors
///
/// Envoy is missing, or it rejects the file; the message ends with its output.
pub fn validate(config: &Path) -> Result<()> {
    let output = Command::new(built::envoy()?)
        .args(["--mode", "validate", "--config-path"])
        .arg(config)
        .output()
        .context("cannot run Envoy")?;
    if !output.status.success() {
        bail!(
            "Envoy rejects {}:\n{}",
            config.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

async fn until_ready(
    process: &mut Process,
    address: &Path,
) -> Result<(Admin, BTreeMap<String, SocketAddr>)> {
    let latest = Instant::now() + START_MAX;
    loop {
        if let Some(status) = process.exited()? {
            bail!("it exited with {status}");
        }
        let written = std::fs::read_to_string(address).unwrap_or_default();
        if let Ok(address) = written.trim().parse() {
            let admin = Admin::new(address)?;
            if admin.is_ready().await {
                let listeners = admin.listeners().await?;
                return Ok((admin, listeners));
            }
        }
        if Instant::now() > latest {
            bail!("it was not ready within {} s", START_MAX.as_secs());
        }
        sleep(READY_CHECK_INTERVAL).await;
    }
}

fn read_log(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

fn tail(log: &Path) -> String {
    let log = read_log(log);
    let lines: Vec<_> = log.lines().collect();
    let from = lines.len().saturating_sub(LOG_TAIL_MAX);
    lines.into_iter().skip(from).collect::<Vec<_>>().join("\n")
}
