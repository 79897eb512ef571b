//! A response: reading it, at a limited rate if asked, and the fate of the request it shows.

use std::time::Duration;

use http_body_util::BodyExt;
use prost::Message;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use tokio::time::Instant;

use super::client::{Protocol, Sender};
use crate::fate::{Fate, reason};
use crate::oip::{FRAME_HEAD, ModelInferResponse};

/// A response that has been read to its end.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Headers and trailers.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Reads the whole response, at `bytes_per_s` at most. A refusal counts as soon as its status
    /// has arrived, whatever happens to its body: a server that refuses an unfinished upload may
    /// close the connection at once.
    ///
    /// # Errors
    ///
    /// The connection or the stream of a successful response ended early.
    pub(crate) async fn read(
        response: reqwest::Response,
        bytes_per_s: Option<u32>,
    ) -> reqwest::Result<Answer> {
        let response = axum::http::Response::<reqwest::Body>::from(response);
        let (parts, mut unread) = response.into_parts();
        let mut answer = Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: Vec::new(),
        };
        let started = Instant::now();
        while let Some(frame) = unread.frame().await {
            let frame = match frame {
                Err(_) if answer.status != 200 => break,
                frame => frame?,
            };
            match frame.into_data() {
                Ok(data) => answer.body.extend_from_slice(&data),
                Err(frame) => answer
                    .headers
                    .extend(frame.into_trailers().unwrap_or_default()),
            }
            if let Some(bytes_per_s) = bytes_per_s {
                let read_s = answer.body.len() as f64 / f64::from(bytes_per_s.max(1));
                tokio::time::sleep_until(started + Duration::from_secs_f64(read_s)).await;
            }
        }
        Ok(answer)
    }

    /// Value of a header or trailer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The status in its protocol's own numbers, if it is not a success.
    pub(crate) fn refusal(&self, protocol: Protocol) -> Option<u16> {
        match (self.status, protocol) {
            (200, Protocol::Grpc) => {
                let unsaid = GRPC_UNKNOWN;
                let code = self.header("grpc-status").map(|code| code.parse().ok());
                let code = code.flatten().unwrap_or(unsaid);
                (code != 0).then_some(code)
            }
            (200, _) => None,
            (status, _) => Some(status),
        }
    }

    /// Reason of an unsuccessful response.
    pub(crate) fn reason(&self, status: u16) -> String {
        let overloaded = self.header("x-envoy-overloaded").is_some();
        reason(status, self.header("x-slo-dropped-reason"), overloaded)
    }

    /// The model that the response names.
    fn model_name(&self, protocol: Protocol) -> Option<String> {
        if protocol == Protocol::Grpc {
            let message = self.body.get(FRAME_HEAD..)?;
            let name = ModelInferResponse::decode(message).ok()?.model_name;
            return (!name.is_empty()).then_some(name);
        }
        serde_json::from_slice::<Named>(&self.body).ok()?.model_name
    }
}

/// gRPC status of a response without one.
const GRPC_UNKNOWN: u16 = 2;

/// The parsed part of a JSON response.
#[derive(Deserialize)]
struct Named {
    model_name: Option<String>,
}

/// The fate of the request, by its response.
pub(super) async fn fate(response: reqwest::Response, sender: &Sender) -> Fate {
    let answer = match Answer::read(response, sender.read_bytes_per_s).await {
        Ok(answer) => answer,
        Err(error) => return lost(&error),
    };
    if let Some(status) = answer.refusal(sender.protocol) {
        let reason = answer.reason(status);
        return Fate::Refused { status, reason };
    }
    let variant = answer.header("x-slo-variant").map(str::to_owned);
    let remaining_ms = answer.header("x-slo-remaining-ms");
    Fate::Answered {
        variant: answer.model_name(sender.protocol).or(variant),
        remaining_ms: remaining_ms.and_then(|ms| ms.parse().ok()),
    }
}

/// The fate of a request without a response, with the whole chain of causes.
pub(super) fn lost(error: &reqwest::Error) -> Fate {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    Fate::Lost { error: message }
}
