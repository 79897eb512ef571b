//! The Open Inference Protocol v2 over gRPC, as far as it is used here: its messages by hand, tag by tag
//! from the public specification, and a client of them.
//!
//! Written out instead of generated so that no `protoc` is needed to build; what another's client makes
//! of these tags is a story (`tests/clients.rs`). It decides nothing.

mod client;

use std::collections::HashMap;

pub use client::{Client, Headers};

/// The service's full name, as it stands in request paths.
pub const SERVICE: &str = "inference.GRPCInferenceService";

/// Bytes before a message on the wire: whether it is compressed, and its length.
pub const FRAME_HEAD: usize = 5;

/// A message as gRPC sends it, not compressed.
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

/// Asks whether the server lives.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerLiveRequest {}

/// Whether the server lives.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerLiveResponse {
    /// It does.
    #[prost(bool, tag = "1")]
    pub live: bool,
}

/// Asks whether the server is ready.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerReadyRequest {}

/// Whether the server is ready.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerReadyResponse {
    /// It is.
    #[prost(bool, tag = "1")]
    pub ready: bool,
}

/// Names a model, to ask whether it is ready or what it is like.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version; empty for the server's choice.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Whether a model is ready.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelReadyResponse {
    /// It is.
    #[prost(bool, tag = "1")]
    pub ready: bool,
}

/// Asks what the server is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerMetadataRequest {}

/// What the server is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerMetadataResponse {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// What it can do beyond the protocol.
    #[prost(string, repeated, tag = "3")]
    pub extensions: Vec<String>,
}

/// What a tensor is like.
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

/// What a model is like.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelMetadataResponse {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its versions.
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
    /// What executes it.
    #[prost(string, tag = "3")]
    pub platform: String,
    /// What it takes.
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<TensorMetadata>,
    /// What it gives.
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

/// The kinds of value a parameter may have.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Parameter {
    /// True or false.
    #[prost(bool, tag = "1")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "2")]
    Int64(i64),
    /// Text.
    #[prost(string, tag = "3")]
    Text(String),
    /// A number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// A whole number from 0 on.
    #[prost(uint64, tag = "5")]
    Uint64(u64),
}

/// A tensor's values where they are not sent as raw bytes.
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

/// A tensor of a request or an answer.
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
    /// Its values, where they are not sent as raw bytes.
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
    /// Its version; empty for the server's choice.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// The client's own name for the request.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Parameters.
    #[prost(map = "string, message", tag = "4")]
    pub parameters: HashMap<String, InferParameter>,
    /// The tensors.
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<Tensor>,
    /// The outputs wanted; none for all.
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

/// The answer to a request for inference.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelInferResponse {
    /// The model that answered.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// The request's own id.
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

/// One answer of a stream of them.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelStreamInferResponse {
    /// What went wrong with this one request; empty where nothing did.
    #[prost(string, tag = "1")]
    pub error_message: String,
    /// The answer.
    #[prost(message, optional, tag = "2")]
    pub infer_response: Option<ModelInferResponse>,
}
