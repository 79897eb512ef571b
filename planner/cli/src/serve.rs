//! `weir serve`: plans for the services of one or more files until interrupted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use weir_planner::catalog::{ServedFolder, ServiceSource};
use weir_planner::http::Endpoint;
use weir_planner::serve::{SERVED_MAX, Served, ServedFiles, serve};
use weir_planner::service::Service;
use weir_planner::shared_budget::{SharedBudgetArgument, SharedBudgets};
use weir_planner::spec::{ServiceFile, ServiceSpec};
use weir_planner::specification::{
    ServiceFolder, Specification, SpecificationSource, WritableFile,
};

use crate::endpoint::{TlsArguments, listen, scheme};
use crate::traces::Traces;

/// Arguments of `weir serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Serve {
    /// The service file (YAML or JSON); several are planned for together. Or a folder: each *.yaml, *.yml and *.json in it is a
    /// service file.
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Cores of a budget that several of the services share (budget.shared), as NAME=CORES; may be repeated.
    #[arg(long, value_name = "NAME=CORES")]
    shared_budget: Vec<SharedBudgetArgument>,
    /// Address to listen on, instead of the file's `listen`; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Write the listening address into this file once it accepts connections.
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// Folder in which the load, requests and service times of late, and what forecasters have learned, are kept for the
    /// planner's next start; it is made if it is missing.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Let clients whose key has `write` replace the service files over REST, and create and delete those of a folder.
    #[arg(long)]
    writable: bool,
    #[command(flatten)]
    tls: TlsArguments,
}

impl Serve {
    /// # Errors
    /// An invalid service file, key or certificate, or a port in use.
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let budgets = SharedBudgets::new(&self.shared_budget)?;
        let traces = Traces::start()?;
        let (folder, paths) = self.paths()?;
        let read = paths.iter().map(|path| self.read(path));
        let read = read.collect::<anyhow::Result<Vec<_>>>()?;
        let (files, specifications): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        let served = ServedFiles::new(files, &budgets)?;
        let keys = served.key.read();
        let keys = keys.with_context(|| match paths.as_slice() {
            [first, ..] => format!("service file {}", first.display()),
            [] => String::new(),
        })?;
        let services: Vec<&Service> = served.services.iter().collect();
        // Nobody forwards to it, so that no name is verified.
        let name = services.first().map_or("", |one| one.name.as_str());
        let tls = self.tls.read(None, name.to_owned())?;
        let address = self.listen.unwrap_or(served.listen);
        let listener = listen(address).await;
        let listener = listener.with_context(|| {
            format!("listen: {address} cannot be had; name a free one with --listen")
        })?;
        let address = listener.local_addr()?;
        if let Some(file) = &self.address_file {
            write_whole(file, &format!("{address}\n"))
                .with_context(|| format!("--address-file {}", file.display()))?;
        }
        for service in services {
            tracing::info!(
                "planning for {} on {}://{address}, mode {:?}",
                service.name,
                scheme(tls.as_ref()),
                service.mode
            );
        }
        let endpoint = Endpoint {
            listener,
            keys: keys.into(),
            tls,
        };
        if let Some(folder) = &self.state {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("--state {}", folder.display()))?;
        }
        let source = match folder.filter(|_| self.writable) {
            Some(folder) => ServiceSource::Folder(ServedFolder {
                folder,
                listen: served.listen,
                key: served.key,
            }),
            None => ServiceSource::Files,
        };
        let served = Served {
            services: served.services.into_iter().zip(specifications).collect(),
            source,
            budgets,
            replay: crate::sent_replay::runner(),
            state: self.state,
            traces: traces.sink(),
        };
        let ended = serve(served, endpoint, stop).await;
        traces.end().await;
        ended?;
        tracing::info!("ended");
        Ok(())
    }

    /// Returns the service files, and the folder that they are all files of, if it is given.
    fn paths(&self) -> anyhow::Result<(Option<ServiceFolder>, Vec<PathBuf>)> {
        let Some(path) = self.files.iter().find(|path| path.is_dir()) else {
            return Ok((None, self.files.clone()));
        };
        let shown = path.display();
        if self.files.len() > 1 {
            anyhow::bail!("{shown}: it must be the only argument: a folder is served alone");
        }
        let folder = ServiceFolder::new(path);
        let files = folder.files(SERVED_MAX);
        let files = files.with_context(|| format!("service folder {shown}"))?;
        if files.is_empty() {
            anyhow::bail!(
                "service folder {shown}: it must have a service file: *.yaml, *.yml or *.json"
            );
        }
        Ok((Some(folder), files))
    }

    /// Reads a service file; returns its path too, and the specification as written.
    fn read(&self, path: &Path) -> anyhow::Result<((String, ServiceFile), Specification)> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("service file {shown}"))?;
        let spec = ServiceSpec::from_file(path, &text);
        // As written, without the profiles that it names.
        let written = ServiceSpec::from_yaml(&text);
        let read = spec.and_then(|spec| Ok((ServiceFile::try_from(spec)?, written?)));
        let (file, written) = read.with_context(|| format!("service file {shown}"))?;
        let source = match self.writable {
            true => {
                let file = WritableFile::new(path, text.into_bytes());
                SpecificationSource::Writable(Arc::new(file))
            }
            false => SpecificationSource::File(path.to_owned()),
        };
        Ok(((shown, file), Specification::new(written, source)))
    }
}

/// Writes a file atomically: readers see the whole text or no file.
fn write_whole(file: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}
