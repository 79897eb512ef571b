//! tritonclient, NVIDIA's client of the Open Inference Protocol, over HTTP or gRPC.
//!
//! Runs a script (`triton.py`) that makes every call the protocol's clients make, and parses the
//! results the script prints.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::run;
use crate::built;

const SCRIPT: &str = include_str!("triton.py");

/// Parameters of the calls.
#[derive(Debug, Clone, Serialize)]
pub struct TritonOptions {
    /// Headers of the inference request.
    pub headers: std::collections::BTreeMap<String, String>,
    /// The client's own time limit.
    pub timeout_s: Option<f64>,
    /// Length of the tensor, in bytes.
    pub bytes: usize,
    /// Number of inferences. Over gRPC, more than one are sent on one stream.
    pub requests: u32,
}

/// Results of the calls; those of calls that were not reached are empty.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TritonResults {
    /// Whether the server is live.
    pub live: bool,
    /// Whether the server and the model are ready.
    pub ready: bool,
    /// The server's name.
    pub server: String,
    /// The platform that executes the model.
    pub platform: String,
    /// The model that answered.
    pub model: String,
    /// The request's id, as returned.
    pub id: String,
    /// The output `bytes` of each response.
    pub bytes: Vec<u64>,
    /// The output `crc32` of each response.
    pub crc32: Vec<u64>,
    /// The error status, as tritonclient names it.
    pub status: String,
    /// The error message.
    pub message: String,
}

/// Makes the calls over `protocol`, which is `http` or `grpc`.
///
/// # Errors
///
/// tritonclient is missing, or failed for another reason than the server's response.
pub async fn triton(
    protocol: &str,
    address: SocketAddr,
    model: &str,
    options: &TritonOptions,
) -> Result<TritonResults> {
    let address = address.to_string();
    let json = serde_json::to_string(options)?;
    let mut command = Command::new(built::tritonclient()?);
    command.args(["-c", SCRIPT, protocol, &address, model, &json]);
    let output = run(&mut command, "tritonclient").await?;
    serde_json::from_str(&output)
        .with_context(|| format!("unexpected output of tritonclient: '{output}'"))
}
