//! REST and gRPC beside each other: both ports of a server share its slot.

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use serde::Deserialize;
use weir_bed::oip::{ModelInferRequest, Tensor, frame};

use super::servers::MODEL;

/// Path of an inference over gRPC.
pub(crate) const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";
const DATATYPE: &str = "FP32";

#[derive(Debug, Deserialize)]
struct Request {
    inputs: Vec<Input>,
}

#[derive(Debug, Deserialize)]
struct Input {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    data: Vec<f32>,
}

/// Returns the name of the cluster of a server's gRPC port.
pub(crate) fn cluster(server: &str) -> String {
    format!("{server}-grpc")
}

/// Returns the message, with its frame header, that asks the same as this REST body.
pub(crate) fn body(rest: &[u8]) -> Result<Bytes> {
    let request: Request = serde_json::from_slice(rest).context("the request")?;
    let mut message = ModelInferRequest {
        model_name: MODEL.to_owned(),
        ..ModelInferRequest::default()
    };
    for input in request.inputs {
        let datatype = input.datatype;
        ensure!(
            datatype == DATATYPE,
            "an input of {datatype}, not {DATATYPE}"
        );
        message.inputs.push(Tensor {
            name: input.name,
            datatype,
            shape: input.shape,
            ..Tensor::default()
        });
        let raw = input.data.into_iter().flat_map(f32::to_le_bytes);
        message.raw_input_contents.push(raw.collect());
    }
    Ok(frame(&message).into())
}
