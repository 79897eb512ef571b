//! The endpoints' listener, keys and certificate, from arguments.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use weir_planner::file_reload::Reloaded;
use weir_planner::http::{TlsFiles, TlsState};

/// Arguments about the endpoints' TLS.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArguments {
    /// Answer over TLS, with this certificate and its intermediate ones (PEM); read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArguments {
    /// Reads the files; `None` without a certificate. `ca` and `name` are for the certificates of other planners.
    ///
    /// # Errors
    /// A file that cannot be read, or does not fit.
    pub(crate) fn read(
        self,
        ca: Option<PathBuf>,
        name: String,
    ) -> anyhow::Result<Option<Arc<Reloaded<TlsState>>>> {
        let (Some(cert), Some(key)) = (self.tls_cert, self.tls_key) else {
            return Ok(None);
        };
        let files = TlsFiles {
            cert,
            key,
            ca,
            name,
        };
        let state = files.read().context("--tls-cert, --tls-key")?;
        Ok(Some(Arc::new(state)))
    }
}

/// Binds the listener, and raises the limit on open files to what the process may have: each connection is one.
///
/// # Errors
/// An address that cannot be had.
pub(crate) async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    if let Err(error) = rlimit::increase_nofile_limit(rlimit::INFINITY) {
        tracing::warn!("the limit on open files is not raised: {error}");
    }
    TcpListener::bind(address).await
}

/// Returns the scheme of the endpoints' addresses.
pub(crate) fn scheme(tls: Option<&Arc<Reloaded<TlsState>>>) -> &'static str {
    match tls {
        Some(_) => "https",
        None => "http",
    }
}
