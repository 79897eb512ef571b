//! Endpoint of a model server: address, and the bodies of its requests by batch.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::ProfileError;
use crate::forwarded::FORWARDED;
use crate::grpc::Grpc;
use crate::profile_file::Subject;

/// Maximum number of bytes of an answer that an error shows.
const SHOWN_MAX: usize = 200;

/// Header with the length of an answer's JSON, where binary tensors follow it.
const JSON_LENGTH: &str = "inference-header-content-length";

/// Protocol of a model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Any HTTP.
    Http,
    /// Open Inference Protocol v2 (MLServer, Triton, KServe) over HTTP.
    V2,
    /// The same over gRPC.
    V2Grpc,
}

impl Protocol {
    /// Protocol that the path of an address stands for.
    #[must_use]
    pub fn of(url: &Url) -> Protocol {
        let path = url.path();
        match path.starts_with("/v2/models/") && path.ends_with("/infer") {
            true => Protocol::V2,
            false => Protocol::Http,
        }
    }
}

/// Request that was not answered with success.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The answer has another status; the text is the beginning of its body.
    #[error("status {0}: {1}")]
    Status(u16, String),
    /// The answer is no JSON, as it must be in the Open Inference Protocol; the text is the beginning of its body.
    #[error(
        "the answer's body is no JSON, as the Open Inference Protocol has it (--protocol http takes any): {0}"
    )]
    NoJson(String),
    /// No answer.
    #[error("{0}")]
    NoAnswer(String),
}

impl SendError {
    /// Whether the server may answer the same request later: it is not reached, still loads, or is busy.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            SendError::Status(status, _) => {
                !(400..500).contains(status) || [404, 408, 425, 429].contains(status)
            }
            SendError::NoJson(_) => false,
            SendError::NoAnswer(_) => true,
        }
    }
}

/// Form of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batching {
    /// One request with that many rows.
    Rows,
    /// Single requests that the server executes together.
    Requests,
}

/// Endpoint, with the body of a request for each batch.
#[derive(Debug)]
pub struct Endpoint {
    client: Client,
    bodies: BTreeMap<u32, Vec<u8>>,
    subject: Subject,
}

/// Client of a protocol.
#[derive(Debug)]
enum Client {
    Http {
        client: reqwest::Client,
        url: Url,
        content_type: String,
        /// Whether an answer must be JSON.
        is_v2: bool,
    },
    Grpc(Grpc),
}

impl Endpoint {
    /// Creates an endpoint that is sent `body`, repeated for each of `batches` if these are rows.
    ///
    /// # Errors
    /// A batch above 1 where the protocol has none, or a body that cannot be repeated.
    pub fn new(
        url: Url,
        protocol: Protocol,
        batching: Batching,
        (content_type, body): (String, Vec<u8>),
        batches: &[u32],
        timeout: Duration,
    ) -> Result<Endpoint, ProfileError> {
        let subject = Subject {
            url: match protocol {
                Protocol::V2Grpc => format!("{url} over gRPC"),
                Protocol::V2 | Protocol::Http => url.to_string(),
            },
            request_crc32: crc32fast::hash(&body),
            batch_requests: batching == Batching::Requests,
        };
        let bodies = batches.iter().map(|batch| {
            let body = match (batching, protocol, batch) {
                (Batching::Requests, _, _) | (_, _, 1) => body.clone(),
                (Batching::Rows, Protocol::V2 | Protocol::V2Grpc, batch) => repeated(&body, *batch)?,
                (Batching::Rows, Protocol::Http, batch) => {
                    let right = "1, or --batch-requests: only the Open Inference Protocol (/v2/models/NAME/infer) says what the rows of a request are";
                    return Err(ProfileError(format!("--batches: {batch}; it must be {right}")));
                }
            };
            Ok((*batch, body))
        });
        let bodies: BTreeMap<u32, Vec<u8>> = bodies.collect::<Result<_, _>>()?;
        let client = match protocol {
            Protocol::V2Grpc => Client::Grpc(Grpc::new(&url, &bodies, timeout)?),
            Protocol::V2 | Protocol::Http => {
                let client = reqwest::Client::builder()
                    .timeout(timeout)
                    .default_headers(forwarded())
                    .build();
                Client::Http {
                    client: client
                        .map_err(|error| ProfileError(format!("the HTTP client: {error}")))?,
                    url,
                    content_type,
                    is_v2: protocol == Protocol::V2,
                }
            }
        };
        Ok(Endpoint {
            client,
            bodies,
            subject,
        })
    }

