//! An emulated server of the model `small`, and requests to it.

use reqwest::Client;
use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};

/// Starts it; an execution takes 1 ms, unless changed.
pub(crate) async fn emulator(change: impl FnOnce(&mut ServerConfig)) -> anyhow::Result<Emulator> {
    let mut config = ServerConfig::new("small", LatencyModel::constant(1.0));
    change(&mut config);
    Emulator::start(config).await
}

/// Sends it a request for inference.
pub(crate) async fn infer(
    emulator: &Emulator,
    body: Vec<u8>,
) -> reqwest::Result<reqwest::Response> {
    let url = format!("{}/v2/models/small/infer", emulator.url());
    Client::new()
        .post(url)
        .header("x-request-id", "r1")
        .body(body)
        .send()
        .await
}

/// Status with which it answers a GET.
pub(crate) async fn status(emulator: &Emulator, path: &str) -> reqwest::Result<u16> {
    let answer = reqwest::get(format!("{}{path}", emulator.url())).await?;
    Ok(answer.status().as_u16())
}
