//! A gRPC client of the protocol, on tonic: one call or a stream of them, with whatever headers.
//!
//! It sends what it is told and shows what came back; it retries nothing.

use std::net::SocketAddr;

use futures_util::Stream;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse, SERVICE};

/// Headers to send beside what gRPC needs.
pub type Headers<'a> = &'a [(&'a str, String)];

/// A client with one connection, made when first used.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
}

impl Client {
    /// A client of whoever listens there.
    ///
    /// # Errors
    /// The address makes no URL.
    pub fn of(address: SocketAddr) -> anyhow::Result<Client> {
        Client::of_url(&format!("http://{address}"))
    }

    /// A client of whoever is at this URL; its path is left out.
    ///
    /// # Errors
    /// It is no URL.
    pub fn of_url(url: &str) -> anyhow::Result<Client> {
        let mut parts = reqwest::Url::parse(url)?;
        parts.set_path("");
        parts.set_query(None);
        let channel = Endpoint::from_shared(parts.to_string())?.connect_lazy();
        Ok(Client { channel })
    }

    /// One call of a method of the service: `ServerLive`, `ModelInfer`, …
    ///
    /// # Errors
    /// The status it ended with, trailers and all.
    pub async fn call<Q, A>(
        &self,
        method: &str,
        asked: Q,
        headers: Headers<'_>,
    ) -> Result<Response<A>, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let request = with_headers(Request::new(asked), headers)?;
        grpc.unary(request, path(method)?, ProstCodec::default())
            .await
    }

    /// `ModelInfer`.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn infer(
        &self,
        asked: ModelInferRequest,
        headers: Headers<'_>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        self.call("ModelInfer", asked, headers).await
    }

    /// `ModelStreamInfer`: the stream is open until `asked` ends and the server has answered all of it.
    ///
    /// # Errors
    /// The status, where it ended before its first answer.
    pub async fn stream(
        &self,
        asked: impl Stream<Item = ModelInferRequest> + Send + 'static,
        headers: Headers<'_>,
    ) -> Result<Response<Streaming<ModelStreamInferResponse>>, Status> {
        let mut grpc = self.ready().await?;
        let request = with_headers(Request::new(asked), headers)?;
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
