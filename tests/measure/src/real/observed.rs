//! Profiles from the proxy's own histograms, taken while a load runs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::process::Command;
use weir_bed::built;
use weir_bed::envoy::Envoy;

use super::servers::Server;
use super::system::SERVICE;

/// Percentile of the profile: the 99th needs 1,000 executions.
const PERCENTILE: &str = "80";

/// Measures for that time; returns the service file with these profiles. A variant that executes too few requests keeps the
/// one that it has.
pub(crate) async fn service(
    envoy: &Envoy,
    servers: &[Server],
    (service, folder): (&Value, &Path),
    time: Duration,
) -> Result<Value> {
    let profiles = servers
        .iter()
        .map(|server| profile(envoy, server, folder, time));
    let mut measured = Vec::new();
    // All at the same time.
    for one in profiles
        .map(|one| one.map(tokio::spawn))
        .collect::<Result<Vec<_>>>()?
    {
        measured.push(one.await??);
    }
    let mut service = service.clone();
    let variants = service.get_mut("variants").and_then(Value::as_array_mut);
    let each = variants.context("no variants")?.iter_mut().zip(measured);
    for (variant, path) in each.filter_map(|(variant, path)| Some((variant, path?))) {
        let accuracy = accuracy(variant)?;
        let keys = variant.as_object_mut().context("a variant")?;
        // A proxy knows nothing of it.
        keys.insert("accuracy".to_owned(), accuracy);
        keys.insert("profile".to_owned(), json!({ "file": path }));
    }
    Ok(service)
}

/// Accuracy in the profile that the variant had before.
fn accuracy(variant: &Value) -> Result<Value> {
    let path = variant.pointer("/profile/file").and_then(Value::as_str);
    let path = path.context("a variant without a profile")?;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let profile: Value = serde_saphyr::from_str(&text)?;
    profile.get("accuracy").cloned().context("no accuracy")
}

fn profile(
    envoy: &Envoy,
    server: &Server,
    folder: &Path,
    time: Duration,
) -> Result<impl Future<Output = Result<Option<PathBuf>>> + use<>> {
    let path = folder.join(format!("{}-observed.yaml", server.name));
    let child = Command::new(built::planner()?)
        .arg("profile")
        .arg("--from-proxy")
        .arg(format!("http://{}", envoy.admin()))
        .args(["--service", SERVICE, "--variant", server.name, "--replace"])
        .args(["--percentile", PERCENTILE, "--for"])
        .arg(format!("{}ms", time.as_millis()))
        .args(["--cores", &server.cores.to_string(), "--output"])
        .arg(&path)
        .kill_on_drop(true)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run weir profile")?;
    Ok(async move {
        let output = child.wait_with_output().await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            eprintln!("weir profile --from-proxy: {stderr}");
            return Ok(None);
        }
        Ok(Some(path))
    })
}
