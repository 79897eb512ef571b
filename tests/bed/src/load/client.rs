//! One request as HTTP: where it goes and how.
//!
//! Decides nothing about time; never sends a request twice.

use std::time::Duration;

use anyhow::Context;
use axum::body::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::fate::Fate;

/// Where requests go.
#[derive(Debug, Clone)]
pub struct Target {
    /// What it is called in messages.
    pub name: String,
    /// The whole URL that is posted to.
    pub url: String,
    /// The later stages of a pipeline, likewise: each is asked, with the same headers, when the one before
    /// has answered. Who orchestrates them is near them: no network lies between.
    pub then: Vec<String>,
    /// Headers beside the generator's own.
    pub headers: Vec<(String, String)>,
}

/// Between the stages' variants where an answer names several.
pub const STAGES: char = '+';

/// How the client speaks to the proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 with kept connections, as many as needed.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge, one connection.
    Http2,
    /// gRPC, one message each way, on such a connection. The body is a message with its frame's head
    /// ([`crate::oip::frame`]).
    Grpc,
}

/// What every request is like.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The latency objective, from send time to answer; sent as `x-slo-ms`.
    pub slo: Duration,
    /// After how long the client leaves.
    pub patience: Duration,
    /// What is really sent, over the time that the network takes for the planned payload: a body smaller
    /// than that stands for it, and its last byte too goes out when the payload's does.
    pub body: Bytes,
    /// Size of the answer for the network model.
    pub answer_bytes: u64,
    /// How fast the client reads its answer; as fast as it comes, where nothing is said.
    pub read_bytes_per_s: Option<u32>,
    /// Protocol.
    pub protocol: Protocol,
}

/// One end for all stages so far and the next: whoever does not answer ends it.
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
    /// Headers that its requests have.
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

    /// A client that speaks it and sends nothing twice: a request sent again would be a second request.
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