    /// Sends one batch and returns the answer's body.
    ///
    /// # Errors
    /// No answer, or one that is no success.
    pub async fn send(&self, batch: u32) -> Result<Vec<u8>, SendError> {
        match &self.client {
            Client::Grpc(client) => client.send(batch).await,
            Client::Http { .. } => {
                let body = self.bodies.get(&batch).cloned().unwrap_or_default();
                self.send_body(body).await
            }
        }
    }

    /// Sends `body` and returns the answer's body.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    pub async fn send_body(&self, body: Vec<u8>) -> Result<Vec<u8>, SendError> {
        let (client, url, content_type, is_v2) = match &self.client {
            Client::Grpc(client) => return client.send_body(&body).await,
            Client::Http {
                client,
                url,
                content_type,
                is_v2,
            } => (client, url, content_type, *is_v2),
        };
        let request = client.post(url.clone());
        let request = request.header(CONTENT_TYPE, content_type).body(body);
        let answer = request.send().await.map_err(no_answer)?;
        let status = answer.status();
        // With binary tensors after it, the JSON has a length of its own.
        let json_bytes = answer.headers().get(JSON_LENGTH);
        let json_bytes = json_bytes.and_then(|bytes| bytes.to_str().ok()?.parse().ok());
        let body = answer.bytes().await.map_err(no_answer)?;
        let shown = || {
            let text = String::from_utf8_lossy(&body);
            text.chars().take(SHOWN_MAX).collect::<String>()
        };
        if !status.is_success() {
            return Err(SendError::Status(status.as_u16(), shown()));
        }
        if is_v2 && !is_json(&body, json_bytes) {
            return Err(SendError::NoJson(shown()));
        }
        Ok(body.to_vec())
    }

    /// Server and requests that are measured.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }
}

