//! HTTP client for the planner that leads: over TLS alone if this planner's own endpoints are, and without it
//! otherwise. Connection, answer and size are limited; no redirect is followed.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Request, Response};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::tls::TlsState;
use crate::file_reload::Reloaded;

/// Connection timeout.
pub const CONNECT_MAX: Duration = Duration::from_millis(500);
/// Maximum size of the leader's answer, in bytes: that of a plan.
const ANSWER_BYTES_MAX: usize = weir_api::plan::BYTES_MAX;

/// A client over TLS.
pub(super) type TlsClient = Client<HttpsConnector<HttpConnector>, Body>;

/// Client for the leader.
#[derive(Debug, Clone)]
pub enum LeaderClient {
    /// Without TLS.
    Plain(Box<Client<HttpConnector, Body>>),
    /// With TLS, by the certificate and key files in use.
    Tls(Arc<Reloaded<TlsState>>),
}

impl LeaderClient {
    /// Creates the client, with `tls` as the endpoints' own.
    pub fn new(tls: Option<&Arc<Reloaded<TlsState>>>) -> LeaderClient {
        match tls {
            None => {
                let client = Client::builder(TokioExecutor::new()).build(connector(CONNECT_MAX));
                LeaderClient::Plain(Box::new(client))
            }
            Some(tls) => LeaderClient::Tls(Arc::clone(tls)),
        }
    }

    /// Sends `GET {url}` with these headers, and waits for the whole answer for at most `limit`.
    ///
    /// # Errors
    /// Fails with the reason if there is no answer, or too large a one.
    pub(super) async fn get(
        &self,
        url: &str,
        headers: HeaderMap,
        limit: Duration,
    ) -> Result<Response<Bytes>, String> {
        let mut request = Request::get(url)
            .body(Body::empty())
            .map_err(|e| reason(&e))?;
        *request.headers_mut() = headers;
        let answer = async {
            let response = match self {
                LeaderClient::Plain(client) => client.request(request).await,
                LeaderClient::Tls(tls) => tls.current().client.request(request).await,
            };
            let (head, body) = response.map_err(|error| reason(&error))?.into_parts();
            let body = to_bytes(Body::new(body), ANSWER_BYTES_MAX).await;
            Ok(Response::from_parts(
                head,
                body.map_err(|error| reason(&error))?,
            ))
        };
        match timeout(limit, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {limit:?}")),
        }
    }
}

/// Creates a client that verifies certificates by `config`, for the name `server`.
pub(super) fn tls_client(
    config: ClientConfig,
    server: ServerName<'static>,
    connect_max: Duration,
) -> TlsClient {
    let mut connector = connector(connect_max);
    connector.enforce_http(false);
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(server))
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new()).build(https)
}

pub(super) fn connector(connect_max: Duration) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(connect_max));
    connector.set_nodelay(true);
    connector
}

/// Returns the innermost cause.
pub(super) fn reason(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
