//! TLS of the endpoints, and of the connection to the leader: certificate and key from files, read again when
//! they change. A file that does not fit leaves the earlier certificate in use.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::leader_client::{CONNECT_MAX, TlsClient, tls_client};
use crate::file_reload::{FileError, Reloaded};

/// Maximum time of a handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Maximum size of each file, in bytes.
pub const TLS_BYTES_MAX: u64 = 1024 * 1024;

/// Files of the endpoints' TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Certificate, followed by its intermediate ones (PEM).
    pub cert: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
    /// Certificates by which that of another planner is trusted (PEM); [`TlsFiles::cert`] itself if `None`.
    pub ca: Option<PathBuf>,
    /// Name that the certificate of another planner must carry.
    pub name: String,
}

/// TLS as read from the files.
#[derive(Debug)]
pub struct TlsState {
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: TlsClient,
}

/// Reason why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum TlsError {
    #[error("{0}")]
    NotRead(#[from] FileError),
    #[error("{0}")]
    Content(String),
}

impl From<String> for TlsError {
    fn from(why: String) -> TlsError {
        TlsError::Content(why)
    }
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or does not fit.
    pub fn read(self) -> Result<Reloaded<TlsState>, TlsError> {
        let server = ServerName::try_from(self.name.clone()).map_err(|_| {
            format!(
                "--tls-name: '{}' must be a DNS name or an address",
                self.name
            )
        })?;
        let mut paths = vec![self.cert.clone(), self.key.clone()];
        paths.extend(self.ca.clone());
        let make = move |contents: &[Vec<u8>]| match contents {
            [cert, key, rest @ ..] => {
                let ca = rest.first().unwrap_or(cert);
                self.state(cert, key, ca, server.clone())
            }
            _ => Err("no certificate".to_owned()),
        };
        Reloaded::read("TLS certificate", paths, TLS_BYTES_MAX, make)
    }

    fn state(
        &self,
        cert: &[u8],
        key: &[u8],
        ca: &[u8],
        server: ServerName<'static>,
    ) -> Result<TlsState, String> {
        let (cert_path, key_path) = (self.cert.display(), self.key.display());
        let ca_path = self.ca.as_ref().unwrap_or(&self.cert).display();
        let provider = Arc::new(ring::default_provider());
        let certs = certificates(cert).map_err(|why| format!("{cert_path}: {why}"))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| format!("{key_path}: no private key in PEM form"))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(certs, key)
            .map_err(|error| format!("{cert_path}, {key_path}: {error}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let client = client_config(ca).map_err(|why| format!("{ca_path}: {why}"))?;
        Ok(TlsState {
            server: Arc::new(config),
            client: tls_client(client, server, CONNECT_MAX),
        })
    }
}

/// Returns the configuration of a client that trusts these certificates (PEM).
pub(super) fn client_config(pem: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for trusted in certificates(pem)? {
        roots.add(trusted).map_err(|error| error.to_string())?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|_| "not in PEM form")?;
    match all.is_empty() {
        true => Err("no certificate in PEM form"),
        false => Ok(all),
    }
}
