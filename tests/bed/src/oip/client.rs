//! A gRPC client of the protocol, on tonic: single calls or a stream, with any headers.
//!
//! It never retries.

use std::net::SocketAddr;

use futures_util::Stream;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse, SERVICE};

/// Headers besides those that gRPC needs.
pub type Headers<'a> = &'a [(&'a str, String)];

/// A client with one connection, made when first used.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
}

impl Client {
    /// A client of the server at `address`.
    ///
    /// # Errors
    ///
    /// `address` makes no valid URL.
    pub fn of(address: SocketAddr) -> anyhow::Result<Client> {
        Client::of_url(&format!("http://{address}"))
    }

    /// A client of the server at `url`; its path is ignored.
    ///
    /// # Errors
    ///
    /// `url` is invalid.
    pub fn of_url(url: &str) -> anyhow::Result<Client> {
        let mut parts = reqwest::Url::parse(url)?;
        parts.set_path("");
        parts.set_query(None);
        let channel = Endpoint::from_shared(parts.to_string())?.connect_lazy();
        Ok(Client { channel })
    }

    /// Calls one method of the service: `ServerLive`, `ModelInfer`, …
    ///
    /// # Errors
    ///
    /// The call's status, with its trailers.
    pub async fn call<Q, A>(
        &self,
        method: &str,
        message: Q,
        headers: Headers<'_>,
    ) -> Result<Response<A>, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let request = with_headers(Request::new(message), headers)?;
        grpc.unary(request, path(method)?, ProstCodec::default())
            .await
    }

    /// `ModelInfer`.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn infer(
        &self,
        message: ModelInferRequest,
        headers: Headers<'_>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        self.call("ModelInfer", message, headers).await
    }

    /// `ModelStreamInfer`: the stream stays open until `requests` ends and the server has answered
    /// every request.
    ///
    /// # Errors
    ///
    /// The status, if the stream ended before its first response.
    pub async fn stream(
        &self,
        requests: impl Stream<Item = ModelInferRequest> + Send + 'static,
        headers: Headers<'_>,
    ) -> Result<Response<Streaming<ModelStreamInferResponse>>, Status> {
        let mut grpc = self.ready().await?;
        let request = with_headers(Request::new(requests), headers)?;
        let path = path("ModelStreamInfer")?;
        grpc.streaming(request, path, ProstCodec::default()).await
    }

    async fn ready(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        let ready = grpc.ready().await;
        ready.map_err(|error| Status::unavailable(format!("no connection: {error}")))?;
        Ok(grpc)
    }
}

fn path(method: &str) -> Result<axum::http::uri::PathAndQuery, Status> {
    let path = format!("/{SERVICE}/{method}").parse();
    path.map_err(|_| Status::internal(format!("'{method}' cannot be a method")))
}

fn with_headers<T>(mut request: Request<T>, headers: Headers<'_>) -> Result<Request<T>, Status> {
    for (name, value) in headers {
        let bad = || Status::internal(format!("'{name}: {value}' cannot be a header"));
        let key: AsciiMetadataKey = name.parse().map_err(|_| bad())?;
        let value: AsciiMetadataValue = value.parse().map_err(|_| bad())?;
        request.metadata_mut().insert(key, value);
    }
    Ok(request)
}
