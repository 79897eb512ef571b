//! One request over HTTP: its target, protocol and headers.
//!
//! Decides nothing about time; never sends a request twice.

use std::time::Duration;

use anyhow::Context;
use axum::body::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::fate::Fate;

/// Destination of requests.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name in messages.
    pub name: String,
    /// The whole URL to post to.
    pub url: String,
    /// URLs of the later stages of a pipeline. Each is called, with the same headers, after the stage before has
    /// answered. The orchestrator is assumed to be near the stages: no network delay is added between them.
    pub then: Vec<String>,
    /// Headers besides the generator's own.
    pub headers: Vec<(String, String)>,
}

/// Separator of the variants in a fate that names one for each stage.
pub const STAGES: char = '+';

/// Protocol between the client and the proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 with keep-alive connections, as many as needed.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge, one connection.
    Http2,
    /// gRPC on one such connection, one message each way. The body is a message with its frame header
    /// ([`crate::oip::frame`]).
    Grpc,
}

/// Properties common to all requests.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The latency objective, from send time to response; sent as `x-slo-ms`.
    pub slo: Duration,
    /// Time after which the client disconnects.
    pub timeout: Duration,
    /// The bytes really sent, spread over the transfer time of the planned payload. A smaller body stands for that
    /// payload; its last byte goes out when the payload's would.
    pub body: Bytes,
    /// Size of the response for the network model.
    pub answer_bytes: u64,
    /// Rate at which the client reads the response; unlimited by default.
    pub read_bytes_per_s: Option<u32>,
    /// Protocol.
    pub protocol: Protocol,
}

/// Combines the fates of the stages so far and of the next one: a stage without an answer ends the pipeline.
pub(super) fn joined(before: Fate, next: Fate) -> Fate {
    match (before, next) {
        (
            Fate::Answered { variant: first, .. },
            Fate::Answered {
                variant,
                remaining_ms,
            },
        ) => Fate::Answered {
            variant: first
                .zip(variant)
                .map(|(first, next)| format!("{first}{STAGES}{next}")),
            remaining_ms,
        },
        (Fate::Answered { .. }, ended) | (ended, _) => ended,
    }
}

pub(super) fn client(target: &Target, sender: &Sender) -> anyhow::Result<reqwest::Client> {
    let mut headers = sender.protocol.headers();
    headers.insert(
        "x-slo-ms",
        HeaderValue::from_str(&sender.slo.as_millis().to_string())?,
    );
    for (name, value) in &target.headers {
        let context = || format!("{}: header '{name}: {value}'", target.name);
        let name: HeaderName = name.parse().with_context(context)?;
        headers.insert(name, value.parse().with_context(context)?);
    }
    for url in std::iter::once(&target.url).chain(&target.then) {
        url.parse::<reqwest::Url>()
            .with_context(|| format!("{}: {url}", target.name))?;
    }
    Ok(sender.protocol.client().default_headers(headers).build()?)
}

impl Protocol {
    /// Headers of its requests.
    pub(crate) fn headers(self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let content_type = match self {
            Protocol::Http1 | Protocol::Http2 => "application/json",
            Protocol::Grpc => "application/grpc",
        };
        headers.insert("content-type", HeaderValue::from_static(content_type));
        if self == Protocol::Grpc {
            headers.insert("te", HeaderValue::from_static("trailers"));
        }
        headers
    }

    /// A client that speaks it and never retries, because a retry would be a second request.
    pub(crate) fn client(self) -> reqwest::ClientBuilder {
        let client = reqwest::Client::builder()
            .retry(reqwest::retry::never())
            .no_proxy();
        match self {
            Protocol::Http1 => client.http1_only(),
            Protocol::Http2 | Protocol::Grpc => client.http2_prior_knowledge(),
        }
    }
}
