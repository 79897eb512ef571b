//! tritonclient, NVIDIA's client of the Open Inference Protocol, over HTTP or gRPC.
//!
//! It runs a script (`triton.py`) that asks for everything the protocol's clients ask for, and reads
//! what the script was told.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::run;
use crate::built;

const SCRIPT: &str = include_str!("triton.py");

/// What to ask.
#[derive(Debug, Clone, Serialize)]
pub struct Ask {
    /// Headers of the inference.
    pub headers: std::collections::BTreeMap<String, String>,
    /// The client's own time limit.
    pub timeout_s: Option<f64>,
    /// How long the tensor is.
    pub bytes: usize,
    /// How many inferences; over gRPC, more than one go down one stream.
    pub requests: u32,
}

/// What it was told; what it did not come to is empty.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Told {
    /// Whether the server lives.
    pub live: bool,
    /// Whether the server and the model are ready.
    pub ready: bool,
    /// The server's name.
    pub server: String,
    /// What executes the model.
    pub platform: String,
    /// The model that answered.
    pub model: String,
    /// The request's own id, as answered.
    pub id: String,
    /// The output `bytes` of each answer.
    pub bytes: Vec<u64>,
    /// The output `crc32` of each answer.
    pub crc32: Vec<u64>,
    /// The status that ended it, as tritonclient names it.
    pub status: String,
    /// What was said beside it.
    pub message: String,
}

/// Asks over `protocol`, `http` or `grpc`.
///
/// # Errors
/// There is no tritonclient, or it failed otherwise than by the server's answer.
pub async fn triton(protocol: &str, address: SocketAddr, model: &str, ask: &Ask) -> Result<Told> {
    let address = address.to_string();
    let options = serde_json::to_string(ask)?;
    let mut command = Command::new(built::tritonclient()?);
    command.args(["-c", SCRIPT, protocol, &address, model, &options]);
    let said = run(&mut command, "tritonclient").await?;
    serde_json::from_str(&said).with_context(|| format!("tritonclient says '{said}'"))
}
