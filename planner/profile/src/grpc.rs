//! Open Inference Protocol v2 over gRPC: requests are written as for HTTP, in JSON, and sent as `ModelInfer`; answers are
//! returned as JSON with `outputs`.

mod message;

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::ProfileError;
use crate::endpoint::SendError;
use crate::forwarded::FORWARDED;
use message::{Answer, Contents, Request, Tensor};

/// Method that is called.
const METHOD: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Connection to a server, with the request of each batch.
#[derive(Debug)]
pub struct Grpc {
    channel: Channel,
    model: (String, String),
    requests: BTreeMap<u32, Request>,
}

impl Grpc {
    /// Creates a connection, which is opened by the first request. The path of `url` names the model, as over HTTP.
    ///
    /// # Errors
    /// An address that names no model, or a body that is no request of the protocol.
    pub fn new(
        url: &Url,
        bodies: &BTreeMap<u32, Vec<u8>>,
        timeout: Duration,
    ) -> Result<Grpc, ProfileError> {
        let right =
            "http://HOST:PORT/v2/models/NAME/infer, or with /versions/VERSION before /infer";
        let wrong = || ProfileError(format!("--url {url}: it must be {right}"));
        let parts: Vec<&str> = url.path().trim_matches('/').split('/').collect();
        let model = match parts.as_slice() {
            ["v2", "models", name, "infer"] => ((*name).to_owned(), String::new()),
            ["v2", "models", name, "versions", version, "infer"] => {
                ((*name).to_owned(), (*version).to_owned())
            }
            _ => return Err(wrong()),
        };
        let mut address = url.clone();
        address.set_path("");
        address.set_query(None);
        let endpoint = Endpoint::from_shared(address.to_string()).map_err(|_| wrong())?;
        let requests = bodies
            .iter()
            .map(|(batch, body)| Ok((*batch, request(&model, body)?)));
        Ok(Grpc {
            requests: requests.collect::<Result<_, ProfileError>>()?,
            channel: endpoint
                .timeout(timeout)
                .connect_timeout(timeout)
                .connect_lazy(),
            model,
        })
    }

    /// Sends one batch.
    ///
    /// # Errors
    /// No answer, or one that is no success.
    pub async fn send(&self, batch: u32) -> Result<Vec<u8>, SendError> {
        let request = self.requests.get(&batch).cloned().unwrap_or_default();
        self.call(request).await
    }

    /// Sends a request that is written in JSON.
    ///
    /// # Errors
    /// As [`Grpc::send`]; a body that is no request of the protocol.
    pub async fn send_body(&self, body: &[u8]) -> Result<Vec<u8>, SendError> {
        let request = request(&self.model, body);
        let request = request.map_err(|error| SendError::Status(400, error.to_string()))?;
        self.call(request).await
    }

    async fn call(&self, request: Request) -> Result<Vec<u8>, SendError> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let ready = client.ready().await;
        ready.map_err(|error| SendError::NoAnswer(innermost(&error)))?;
        let path = METHOD.parse();
        let path = path.map_err(|_| SendError::NoAnswer(format!("{METHOD} is no path")))?;
        let codec = ProstCodec::<Request, Answer>::default();
        let mut request = tonic::Request::new(request);
        for (name, value) in FORWARDED {
            let value = MetadataValue::from_static(value);
            request.metadata_mut().insert(name, value);
        }
        let answer = client.unary(request, path, codec).await;
        let answer = answer.map_err(failure)?.into_inner();
        Ok(json(&answer).to_string().into_bytes())
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Failure with the HTTP status that stands for the same.
fn failure(status: Status) -> SendError {
    let text = format!("{:?}: {}", status.code(), status.message());
    match status.code() {
        Code::InvalidArgument | Code::Unimplemented | Code::FailedPrecondition => {
            SendError::Status(400, text)
        }
        Code::NotFound => SendError::Status(404, text),
        Code::PermissionDenied | Code::Unauthenticated => SendError::Status(403, text),
        Code::ResourceExhausted => SendError::Status(429, text),
        Code::DeadlineExceeded | Code::Cancelled => {
            SendError::NoAnswer("no answer in time".to_owned())
        }
        Code::Unavailable => match std::error::Error::source(&status) {
            Some(cause) => SendError::NoAnswer(innermost(cause)),
            None => SendError::Status(503, text),
        },
        _ => SendError::Status(500, text),
    }
}

/// Returns the request that a JSON body stands for.
fn request(model: &(String, String), body: &[u8]) -> Result<Request, ProfileError> {
    let refused = |why: String| ProfileError(format!("the request: {why}"));
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| refused(format!("{error}; it must be JSON")))?;
    let inputs = body.get("inputs").and_then(Value::as_array);
    let inputs = inputs
        .ok_or_else(|| refused("inputs: missing; it must be a list of tensors".to_owned()))?;
    let inputs = inputs.iter().enumerate().map(|(index, input)| {
        tensor(input).map_err(|why| refused(format!("inputs[{index}].{why}")))
    });
    Ok(Request {
        model_name: model.0.clone(),
        model_version: model.1.clone(),
        inputs: inputs.collect::<Result<_, _>>()?,
    })
}

