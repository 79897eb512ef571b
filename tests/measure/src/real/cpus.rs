//! CPUs: one for the servers, the others for the proxy and the load generator.
//!
//! On a CPU that they share, a server loses its caches to the others, so that the same request takes it more CPU time
//! through a proxy than without one. In the field a proxy has cores of its own.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::servers::Server;

/// CPU of the servers.
pub(crate) const OF_SERVERS: &str = "0";

/// Moves the servers to the first CPU and all else to the others. Returns the list of all CPUs.
pub(crate) fn separate(servers: &[Server]) -> Result<String> {
    for server in servers {
        stay(server.pid(), OF_SERVERS)?;
    }
    leave()
}

/// Leaves the first CPU to the servers. Returns the list of all CPUs.
pub(crate) fn leave() -> Result<String> {
    let last = std::thread::available_parallelism()?.get() - 1;
    ensure!(last > 0, "one CPU: the measurement needs two");
    stay(std::process::id(), &format!("1-{last}"))?;
    Ok(format!("0-{last}"))
}

/// Lets everything run on these CPUs.
pub(crate) fn join(servers: &[Server], cpus: &str) -> Result<()> {
    let ours = [std::process::id()];
    let all = servers.iter().map(Server::pid).chain(ours);
    all.into_iter().try_for_each(|process| stay(process, cpus))
}

/// Keeps all threads of a process on these CPUs; processes that it starts later inherit that.
fn stay(process: u32, cpus: &str) -> Result<()> {
    let output = Command::new("taskset")
        .args([
            "--all-tasks",
            "--pid",
            "--cpu-list",
            cpus,
            &process.to_string(),
        ])
        .output()
        .context("cannot run taskset")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "taskset: {stderr}");
    Ok(())
}
