//! One running server of a kind.
//!
//! It runs on the CPU of the servers, in a process namespace of its own: its processes end with it, those too that it
//! leaves behind.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_bed::process::Process;
use weir_bed::{built, wait};

use super::super::{cpus, servers::free};
use super::kind::{EACH_MS, Kind};

/// Names, and times of an empty batch, ms.
pub(super) const SERVERS: [(&str, u32); 2] = [("small", 30), ("large", 45)];
/// Time limit until a server answers.
const READY_MAX: Duration = Duration::from_secs(180);
/// Time limit of one answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Options by which all processes of a server end with the one that is started.
const NAMESPACE: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A running server; it ends when dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Starts both servers of a kind, and waits until each answers. Their files are in the folder.
    pub(super) async fn start_both(kind: Kind, folder: &Path) -> Result<Vec<Server>> {
        eprintln!("starting two servers: {}", kind.name());
        let mut servers = Vec::new();
        for (name, base_ms) in SERVERS {
            servers.push(Server::start(kind, name, base_ms, &folder.join(name))?);
        }
        for server in &mut servers {
            server.until_ready().await?;
        }
        Ok(servers)
    }

    fn start(kind: Kind, name: &'static str, base_ms: u32, folder: &Path) -> Result<Server> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let program = folder.join(format!("{}.py", kind.package()));
        fs::write(&program, kind.program()).context("cannot write the server's program")?;
        let address = free()?;
        let (batch, delay_ms) = kind.batches();
        let numbers = [base_ms, EACH_MS, batch, delay_ms];
        let mut command = Command::new("unshare");
        command
            .args(NAMESPACE)
            .args(["taskset", "--cpu-list", cpus::OF_SERVERS])
            .arg(built::model_server(kind.package())?)
            .arg(program)
            .arg(address.port().to_string())
            .arg(folder)
            .args(numbers.map(|number| number.to_string()))
            // The program has its package's name: its folder is no place to import from.
            .env("PYTHONSAFEPATH", "1");
        let log = folder.join("log");
        Ok(Server {
            process: Process::spawn(&mut command, &log)?,
            kind,
            name,
            address,
            log,
        })
    }

    /// Address of its inference.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.kind.path())
    }

    /// Address for `weir init`.
    pub(super) fn url_for_init(&self) -> String {
        format!("http://{}{}", self.address, self.kind.path_for_init())
    }

    async fn until_ready(&mut self) -> Result<()> {
        let url = self.url();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut ended = None;
        let process = &mut self.process;
        let ready = async || {
            ended = process.exited().ok().flatten();
            let request = client.post(&url).timeout(ANSWER_MAX);
            let request = request.header("content-type", "application/json");
            let answer = request.body(self.kind.body()).send().await;
            ended.is_some() || answer.is_ok_and(|answer| answer.status().is_success())
        };
        let log = self.log.display();
        let what = format!("{} to answer (its log: {log})", self.name);
        wait::until_async(&what, READY_MAX, ready).await?;
        ensure!(
            ended.is_none(),
            "{} ended; making its namespace needs root; its log:\n{}",
            self.name,
            fs::read_to_string(&self.log).unwrap_or_default()
        );
        Ok(())
    }
}
