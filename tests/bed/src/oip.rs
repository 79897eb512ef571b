//! The used part of the Open Inference Protocol v2 over gRPC: messages written by hand, with the
//! tags of the public specification, and a client.
//!
//! Handwritten rather than generated, so that the build needs no `protoc`. `tests/clients.rs`
//! checks the tags with a third-party client. It decides nothing.

mod client;

use std::collections::HashMap;

pub use client::{Client, Headers};

/// The service's full name, as in request paths.
pub const SERVICE: &str = "inference.GRPCInferenceService";

/// Length of the gRPC frame header: a compression flag and the message's length.
pub const FRAME_HEAD: usize = 5;

/// A message in a gRPC frame, not compressed.
#[must_use]
pub fn frame(message: &impl prost::Message) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEAD];
    frame.extend(message.encode_to_vec());
    let length = u32::try_from(frame.len() - FRAME_HEAD).unwrap_or(u32::MAX);
    for (byte, of_length) in frame.iter_mut().skip(1).zip(length.to_be_bytes()) {
        *byte = of_length;
    }
    frame
}

/// Request for the server's liveness.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerLiveRequest {}

/// The server's liveness.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerLiveResponse {
    /// Whether the server is live.
    #[prost(bool, tag = "1")]
    pub live: bool,
}

/// Request for the server's readiness.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerReadyRequest {}

/// The server's readiness.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerReadyResponse {
    /// Whether the server is ready.
    #[prost(bool, tag = "1")]
    pub ready: bool,
}

/// Names a model, to request its readiness or its metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version; empty: chosen by the server.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A model's readiness.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelReadyResponse {
    /// Whether the model is ready.
    #[prost(bool, tag = "1")]
    pub ready: bool,
}

/// Request for the server's metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerMetadataRequest {}

/// The server's metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerMetadataResponse {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Supported extensions of the protocol.
    #[prost(string, repeated, tag = "3")]
    pub extensions: Vec<String>,
}

/// Name, type and shape of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorMetadata {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The protocol's data type.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// Its shape; -1 for any.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
}

/// A model's metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelMetadataResponse {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its versions.
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
    /// The platform that executes it.
    #[prost(string, tag = "3")]
    pub platform: String,
    /// Its input tensors.
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<TensorMetadata>,
    /// Its output tensors.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMetadata>,
}

/// One parameter's value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InferParameter {
    /// The value.
    #[prost(oneof = "Parameter", tags = "1, 2, 3, 4, 5")]
    pub choice: Option<Parameter>,
}

/// The value types of a parameter.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Parameter {
    /// Boolean.
    #[prost(bool, tag = "1")]
    Bool(bool),
    /// Signed integer.
    #[prost(int64, tag = "2")]
    Int64(i64),
    /// Text.
    #[prost(string, tag = "3")]
    Text(String),
    /// Floating-point number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Unsigned integer.
    #[prost(uint64, tag = "5")]
    Uint64(u64),
}

/// A tensor's values, if they are not sent as raw bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorContents {
    /// BOOL.
    #[prost(bool, repeated, tag = "1")]
    pub bools: Vec<bool>,
    /// INT8, INT16, INT32.
    #[prost(int32, repeated, tag = "2")]
    pub ints: Vec<i32>,
    /// INT64.
    #[prost(int64, repeated, tag = "3")]
    pub int64s: Vec<i64>,
    /// UINT8, UINT16, UINT32.
    #[prost(uint32, repeated, tag = "4")]
    pub uints: Vec<u32>,
    /// UINT64.
    #[prost(uint64, repeated, tag = "5")]
    pub uint64s: Vec<u64>,
    /// FP32.
    #[prost(float, repeated, tag = "6")]
    pub fp32s: Vec<f32>,
    /// FP64.
    #[prost(double, repeated, tag = "7")]
    pub fp64s: Vec<f64>,
    /// BYTES.
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub bytes: Vec<Vec<u8>>,
}

/// A tensor of a request or a response.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tensor {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The protocol's data type.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// Its shape.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    /// Its parameters.
    #[prost(map = "string, message", tag = "4")]
    pub parameters: HashMap<String, InferParameter>,
    /// Its values, if they are not sent as raw bytes.
    #[prost(message, optional, tag = "5")]
    pub contents: Option<TensorContents>,
}

/// An output that a request asks for.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RequestedOutput {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its parameters.
    #[prost(map = "string, message", tag = "2")]
    pub parameters: HashMap<String, InferParameter>,
}

/// A request for inference.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelInferRequest {
    /// The model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Its version; empty: chosen by the server.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// The client's id for the request.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Parameters.
    #[prost(map = "string, message", tag = "4")]
    pub parameters: HashMap<String, InferParameter>,
    /// The tensors.
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<Tensor>,
    /// The requested outputs; empty for all.
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<RequestedOutput>,
    /// The tensors' values, in the order of `inputs`.
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub raw_input_contents: Vec<Vec<u8>>,
}

impl ModelInferRequest {
    /// A request to `model` with one tensor of these bytes.
    #[must_use]
    pub fn of(model: &str, bytes: &[u8]) -> ModelInferRequest {
        ModelInferRequest {
            model_name: model.to_owned(),
            inputs: vec![Tensor {
                name: "input".to_owned(),
                datatype: "UINT8".to_owned(),
                shape: vec![i64::try_from(bytes.len()).unwrap_or(i64::MAX)],
                ..Tensor::default()
            }],
            raw_input_contents: vec![bytes.to_vec()],
            ..ModelInferRequest::default()
        }
    }
}

/// The response to an inference request.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelInferResponse {
    /// The model that answered.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// The request's id.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Parameters.
    #[prost(map = "string, message", tag = "4")]
    pub parameters: HashMap<String, InferParameter>,
    /// The tensors.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<Tensor>,
    /// The tensors' values, in the order of `outputs`.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub raw_output_contents: Vec<Vec<u8>>,
}

impl ModelInferResponse {
    /// The single unsigned number of the output `name`.
    #[must_use]
    pub fn output(&self, name: &str) -> Option<u64> {
        let place = self.outputs.iter().position(|output| output.name == name)?;
        let raw = self.raw_output_contents.get(place)?;
        let little_endian = raw.iter().rev();
        Some(little_endian.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// One response of a stream.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelStreamInferResponse {
    /// The error of this request; empty if it succeeded.
    #[prost(string, tag = "1")]
    pub error_message: String,
    /// The response.
    #[prost(message, optional, tag = "2")]
    pub infer_response: Option<ModelInferResponse>,
}
