//! Profiles of the servers, made by `weir profile` while all of them are under load: they share the machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::process::Command;
use weir_bed::built;

use super::servers::{Models, Server};

/// Parts of a profile file that the measurement uses.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Profile {
    pub(crate) accuracy: f64,
    pub(crate) latency: Latency,
    capacity: Capacity,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Latency {
    pub(crate) mean_ms: f64,
    pub(crate) tail: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Capacity {
    slope_rps: f64,
}

impl Profile {
    /// Sustained throughput of the server, requests/s. It was measured as one of one core.
    pub(crate) fn capacity_rps(&self) -> f64 {
        self.capacity.slope_rps
    }
}

/// Returns the profile file of a server.
pub(crate) fn file(folder: &Path, server: &Server) -> PathBuf {
    folder.join(format!("{}.yaml", server.name))
}

/// Measures all servers at the same time, and writes a profile of each into the folder.
pub(crate) async fn measure(
    servers: &[Server],
    models: &Models,
    folder: &Path,
) -> Result<Vec<Profile>> {
    let mut running = Vec::new();
    for server in servers {
        let child = Command::new(built::planner()?)
            .args(["profile", "--url", &server.url(), "--replace", "--request"])
            .arg(models.request())
            .arg("--labels")
            .arg(models.labels())
            .arg("--output")
            .arg(file(folder, server))
            .kill_on_drop(true)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .context("cannot run weir profile")?;
        running.push((server, child));
    }
    let mut profiles = Vec::new();
    for (server, child) in running {
        let output = child.wait_with_output().await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "weir profile of {}: {stderr}",
            server.name
        );
        println!(
            "{}, {} cores\n{}",
            server.name,
            server.cores,
            String::from_utf8_lossy(&output.stdout).trim_end()
        );
        let path = file(folder, server);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        profiles.push(serde_saphyr::from_str(&text)?);
    }
    Ok(profiles)
}
