//! Batching through a real Envoy: requests are released in groups, so that a batching server gets full
//! batches, and no request is late because it waited for one.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::emulator::{Execution, LatencyModel, Parallelism, ServerConfig};
use weir_bed::scene::{PATIENCE, Scene, Seen, see};
use weir_bed::wait;

const FOUR: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// A server that executes one batch of at most four at a time, and waits a little for an incomplete batch to
/// fill. A batch of four takes hardly longer than a batch of one.
fn server(batch_delay_ms: u64) -> ServerConfig {
    let model = LatencyModel {
        eta_ms: 100.0,
        delta_ms: 5.0,
        ..LatencyModel::default()
    };
    let mut server = ServerConfig::new("batched", model);
    server.parallelism = Parallelism::Fixed(NonZeroU32::MIN);
    server.batch_max = FOUR;
    server.batch_delay = Duration::from_millis(batch_delay_ms);
    server
}

fn plan(batch: u32, slots: u32, service_ms: f64) -> Value {
    json!([{ "name": "batched", "cluster": "batched", "share": 1.0, "slots": slots, "batch": batch,
             "service_ms": service_ms, "accuracy": 70.0 }])
}

/// Batches of four, as many slots, and a planned service time of 500 ms, so that the latest start is well
/// before the deadline. The server waits 100 ms for the members of a batch, which leave Envoy together but
/// over different connections.
async fn in_fours(workers: u32, queue: Value) -> Scene {
    Scene::start_with(
        vec![server(100)],
        &plan(4, 4, 500.0),
        workers,
        |bootstrap, plugin| {
            plugin["queue"] = queue;
            // A window that only the requests' slack ends, unless the test says another.
            if plugin["queue"]["batch_wait_ms"].is_null() {
                plugin["queue"]["batch_wait_ms"] = json!(60_000);
            }
            bootstrap
        },
    )
    .await
    .unwrap()
}

type Answer = tokio::task::JoinHandle<(Seen, Duration)>;

fn timed(request: reqwest::RequestBuilder) -> Answer {
    tokio::spawn(async move {
        let sent = Instant::now();
        let seen = see(request).await.unwrap();
        (seen, sent.elapsed())
    })
}

/// Sends a request that is held alone, as the `nth`.
async fn holds(scene: &Scene, budget_ms: u64, nth: u64) -> Answer {
    let answer = timed(scene.infer_within(budget_ms));
    scene.until(Metric::HeldRequests, "", nth).await.unwrap();
    answer
}

async fn assert_all_served(answers: impl IntoIterator<Item = Answer>) {
    for answer in answers {
        assert_eq!(answer.await.unwrap().0.refusal(), (200, ""));
    }
}

fn batches(executions: &[Execution]) -> Vec<u32> {
    executions.iter().map(|execution| execution.batch).collect()
}

