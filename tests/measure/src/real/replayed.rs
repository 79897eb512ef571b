//! Replay of the same loads with the measured profiles.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;
use weir_bed::built;

/// Contender that plays what the measurement does: Weir, and cores that nobody changes.
const CONTENDER: &str = "weir+static";

#[derive(Debug, Deserialize)]
struct Report {
    contenders: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    on_time_percent: f64,
}

/// Returns Weir's on-time share by replay of this service file, percent. `rps` is the load, `seconds` long.
pub(crate) async fn on_time_percent(
    folder: &Path,
    service: &Value,
    (rps, seconds): (f64, usize),
    seed: u64,
) -> Result<f64> {
    let scenario = json!({
        "name": "real",
        "service": "service.yaml",
        "length_s": seconds,
        "load": { "generator": "poisson", "rps": rps },
        "contenders": [{ "plane": "weir", "control": "static" }],
    });
    let path = folder.join("scenario.yaml");
    // JSON is YAML too.
    for (path, value) in [(&folder.join("service.yaml"), service), (&path, &scenario)] {
        std::fs::write(path, value.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let output = Command::new(built::planner()?)
        .arg("replay")
        .arg(&path)
        .args(["--json", "--only", CONTENDER, "--seed", &seed.to_string()])
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run weir replay")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "weir replay: {stderr}");
    let report: Report = serde_json::from_slice(&output.stdout).context("the report of replay")?;
    let row = report.contenders.first().context("an empty report")?;
    Ok(row.on_time_percent)
}