/// Headers of each request besides its own.
fn forwarded() -> HeaderMap {
    let one = |(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    FORWARDED.into_iter().map(one).collect()
}

/// Whether a body is JSON, in its first `json_bytes` if these are given.
fn is_json(body: &[u8], json_bytes: Option<usize>) -> bool {
    let json = body.get(..json_bytes.unwrap_or(body.len()));
    json.is_some_and(|json| serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok())
}

/// Innermost cause of an error: reqwest's own text names only the address.
fn no_answer(error: reqwest::Error) -> SendError {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    SendError::NoAnswer(match error.is_timeout() {
        true => "no answer in time".to_owned(),
        false => cause.to_string(),
    })
}

/// Repeats the rows of each input of a v2 request, whose batch must be 1.
fn repeated(body: &[u8], batch: u32) -> Result<Vec<u8>, ProfileError> {
    let refused = |why: String| ProfileError(format!("the request: {why}"));
    let mut request: Value = serde_json::from_slice(body)
        .map_err(|error| refused(format!("{error}; it must be JSON")))?;
    let inputs = request.get_mut("inputs").and_then(Value::as_array_mut);
    let inputs = inputs
        .ok_or_else(|| refused("inputs: missing; it must be a list of tensors".to_owned()))?;
    for (index, input) in inputs.iter_mut().enumerate() {
        let rows = input.pointer_mut("/shape/0");
        let wrong = |found: String| {
            refused(format!(
                "inputs[{index}].shape: {found}; its first number must be 1, the batch"
            ))
        };
        match rows {
            Some(rows) if rows.as_u64() == Some(1) => *rows = Value::from(batch),
            Some(rows) => return Err(wrong(rows.to_string())),
            None => return Err(wrong("missing".to_owned())),
        }
        let data = input.get_mut("data").and_then(Value::as_array_mut);
        let data = data.ok_or_else(|| {
            refused(format!(
                "inputs[{index}].data: missing; it must be a list of values"
            ))
        })?;
        let one = data.clone();
        for _ in 1..batch {
            data.extend_from_slice(&one);
        }
    }
    serde_json::to_vec(&request).map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn protocol_follows_the_path() {
        for (url, expected) in [
            ("http://a:1/v2/models/digits/infer", Protocol::V2),
            ("http://a:1/v2/models/digits/versions/2/infer", Protocol::V2),
            ("http://a:1/v1/models/digits:predict", Protocol::Http),
            ("http://a:1/", Protocol::Http),
        ] {
            assert_eq!(Protocol::of(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn requests_carry_what_proxy_and_filter_add() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut request = vec![0; 4_096];
            let length = stream.read(&mut request).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(answer).await.unwrap();
            String::from_utf8_lossy(&request[..length]).to_lowercase()
        });
        let url = Url::parse(&format!("http://{address}/")).unwrap();
        let body = ("text/plain".to_owned(), b"x".to_vec());
        let time = Duration::from_secs(9);
        let endpoint = Endpoint::new(url, Protocol::Http, Batching::Rows, body, &[1], time);
        assert_eq!(endpoint.unwrap().send(1).await.unwrap(), b"ok");
        let request = served.await.unwrap();
        for (name, value) in FORWARDED {
            assert!(
                request.contains(&format!("\r\n{name}: {value}\r\n")),
                "{request}"
            );
        }
    }

    #[test]
    fn answer_of_the_inference_protocol_is_json() {
        for (body, json_bytes, expected) in [
            (&b"{\"outputs\": []}"[..], None, true),
            (b"not json", None, false),
            (b"", None, false),
            (b"{}\x00\x01", None, false),
            (b"{}\x00\x01", Some(2), true),
            (b"{}", Some(3), false),
        ] {
            assert_eq!(is_json(body, json_bytes), expected, "{body:?}");
        }
    }

    #[test]
    fn batch_repeats_the_rows_of_each_input() {
        let flat = json!({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.5, 2]}]});
        let nested = json!({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [[1.5, 2]]}]});
        for (one, data) in [
            (flat, json!([1.5, 2, 1.5, 2, 1.5, 2])),
            (nested, json!([[1.5, 2], [1.5, 2], [1.5, 2]])),
        ] {
            let three = repeated(one.to_string().as_bytes(), 3).unwrap();
            let three: Value = serde_json::from_slice(&three).unwrap();
            assert_eq!(three["inputs"][0]["shape"], json!([3, 2]));
            assert_eq!(three["inputs"][0]["data"], data);
        }
    }

    #[test]
    fn request_that_cannot_be_repeated_is_refused_by_field() {
        for (body, expected) in [
            ("x", "the request: expected value"),
            ("{}", "the request: inputs: missing"),
            (
                r#"{"inputs": [{"data": [1]}]}"#,
                "the request: inputs[0].shape: missing",
            ),
            (
                r#"{"inputs": [{"shape": [2], "data": [1, 2]}]}"#,
                "the request: inputs[0].shape: 2;",
            ),
            (
                r#"{"inputs": [{"shape": [1]}]}"#,
                "the request: inputs[0].data: missing",
            ),
        ] {
            let error = repeated(body.as_bytes(), 2).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let url = Url::parse("http://a:1/").unwrap();
        let body = ("text/plain".to_owned(), b"x".to_vec());
        let time = Duration::from_secs(1);
        let refused = Endpoint::new(url, Protocol::Http, Batching::Rows, body, &[1, 4], time);
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with("--batches: 4; it must be 1"), "{error}");
    }
}
