//! Three MLServers of different accuracy and cost, each with a CPU quota of its own.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_bed::process::Process;
use weir_bed::{built, wait};
use weir_planner::backends::cgroup::Cgroup;

/// Names and CPU quotas, from the cheapest server to the most accurate. They leave more than a core to the proxy and the
/// load generator, which at twice the throughput must not be what limits.
pub(crate) const SERVERS: [(&str, f64); 3] = [("small", 0.1), ("medium", 0.25), ("large", 0.3)];
/// Name under which each of them serves its model.
pub(crate) const MODEL: &str = "digits";
/// Time limit until a server answers: with little CPU it loads for long.
const READY_MAX: Duration = Duration::from_secs(120);
/// Cores of a server while it loads, before anything is measured.
const LOADING_CORES: f64 = 2.0;
/// CPU shares of a server, by default 1,024: the rest of the machine does not take its quota away.
const SHARES: &str = "4096";
const MODELS: &str = include_str!("models.py");

/// Trained models, and what they are measured with.
#[derive(Debug)]
pub(crate) struct Models {
    folder: PathBuf,
}

impl Models {
    /// Trains them into that folder, unless they are there.
    pub(crate) fn ensure(folder: &Path) -> Result<Models> {
        let stamp = folder.join("models.py");
        let models = Models {
            folder: folder.to_owned(),
        };
        if fs::read_to_string(&stamp).is_ok_and(|text| text == MODELS) {
            return Ok(models);
        }
        eprintln!("training three classifiers");
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let trained = Command::new(built::model_server("mlserver")?)
            .args(["-c", MODELS])
            .arg(folder)
            .output()
            .context("cannot run Python")?;
        let stderr = String::from_utf8_lossy(&trained.stderr);
        ensure!(trained.status.success(), "the training failed: {stderr}");
        fs::write(&stamp, MODELS).context("cannot write the stamp")?;
        Ok(models)
    }

    /// Labelled requests that no model was trained with.
    pub(crate) fn labels(&self) -> PathBuf {
        self.folder.join("labels.jsonl")
    }

    /// Body of one request.
    pub(crate) fn request(&self) -> PathBuf {
        self.folder.join("request.json")
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    // Ends before its group is removed.
    process: Process,
    pub(crate) group: Group,
    pub(crate) name: &'static str,
    /// Quota that it starts with.
    pub(crate) cores: f64,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    metrics: SocketAddr,
    folder: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts all [`SERVERS`], and waits until each answers.
    pub(crate) async fn start_all(models: &Models, logs: &Path) -> Result<Vec<Server>> {
        let mut servers = Vec::new();
        for (name, cores) in SERVERS {
            let group = Group::create(name)?;
            let folder = models.folder.join(name);
            let [http, grpc, metrics] = [free()?, free()?, free()?];
            let log = logs.join(format!("{name}.log"));
            group.set(LOADING_CORES)?;
            let process = start(&folder, [http, grpc, metrics], &group, &log)?;
            servers.push(Server {
                process,
                group,
                name,
                cores,
                http,
                grpc,
                metrics,
                folder,
                log,
            });
        }
        for server in &servers {
            server.until_ready().await?;
            server.group.set(server.cores)?;
        }
        Ok(servers)
    }

    /// Starts it anew at the same addresses, after it was killed. It loads with its own quota, as it would in production.
    pub(crate) fn restart(&mut self) -> Result<()> {
        let ports = [self.http, self.grpc, self.metrics];
        self.process = start(&self.folder, ports, &self.group, &self.log)?;
        Ok(())
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Stops it (`SIGSTOP`) or lets it go on (`SIGCONT`).
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill")
            .args([signal, &self.process.pid().to_string()])
            .status()
            .context("cannot run kill")?;
        ensure!(status.success(), "kill {signal}: {status}");
        Ok(())
    }

    /// Process that runs it.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// CPU time that it has used, ms.
    pub(crate) fn used_ms(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.process.pid()))?;
        // `pid (name) state …`: fields 14 and 15 are its times in user and kernel mode, in hundredths of a second.
        let after_name = text.rsplit_once(')').context("no name")?.1;
        let times = after_name.split_whitespace().skip(11).take(2);
        let times: Result<Vec<f64>, _> = times.map(str::parse).collect();
        Ok(times?.iter().sum::<f64>() * 10.0)
    }

    /// Loads or unloads the model; without it the server answers 404.
    pub(crate) async fn repository(&self, action: &str) -> Result<()> {
        let url = format!("http://{}/v2/repository/models/{MODEL}/{action}", self.http);
        let client = reqwest::Client::builder().no_proxy().build()?;
        client.post(url).send().await?.error_for_status()?;
        Ok(())
    }

    /// Address of its model's inference.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v2/models/{MODEL}/infer", self.http)
    }

    /// Waits until it answers.
    pub(crate) async fn until_ready(&self) -> Result<()> {
        let url = format!("http://{}/v2/models/{MODEL}/ready", self.http);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let ready = async || {
            let answer = client.get(&url).timeout(READY_MAX).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        };
        let what = format!("{} to answer (its log: {})", self.name, self.log.display());
        wait::until_async(&what, READY_MAX, ready).await
    }
}

fn start(
    folder: &Path,
    [http, grpc, metrics]: [SocketAddr; 3],
    group: &Group,
    log: &Path,
) -> Result<Process> {
    let mut command = Command::new(built::model_server("mlserver")?);
    command
        .args(["-c", "from mlserver.cli import main; main()", "start", "."])
        .current_dir(folder)
        .env("MLSERVER_HOST", "127.0.0.1")
        .env("MLSERVER_HTTP_PORT", http.port().to_string())
        .env("MLSERVER_GRPC_PORT", grpc.port().to_string())
        .env("MLSERVER_METRICS_PORT", metrics.port().to_string())
        .env("MLSERVER_PARALLEL_WORKERS", "0")
        .env("MLSERVER_DEBUG", "false")
        .env("OMP_NUM_THREADS", "1");
    let process = Process::spawn(&mut command, log)?;
    group.add(process.pid())?;
    Ok(process)
}

/// An address on which nobody listens.
pub(crate) fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Control group of one server; removed when dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    fn create(name: &str) -> Result<Group> {
        // Version 1 mounts each controller, version 2 all of them together.
        let one = Path::new("/sys/fs/cgroup/cpu");
        let root = match one.is_dir() {
            true => one,
            false => Path::new("/sys/fs/cgroup"),
        };
        let folder = root.join(format!("weir-{}-{name}", std::process::id()));
        fs::create_dir(&folder).with_context(|| {
            format!(
                "cannot create the control group {}: CPU quotas need root",
                folder.display()
            )
        })?;
        let group = Group { folder };
        Cgroup::open(&group.folder)?;
        if group.folder.join("cpu.shares").is_file() {
            group.write("cpu.shares", SHARES)?;
        }
        Ok(group)
    }

    /// Folder of the group.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Name of the group below the folder of all groups.
    pub(crate) fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Cores that the quota gives.
    pub(crate) fn cores(&self) -> Result<f64> {
        let cores = Cgroup::open(&self.folder)?.cores()?;
        let cores = cores.with_context(|| format!("{} has no quota", self.folder.display()))?;
        Ok(cores.as_f64())
    }

    /// Sets the quota to that many cores.
    pub(crate) fn set(&self, cores: f64) -> Result<()> {
        Ok(Cgroup::open(&self.folder)?.set(cores)?)
    }

    fn add(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel refuses while a process of it ends; a later run uses another name.
        let _ = fs::remove_dir(&self.folder);
    }
}
