//! A server that executes one request at a time behind a real Envoy, with `queue.overlap` and without: the
//! number of requests it has at once. The result does not depend on timing; `cargo xtask workers lane`
//! measures that.

use std::collections::BTreeSet;

use serde_json::json;
use weir_bed::emulator::{Execution, LatencyModel, ServerConfig};
use weir_bed::scene::{Scene, Variant, planned};
use weir_measure::workers::order::at_once;

/// Concurrent requests: the server is busy until the last one.
const REQUESTS: usize = 20;
const SERVICE_MS: f64 = 150.0;
/// The predicted time is far below the execution time, so that the next request is due long before the first
/// ends.
const PREDICTED_MS: f64 = 15.0;
const BUDGET_MS: u64 = 50_000;

/// Returns the executions of a server with one lane; all its requests must be answered.
async fn executions(overlap: bool) -> Vec<Execution> {
    let lane = Variant {
        name: "small",
        share: 1.0,
        slots: 1,
        service_ms: PREDICTED_MS,
    };
    let server = ServerConfig::new(lane.name, LatencyModel::constant(SERVICE_MS));
    let plan = planned(&[lane]);
    let scene = Scene::start_with(vec![server], &plan, 1, |bootstrap, plugin| {
        plugin["queue"] = json!({ "overlap": overlap });
        bootstrap
    });
    let scene = scene.await.unwrap();
    let sent: Vec<_> = (0..REQUESTS)
        .map(|id| scene.infer_within(BUDGET_MS).header("x-request-id", id))
        .map(Scene::spawn)
        .collect();
    for seen in sent {
        assert_eq!(seen.await.unwrap().unwrap().refusal(), (200, ""));
    }
    let executions = scene.backends[0].executions();
    let ids: BTreeSet<_> = executions.iter().map(|run| &run.request_id).collect();
    assert_eq!(ids.len(), REQUESTS, "not each: {executions:?}");
    assert_eq!(executions.len(), REQUESTS, "some twice: {executions:?}");
    executions
}

fn most_at_server(executions: &[Execution]) -> usize {
    at_once(executions.iter().map(|run| (run.arrived_ms, run.ended_ms)))
}

#[tokio::test]
async fn overlap_keeps_one_extra_request_at_the_server() {
    let _alone = super::alone().await;
    let executions = executions(true).await;
    assert_eq!(most_at_server(&executions), 2, "{executions:?}");
}

#[tokio::test]
async fn server_has_one_request_at_most_without_overlap() {
    let _alone = super::alone().await;
    let executions = executions(false).await;
    assert_eq!(most_at_server(&executions), 1, "{executions:?}");
}
