//! Messages of the Open Inference Protocol v2 over gRPC, as far as a request and its prediction need them. By hand, with
//! the tags of the public specification, so that the build needs no `protoc`.

/// Values of a tensor, if they are not sent as raw bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Contents {
    /// BOOL.
    #[prost(bool, repeated, tag = "1")]
    pub(super) bools: Vec<bool>,
    /// INT8, INT16, INT32.
    #[prost(int32, repeated, tag = "2")]
    pub(super) ints: Vec<i32>,
    /// INT64.
    #[prost(int64, repeated, tag = "3")]
    pub(super) int64s: Vec<i64>,
    /// UINT8, UINT16, UINT32.
    #[prost(uint32, repeated, tag = "4")]
    pub(super) uints: Vec<u32>,
    /// UINT64.
    #[prost(uint64, repeated, tag = "5")]
    pub(super) uint64s: Vec<u64>,
    /// FP32.
    #[prost(float, repeated, tag = "6")]
    pub(super) fp32s: Vec<f32>,
    /// FP64.
    #[prost(double, repeated, tag = "7")]
    pub(super) fp64s: Vec<f64>,
    /// BYTES.
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(super) bytes: Vec<Vec<u8>>,
}

/// Tensor of a request or an answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Tensor {
    /// Name.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// Data type of the protocol.
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    /// Shape.
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
    /// Values, if they are not sent as raw bytes.
    #[prost(message, optional, tag = "5")]
    pub(super) contents: Option<Contents>,
}

/// Request for inference.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Request {
    /// Model.
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    /// Version; empty: chosen by the server.
    #[prost(string, tag = "2")]
    pub(super) model_version: String,
    /// Input tensors.
    #[prost(message, repeated, tag = "5")]
    pub(super) inputs: Vec<Tensor>,
}

/// Answer to a request.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Answer {
    /// Output tensors.
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<Tensor>,
    /// Values of the outputs as raw bytes, in little endian.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(super) raw_outputs: Vec<Vec<u8>>,
}