fn tensor(input: &Value) -> Result<Tensor, String> {
    let text = |key: &str| {
        let text = input.get(key).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| format!("{key}: missing; it must be a text"))
    };
    let shape = input.get("shape").and_then(Value::as_array);
    let shape = shape.and_then(|shape| shape.iter().map(Value::as_i64).collect::<Option<_>>());
    let mut values = Vec::new();
    flatten(input.get("data").unwrap_or(&Value::Null), &mut values);
    let datatype = text("datatype")?;
    Ok(Tensor {
        name: text("name")?,
        contents: Some(contents(&datatype, &values)?),
        datatype,
        shape: shape.ok_or("shape: it must be a list of whole numbers")?,
    })
}

/// Collects the values of nested lists, row by row.
fn flatten<'a>(data: &'a Value, into: &mut Vec<&'a Value>) {
    match data {
        Value::Array(values) => values.iter().for_each(|value| flatten(value, into)),
        Value::Null => {}
        value => into.push(value),
    }
}

fn contents(datatype: &str, values: &[&Value]) -> Result<Contents, String> {
    fn all<T>(values: &[&Value], of: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, String> {
        let one = |value: &&Value| {
            of(value).ok_or_else(|| format!("data: {value}; it must be of the datatype"))
        };
        values.iter().map(one).collect()
    }
    let mut contents = Contents::default();
    match datatype {
        "BOOL" => contents.bools = all(values, Value::as_bool)?,
        "INT8" | "INT16" | "INT32" => {
            contents.ints = all(values, |value| i32::try_from(value.as_i64()?).ok())?;
        }
        "INT64" => contents.int64s = all(values, Value::as_i64)?,
        "UINT8" | "UINT16" | "UINT32" => {
            contents.uints = all(values, |value| u32::try_from(value.as_u64()?).ok())?;
        }
        "UINT64" => contents.uint64s = all(values, Value::as_u64)?,
        "FP32" => contents.fp32s = all(values, |value| Some(value.as_f64()? as f32))?,
        "FP64" => contents.fp64s = all(values, Value::as_f64)?,
        "BYTES" => {
            contents.bytes = all(values, |value| Some(value.as_str()?.as_bytes().to_vec()))?;
        }
        other => {
            return Err(format!(
                "datatype: {other}; it must be BOOL, BYTES, or a whole number or FP of 8 to 64 bits, without FP16"
            ));
        }
    }
    Ok(contents)
}

/// Returns the answer in the form of HTTP's.
fn json(answer: &Answer) -> Value {
    let outputs = answer.outputs.iter().enumerate().map(|(index, output)| {
        let data = match (&output.contents, answer.raw_outputs.get(index)) {
            (Some(contents), _) => typed(contents),
            (None, Some(raw)) => raw_values(&output.datatype, raw),
            (None, None) => Vec::new(),
        };
        json!({"name": output.name, "shape": output.shape, "datatype": output.datatype, "data": data})
    });
    json!({"outputs": outputs.collect::<Vec<_>>()})
}

fn typed(contents: &Contents) -> Vec<Value> {
    fn values<T: Clone + Into<Value>>(all: &[T]) -> Vec<Value> {
        all.iter().cloned().map(Into::into).collect()
    }
    let texts = contents
        .bytes
        .iter()
        .map(|bytes| String::from_utf8_lossy(bytes).into());
    let mut all = values(&contents.bools);
    all.extend(values(&contents.ints));
    all.extend(values(&contents.int64s));
    all.extend(values(&contents.uints));
    all.extend(values(&contents.uint64s));
    all.extend(values(&contents.fp32s));
    all.extend(values(&contents.fp64s));
    all.extend(texts);
    all
}

/// Returns raw values of the numeric types that predictions have; none of another type.
fn raw_values(datatype: &str, raw: &[u8]) -> Vec<Value> {
    fn of<const N: usize>(raw: &[u8], value: impl Fn([u8; N]) -> Value) -> Vec<Value> {
        let (parts, _) = raw.as_chunks::<N>();
        parts.iter().map(|part| value(*part)).collect()
    }
    match datatype {
        "FP32" => of(raw, |bytes| f32::from_le_bytes(bytes).into()),
        "FP64" => of(raw, |bytes| f64::from_le_bytes(bytes).into()),
        "INT32" => of(raw, |bytes| i32::from_le_bytes(bytes).into()),
        "INT64" => of(raw, |bytes| i64::from_le_bytes(bytes).into()),
        "UINT8" => of(raw, |bytes| u8::from_le_bytes(bytes).into()),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> (String, String) {
        ("digits".to_owned(), String::new())
    }

    #[test]
    fn request_in_json_becomes_a_message_of_its_datatype() {
        let body = json!({"inputs": [
            {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [[1.5, 2]]},
            {"name": "n", "shape": [1], "datatype": "INT64", "data": [7]},
            {"name": "s", "shape": [1], "datatype": "BYTES", "data": ["a"]},
        ]});
        let found = request(&model(), body.to_string().as_bytes()).unwrap();
        assert_eq!(
            (found.model_name.as_str(), found.inputs.len()),
            ("digits", 3)
        );
        let contents = |index: usize| found.inputs[index].contents.clone().unwrap();
        assert_eq!(contents(0).fp32s, [1.5, 2.0]);
        assert_eq!(
            (contents(1).int64s, contents(2).bytes),
            (vec![7], vec![b"a".to_vec()])
        );
    }

    #[test]
    fn wrong_requests_are_refused_by_field() {
        for (body, expected) in [
            ("x", "the request: expected value"),
            ("{}", "the request: inputs: missing"),
            (
                r#"{"inputs": [{}]}"#,
                "the request: inputs[0].datatype: missing",
            ),
            (
                r#"{"inputs": [{"name": "x", "datatype": "FP16", "shape": [1], "data": [1]}]}"#,
                "the request: inputs[0].datatype: FP16; it must be",
            ),
            (
                r#"{"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1.5]}]}"#,
                "the request: inputs[0].data: 1.5; it must be of the datatype",
            ),
            (
                r#"{"inputs": [{"name": "x", "datatype": "INT32", "data": [1]}]}"#,
                "the request: inputs[0].shape: it must be",
            ),
        ] {
            let error = request(&model(), body.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn typed_and_raw_answers_are_read_alike() {
        let tensor = |contents| Tensor {
            name: "y".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1, 2],
            contents,
        };
        let typed = Contents {
            fp32s: vec![0.5, 0.25],
            ..Contents::default()
        };
        let raw = [0.5_f32, 0.25].map(f32::to_le_bytes).concat();
        for (contents, raw_outputs) in [(Some(typed), vec![]), (None, vec![raw])] {
            let outputs = vec![tensor(contents)];
            let found = json(&Answer {
                outputs,
                raw_outputs,
            });
            assert_eq!(found["outputs"][0]["data"], json!([0.5, 0.25]));
        }
    }

    #[tokio::test]
    async fn address_names_the_model() {
        let of = |url: &str| {
            let url = Url::parse(url).unwrap();
            Grpc::new(&url, &BTreeMap::new(), Duration::from_secs(1)).map(|grpc| grpc.model)
        };
        let version = of("http://a:1/v2/models/m/versions/3/infer").unwrap();
        assert_eq!(version, ("m".to_owned(), "3".to_owned()));
        assert_eq!(of("http://a:1/v2/models/m/infer").unwrap().0, "m");
        for wrong in ["http://a:1/", "http://a:1/v2/models/m"] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(
                error.contains("it must be http://HOST:PORT/v2/models/NAME/infer"),
                "{error}"
            );
        }
    }
}
