//! `weir serve`: plans for the service of a file until interrupted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use weir_planner::http::Endpoint;
use weir_planner::serve::{ServedService, serve};
use weir_planner::spec::{ServiceFile, ServiceSpec};
use weir_planner::specification::{Specification, SpecificationSource, WritableFile};

use crate::endpoint::{TlsArguments, listen, scheme};

/// Arguments of `weir serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Serve {
    /// The service file (YAML).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Address to listen on, instead of the file's `listen`; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Write the listening address into this file once it accepts connections.
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// Folder in which the load measured of late, and what forecasters have learned, are kept for the planner's next start;
    /// it is made if it is missing.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Let clients whose key has `write` replace the service file over REST.
    #[arg(long)]
    writable: bool,
    #[command(flatten)]
    tls: TlsArguments,
}

impl Serve {
    /// # Errors
    /// An invalid service file, key or certificate, or a port in use.
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let path = &self.file;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("service file {}", path.display()))?;
        let spec = ServiceSpec::from_file(path, &text);
        // As written, without the profiles that it names.
        let written = ServiceSpec::from_yaml(&text);
        let file = spec.and_then(|spec| Ok((ServiceFile::try_from(spec)?, written?)));
        let (file, written) = file.with_context(|| format!("service file {}", path.display()))?;
        let keys = file
            .key
            .read()
            .with_context(|| format!("service file {}", path.display()))?;
        // Nobody forwards to it, so that no name is verified.
        let tls = self.tls.read(None, file.service.name.clone())?;
        let address = self.listen.unwrap_or(file.listen);
        let listener = listen(address).await;
        let listener = listener.with_context(|| {
            format!("listen: {address} cannot be had; name a free one with --listen")
        })?;
        let address = listener.local_addr()?;
        if let Some(file) = &self.address_file {
            write_whole(file, &format!("{address}\n"))
                .with_context(|| format!("--address-file {}", file.display()))?;
        }
        tracing::info!(
            "planning for {} on {}://{address}, mode {:?}",
            file.service.name,
            scheme(tls.as_ref()),
            file.service.mode
        );
        let endpoint = Endpoint {
            listener,
            keys: keys.into(),
            tls,
        };
        if let Some(folder) = &self.state {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("--state {}", folder.display()))?;
        }
        let source = match self.writable {
            true => {
                SpecificationSource::Writable(Arc::new(WritableFile::new(path, text.into_bytes())))
            }
            false => SpecificationSource::File(path.clone()),
        };
        let served = ServedService {
            service: file.service,
            specification: Specification::new(written, source),
            replay: crate::sent_replay::runner(),
            state: self.state,
        };
        serve(served, endpoint, stop).await?;
        tracing::info!("ended");
        Ok(())
    }
}

/// Writes a file atomically: readers see the whole text or no file.
fn write_whole(file: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}
