//! One request as HTTP: where it goes, how, and what its answer means.
//!
//! Decides nothing about time; never sends a request twice.

use std::time::Duration;

use anyhow::Context;
use axum::body::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::fate::{Fate, reason};

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
}

/// What every request is like.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The latency objective, from send time to answer; sent as `x-slo-ms`.
    pub slo: Duration,
    /// After how long the client leaves.
    pub patience: Duration,
    /// What is really sent; the payload of the network model is a number of its own.
    pub body: Bytes,
    /// Size of the answer for the network model.
    pub answer_bytes: u64,
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
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
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
    // A request sent again would be a second request: never.
    let client = reqwest::Client::builder()
        .default_headers(headers)
        .retry(reqwest::retry::never())
        .no_proxy();
    let client = match sender.protocol {
        Protocol::Http1 => client.http1_only(),
        Protocol::Http2 => client.http2_prior_knowledge(),
    };
    Ok(client.build()?)
}

/// The part of an answer that is read.
#[derive(Deserialize)]
struct Answer {
    model_name: Option<String>,
}

/// What the answer says became of the request.
pub(super) async fn fate(response: reqwest::Response) -> Fate {
    let status = response.status().as_u16();
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        Some(value.to_str().ok()?.to_owned())
    };
    let variant = header("x-slo-variant");
    let remaining_ms = header("x-slo-remaining-ms").and_then(|ms| ms.parse().ok());
    if status != 200 {
        let overloaded = header("x-envoy-overloaded").is_some();
        let reason = reason(
            status,
            header("x-slo-dropped-reason").as_deref(),
            overloaded,
        );
        // Read to its end, so that the connection can be kept.
        let _ = response.bytes().await;
        return Fate::Refused { status, reason };
    }
    match response.bytes().await {
        Ok(body) => {
            let answer = serde_json::from_slice::<Answer>(&body).ok();
            Fate::Answered {
                variant: answer.and_then(|answer| answer.model_name).or(variant),
                remaining_ms,
            }
        }
        Err(error) => lost(&error),
    }
}

/// No answer, with the whole chain of causes.
pub(super) fn lost(error: &reqwest::Error) -> Fate {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    Fate::Lost { error: message }
}
