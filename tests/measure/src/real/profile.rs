//! Profiles of the servers, made by `weir profile` while all of them are under load: they share the machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::process::{Child, Command};
use weir_bed::built;

use super::servers::{Models, Server};

/// Parts of a profile file that the measurement uses.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Profile {
    /// 0 if it was not measured.
    #[serde(default)]
    pub(crate) accuracy: f64,
    latency: Latency,
    capacity: Capacity,
}

/// One number, or Sponge's coefficients.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Latency {
    mean_ms: f64,
    gamma_ms: f64,
    epsilon_ms: f64,
    delta_ms: f64,
    eta_ms: f64,
    tail: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Capacity {
    slope_rps: f64,
    intercept_rps: f64,
}

impl Profile {
    pub(crate) fn read(path: &Path) -> Result<Profile> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        serde_saphyr::from_str(&text).with_context(|| format!("in {shown}"))
    }

    /// Sustained throughput on these cores, requests/s.
    pub(crate) fn capacity_rps(&self, cores: f64) -> f64 {
        (self.capacity.slope_rps * cores + self.capacity.intercept_rps).max(0.0)
    }

    /// High percentile of the service time on these cores, ms.
    pub(crate) fn service_ms(&self, cores: f64) -> f64 {
        let latency = &self.latency;
        let of_cores = (latency.gamma_ms + latency.epsilon_ms) / cores;
        (latency.mean_ms + of_cores + latency.delta_ms + latency.eta_ms) * latency.tail.max(1.0)
    }
}

/// Returns the profile file of a server.
pub(crate) fn file(folder: &Path, server: &Server) -> PathBuf {
    folder.join(format!("{}.yaml", server.name))
}

/// Measures all servers at the same time on the cores that they have, and writes a profile of each into the folder.
pub(crate) async fn measure(
    servers: &[Server],
    models: &Models,
    folder: &Path,
) -> Result<Vec<Profile>> {
    let mut running = Vec::new();
    for server in servers {
        let cores = server.cores.to_string();
        running.push((server, start(server, models, folder, &["--cores", &cores])?));
    }
    let mut profiles = Vec::new();
    for (server, child) in running {
        profiles.push(finish(server, child, folder).await?);
    }
    Ok(profiles)
}

/// Measures one server after the other on several numbers of cores.
pub(crate) async fn measure_by_cores(
    servers: &[Server],
    models: &Models,
    folder: &Path,
    cores: &[f64],
) -> Result<Vec<Profile>> {
    let list: Vec<String> = cores.iter().map(f64::to_string).collect();
    let list = list.join(",");
    let mut profiles = Vec::new();
    for server in servers {
        let group = server.group.folder().display().to_string();
        let child = start(
            server,
            models,
            folder,
            &["--cores", &list, "--cgroup", &group],
        )?;
        profiles.push(finish(server, child, folder).await?);
    }
    Ok(profiles)
}

fn start(server: &Server, models: &Models, folder: &Path, more: &[&str]) -> Result<Child> {
    Command::new(built::planner()?)
        .args(["profile", "--url", &server.url(), "--replace", "--request"])
        .arg(models.request())
        .arg("--labels")
        .arg(models.labels())
        .arg("--output")
        .arg(file(folder, server))
        .args(more)
        .kill_on_drop(true)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run weir profile")
}

async fn finish(server: &Server, child: Child, folder: &Path) -> Result<Profile> {
    let output = child.wait_with_output().await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let name = server.name;
    ensure!(output.status.success(), "weir profile of {name}: {stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    println!("{name}\n{}", stdout.trim_end());
    Profile::read(&file(folder, server))
}
