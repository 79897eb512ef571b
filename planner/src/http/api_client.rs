//! HTTP client of the program: for a planner's REST API, over TLS with `https`, for the admin interface of an Envoy, and
//! for a collector of traces. Time and size of an answer are limited; no redirect is followed.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, Response, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

use super::leader_client::{TlsClient, connector, reason, tls_client};
use super::tls::{TLS_BYTES_MAX, client_config};

/// Maximum size of an answer, in bytes: an Envoy's statistics or configuration may be large.
pub const API_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum time of a request, connection included.
pub const API_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum time of a connection's establishment.
const API_CONNECT_MAX: Duration = Duration::from_secs(5);

/// Certificates that a planner is trusted by, and the name in its own.
#[derive(Debug, Clone)]
pub struct Trust {
    /// File of the certificates (PEM).
    pub ca: PathBuf,
    /// Name, or address, that the planner's certificate must carry.
    pub name: String,
}

/// Client for the REST API.
#[derive(Debug, Clone)]
pub struct ApiClient {
    plain: Client<HttpConnector, Body>,
    tls: Option<TlsClient>,
}

/// Answer of any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAnswer {
    /// HTTP status code.
    pub status: u16,
    /// Body; bytes that are not UTF-8 are replaced.
    pub body: String,
}

impl ApiClient {
    /// Creates a client; only one with `trust` takes addresses that begin with `https`.
    ///
    /// # Errors
    /// Fails if the certificates cannot be read, or the name is none.
    pub fn new(trust: Option<&Trust>) -> Result<ApiClient, String> {
        let tls = trust.map(|trust| {
            let path = trust.ca.display();
            let size = std::fs::metadata(&trust.ca).map_err(|error| format!("{path}: {error}"))?;
            if size.len() > TLS_BYTES_MAX {
                return Err(format!(
                    "{path}: too large; it must have at most {TLS_BYTES_MAX} bytes"
                ));
            }
            let pem = std::fs::read(&trust.ca).map_err(|error| format!("{path}: {error}"))?;
            let server = ServerName::try_from(trust.name.clone());
            let server =
                server.map_err(|_| format!("'{}' is no DNS name or address", trust.name))?;
            let config = client_config(&pem).map_err(|why| format!("{path}: {why}"))?;
            Ok(tls_client(config, server, API_CONNECT_MAX))
        });
        Ok(ApiClient {
            plain: Client::builder(TokioExecutor::new()).build(connector(API_CONNECT_MAX)),
            tls: tls.transpose()?,
        })
    }

    /// Sends `GET {url}`, with the key if there is one, and waits for the whole answer.
    ///
    /// # Errors
    /// Fails with the reason if there is no answer, or too large a one.
    pub async fn get(&self, url: &str, key: Option<&str>) -> Result<ApiAnswer, String> {
        let mut request = Request::get(url);
        if let Some(key) = key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request.body(Body::empty());
        let request = request.map_err(|error| reason(&error))?;
        let answer = self.send(request, API_BYTES_MAX, API_TIME_MAX).await?;
        Ok(ApiAnswer {
            status: answer.status().as_u16(),
            body: String::from_utf8_lossy(answer.body()).into_owned(),
        })
    }

    /// Sends a request, and waits for the whole answer: for at most `time_max`, with a body of at most `bytes_max`.
    ///
    /// # Errors
    /// Fails with the reason if there is no answer, or too large a one.
    pub async fn send<B: Into<Body>>(
        &self,
        request: Request<B>,
        bytes_max: usize,
        time_max: Duration,
    ) -> Result<Response<Bytes>, String> {
        let request = request.map(Into::into);
        let is_https = request.uri().scheme_str() == Some("https");
        let answer = async {
            let response = match (&self.tls, is_https) {
                (Some(tls), true) => tls.request(request).await,
                (None, true) => return Err("https without certificates to trust".to_owned()),
                (_, false) => self.plain.request(request).await,
            };
            let (head, body) = response.map_err(|error| reason(&error))?.into_parts();
            let body = to_bytes(Body::new(body), bytes_max).await;
            let body = body.map_err(|error| reason(&error))?;
            Ok(Response::from_parts(head, body))
        };
        match timeout(time_max, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {time_max:?}")),
        }
    }
}
