//! Exports for the page's JavaScript. Each takes text and returns JSON or SVG text; an error is its message.

use serde::Serialize;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{ConsoleError, chart, document, problem, replay, what_if};

fn json<T: Serialize>(value: Result<T, ConsoleError>) -> Result<String, String> {
    let value = value.map_err(|error| error.to_string())?;
    serde_json::to_string(&value).map_err(|error| error.to_string())
}

/// Solves a problem; the answer is that of `POST /v1/solve`.
#[wasm_bindgen]
pub fn solve(problem: &str) -> Result<String, String> {
    json(problem::solve(problem))
}

/// Decides for a changed service.
#[wasm_bindgen(js_name = whatIf)]
pub fn what_if(request: &str) -> Result<String, String> {
    json(document::request(request).and_then(|request| what_if::what_if(&request)))
}

/// Replays a scenario.
#[wasm_bindgen(js_name = replayScenario)]
pub fn replay_scenario(scenario: &str) -> Result<String, String> {
    json(replay::scenario(scenario))
}

/// Replays a service under a trace.
#[wasm_bindgen(js_name = replayTrace)]
pub fn replay_trace(request: &str) -> Result<String, String> {
    json(document::request(request).and_then(|request| replay::trace(&request)))
}

/// Draws a chart.
#[wasm_bindgen]
pub fn chart(drawing: &str) -> Result<String, String> {
    let drawn = document::request(drawing).and_then(|drawing| chart::draw(&drawing));
    drawn.map_err(|error| error.to_string())
}