#[tokio::test]
async fn requests_within_the_batch_window_are_executed_together() {
    let scene = in_fours(1, json!({})).await;
    for round in 1..=2 {
        // Each request is held for longer than the server's batch window.
        let mut four = Vec::new();
        for nth in 1..=3 {
            four.push(holds(&scene, 8000, nth).await);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let executed = scene.backends[0].executions().len();
        assert_eq!(executed, 4 * (round - 1), "a request did not wait");
        four.push(timed(scene.infer_within(8000)));
        assert_all_served(four).await;
        let batches = batches(&scene.backends[0].executions());
        assert_eq!(batches, vec![4; 4 * round]);
    }
    scene.until(Metric::SlotsInUse, "batched", 0).await.unwrap();
}

#[tokio::test]
async fn backlog_is_executed_in_full_batches() {
    let scene = in_fours(1, json!({})).await;
    let sixteen: Vec<_> = (0..16).map(|_| timed(scene.infer_within(9000))).collect();
    assert_all_served(sixteen).await;
    let executions = scene.backends[0].executions();
    assert_eq!(batches(&executions), vec![4; 16]);
}

#[tokio::test]
async fn lone_request_leaves_at_its_latest_start_and_is_on_time() {
    let scene = in_fours(1, json!({})).await;
    let (seen, after) = timed(scene.infer_within(2000)).await.unwrap();
    assert_eq!(seen.refusal(), (200, ""), "after {after:?}");
    // 500 ms before the deadline: the planned service time and the margin.
    assert!(queued_ms(&seen) >= 1400.0, "{:?}", seen.headers);
    assert!(queued_ms(&seen) <= 1500.0, "{:?}", seen.headers);
    assert!(after < Duration::from_millis(2000), "after {after:?}");
    assert_eq!(batches(&scene.backends[0].executions()), [1]);
    scene.until(Metric::OnTime, "batched", 1).await.unwrap();
}

/// A request at its latest start takes along all waiting ones, which would otherwise wait for the next batch.
#[tokio::test]
async fn urgent_request_takes_waiting_ones_along() {
    let scene = in_fours(1, json!({})).await;
    let patient = holds(&scene, 9000, 1).await;
    let urgent = timed(scene.infer_within(1500));
    let (seen, after) = patient.await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    assert!(after < Duration::from_millis(5000), "after {after:?}");
    assert_all_served([urgent]).await;
    assert_eq!(batches(&scene.backends[0].executions()), [2, 2]);
}

#[tokio::test]
async fn request_too_late_for_its_batch_is_refused_alone() {
    let scene = in_fours(1, json!({})).await;
    let backend = &scene.backends[0];
    backend.slow_by(30.0).unwrap();
    let running: Vec<_> = (0..4).map(|_| timed(scene.infer_within(9500))).collect();
    wait::until("the first batch", PATIENCE, || backend.load().1 == 4)
        .await
        .unwrap();
    backend.slow_by(1.0).unwrap();
    let mut others = Vec::new();
    for nth in 1..=3 {
        others.push(holds(&scene, 9000, nth).await);
    }
    // The slots are taken for 3.6 s.
    let (seen, after) = timed(scene.infer_within(1500)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert!(after < Duration::from_millis(1450), "after {after:?}");
    others.push(holds(&scene, 9000, 4).await);
    assert_all_served(others.into_iter().chain(running)).await;
    assert_eq!(batches(&backend.executions()), [4; 8]);
    scene.until(Metric::Refused, "infeasible", 1).await.unwrap();
}

#[tokio::test]
async fn batches_fill_across_workers() {
    let scene = in_fours(2, json!({})).await;
    for round in 1..=3 {
        let mut four = Vec::new();
        for nth in 1..=3 {
            four.push(holds(&scene, 8000, nth).await);
        }
        four.push(timed(scene.infer_within(8000)));
        assert_all_served(four).await;
        let batches = batches(&scene.backends[0].executions());
        assert_eq!(batches, vec![4; 4 * round]);
    }
    // Connections are spread evenly, so each batch had members on both workers.
    let connections = scene.envoy.stats("worker_.*downstream_cx_total").await;
    let connections = connections.unwrap();
    let by_worker: Vec<u64> = connections
        .lines()
        .filter(|line| line.starts_with("envoy_listener_worker_downstream_cx_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(by_worker, [2, 2], "{connections}");
}

#[tokio::test]
async fn batch_window_can_be_capped() {
    let scene = in_fours(1, json!({ "batch_wait_ms": 300 })).await;
    for _ in 0..2 {
        let (seen, after) = timed(scene.infer_within(9000)).await.unwrap();
        assert_eq!(seen.refusal(), (200, ""));
        assert!(queued_ms(&seen) >= 299.0, "{:?}", seen.headers);
        assert!(after < Duration::from_millis(3000), "after {after:?}");
    }
    assert_eq!(batches(&scene.backends[0].executions()), [1, 1]);
}

/// The benefit of batching: the same server and requests, with only a different plan.
#[tokio::test]
async fn batching_server_serves_more_with_batches() {
    const REQUESTS: usize = 40;
    let mut took_ms = Vec::new();
    for plan in [plan(4, 4, 150.0), plan(1, 1, 150.0)] {
        let scene = Scene::start_with(vec![server(20)], &plan, 1, |bootstrap, _| bootstrap)
            .await
            .unwrap();
        let answers: Vec<_> = (0..REQUESTS)
            .map(|_| timed(scene.infer_within(10_000)))
            .collect();
        assert_all_served(answers).await;
        let executions = scene.backends[0].executions();
        assert_eq!(executions.len(), REQUESTS);
        let last = executions.iter().map(|execution| execution.ended_ms);
        took_ms.push(last.fold(0.0, f64::max) - executions[0].started_ms);
    }
    println!(
        "with batches {:.0} ms, without {:.0} ms",
        took_ms[0], took_ms[1]
    );
    assert!(took_ms[0] * 2.0 < took_ms[1], "{took_ms:?}");
}

/// A plan that knows nothing of batches: the filter finds how many must be in flight.
#[tokio::test]
async fn number_in_flight_is_found_for_a_server_that_batches() {
    const REQUESTS: usize = 120;
    let scene = Scene::start_with(
        vec![server(0)],
        &plan(1, 1, 100.0),
        2,
        |bootstrap, plugin| {
            plugin["queue"]["concurrency_max"] = json!(64);
            bootstrap
        },
    )
    .await
    .unwrap();
    let answers: Vec<_> = (0..REQUESTS)
        .map(|_| timed(scene.infer_within(30_000)))
        .collect();
    assert_all_served(answers).await;
    let batches = batches(&scene.backends[0].executions());
    assert_eq!(batches.len(), REQUESTS);
    let last = &batches[REQUESTS / 2..];
    let full = last.iter().filter(|batch| **batch >= 3).count();
    assert!(full * 10 >= last.len() * 8, "{batches:?}");
}

fn queued_ms(seen: &Seen) -> f64 {
    let timing = seen.header("server-timing");
    let queued = timing.strip_prefix("queue;dur=");
    queued.and_then(|ms| ms.parse().ok()).unwrap_or(-1.0)
}
