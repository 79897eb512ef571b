//! Checks of the alert rules by Prometheus' own promtool: the rules are valid, and alerts fire for the series of
//! `tests/monitoring` and no others.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::layout::Layout;
use crate::{debian, version_of};

/// Environment variable with the path of a promtool.
const PROMTOOL: &str = "WEIR_PROMTOOL";
/// Rules of the manifests.
const RULES: &str = "k8s/monitoring/rules.yaml";
/// Series, and the alerts that they cause.
const TESTS: &str = "tests/monitoring/alerts.yaml";

/// Checks and tests the rules.
pub(crate) fn test(layout: &Layout) -> Result<()> {
    let promtool = ensure(layout)?;
    for arguments in [["check", "rules", RULES], ["test", "rules", TESTS]] {
        eprintln!("$ promtool {}", arguments.join(" "));
        let status = Command::new(&promtool)
            .args(arguments)
            .current_dir(&layout.root)
            .status()
            .context("cannot run promtool")?;
        ensure!(status.success(), "promtool {} failed", arguments.join(" "));
    }
    Ok(())
}

/// Returns the named promtool, the system's, or one unpacked from Debian's package.
pub(crate) fn ensure(layout: &Layout) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(PROMTOOL).filter(|given| !given.is_empty()) {
        let path = std::path::absolute(&given).context("where is this folder?")?;
        version_of(&path)
            .with_context(|| format!("{PROMTOOL}={} cannot be used", path.display()))?;
        return Ok(path);
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&on_path).map(|folder| folder.join("promtool"));
    if let Some(found) = places.find(|path| version_of(path).is_ok()) {
        return Ok(found);
    }
    let folder = layout.tools().join("promtool");
    let program = folder.join("promtool");
    if folder.join("stamp").is_file() && version_of(&program).is_ok() {
        return Ok(program);
    }
    debian::unpack(layout, "prometheus", "usr/bin/promtool", &folder).context(
        "promtool could not be fetched; instead you can install it (Debian: prometheus) or set \
         WEIR_PROMTOOL=/path/to/promtool",
    )?;
    // The package has the whole server, of which nothing runs here.
    remove_server(&folder.join("usr/bin/prometheus"))?;
    Ok(program)
}

fn remove_server(server: &Path) -> Result<()> {
    match std::fs::remove_file(server) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", server.display()))
        }
        _ => Ok(()),
    }
}
