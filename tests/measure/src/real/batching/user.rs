//! The steps of a user: `weir init`, and the commands that it prints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use weir_bed::built;

use super::super::profile::Profile;
use super::server::Server;

/// Result of these steps.
#[derive(Debug)]
pub(super) struct Made {
    /// Profile of each server.
    pub(super) profiles: Vec<Profile>,
    /// Bootstrap of an Envoy with the plan that follows from the profiles.
    pub(super) bootstrap: PathBuf,
}

/// Profiles the servers, and makes an Envoy's bootstrap of the profiles, in that folder, which must not exist.
pub(super) async fn made(servers: &[Server], slo: Duration, folder: &Path) -> Result<Made> {
    let first = servers.first().context("no servers")?;
    let request = folder.with_extension("request.json");
    std::fs::write(&request, first.kind.body()).context("cannot write the request")?;
    let mut init = vec!["init".to_owned()];
    let address = |server: &Server| format!("{}={}", server.name, server.url_for_init());
    init.extend(servers.iter().map(address));
    let shown = |path: &Path| path.display().to_string();
    init.extend(["--slo".to_owned(), format!("{}ms", slo.as_millis())]);
    init.extend(["--request".to_owned(), shown(&request)]);
    init.extend(["--out".to_owned(), shown(folder)]);
    let printed = weir(&init).await?;
    for command in ["profile", "manifests"] {
        let begin = format!("weir {command} ");
        let mut lines = printed.lines();
        let line = lines.find_map(|line| line.strip_prefix(&begin));
        let line = line.with_context(|| format!("weir init prints no '{begin}':\n{printed}"))?;
        let arguments: Vec<String> = std::iter::once(command)
            .chain(line.split_whitespace())
            .map(str::to_owned)
            .collect();
        eprintln!("$ weir {}", arguments.join(" "));
        let report = weir(&arguments).await?;
        println!("{}", report.trim_end());
    }
    let profile = |server: &Server| {
        let file = folder.join(format!("{}.profile.yaml", server.name));
        Profile::read(&file)
    };
    Ok(Made {
        profiles: servers.iter().map(profile).collect::<Result<_>>()?,
        bootstrap: folder.join("envoy/static.yaml"),
    })
}

/// Runs `weir`, and returns what it prints.
async fn weir(arguments: &[String]) -> Result<String> {
    let output = Command::new(built::planner()?)
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run weir")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let shown = arguments.join(" ");
    ensure!(output.status.success(), "weir {shown}: {stderr}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
