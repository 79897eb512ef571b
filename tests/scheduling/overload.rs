//! Overload of the slots: order of service, refusals, and clients that disconnect.

use std::time::Duration;

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::scene::{Scene, Variant, see};
use weir_bed::wait;

const SLOT: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 1,
    service_ms: 10.0,
};
/// Slowdown of the first request's execution, so that others arrive while it runs.
const SLOW: f64 = 100.0;

/// One slot, taken by a request that runs for `SLOW` × 10 ms.
async fn busy(
    plugin_rest: serde_json::Value,
) -> (
    Scene,
    tokio::task::JoinHandle<anyhow::Result<weir_bed::scene::Seen>>,
) {
    let scene = Scene::start(&[SLOT], 1, |bootstrap, plugin| {
        for (key, value) in plugin_rest.as_object().unwrap() {
            plugin[key] = value.clone();
        }
        bootstrap
    })
    .await
    .unwrap();
    scene.backends[0].slow_by(SLOW).unwrap();
    let running = Scene::spawn(scene.infer_within(9000).header("x-request-id", "first"));
    let backend = &scene.backends[0];
    wait::until("the first execution", Duration::from_secs(10), || {
        backend.load().1 == 1
    })
    .await
    .unwrap();
    backend.slow_by(1.0).unwrap();
    (scene, running)
}

#[tokio::test]
async fn held_requests_are_served_by_deadline() {
    let (scene, running) = busy(json!({})).await;
    // 40 distinct budgets, in an order that neither rises nor falls.
    let budgets = (0..40_u64).map(|i| 4000 + (i * 17 % 40) * 50);
    let held: Vec<_> = budgets
        .map(|budget| Scene::spawn(scene.infer_within(budget)))
        .collect();
    scene.until(Metric::HeldRequests, "", 40).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap().status, 200);
    for answer in held {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
    let deadlines: Vec<u64> = scene.backends[0].executions()[1..]
        .iter()
        .map(|execution| execution.headers["x-slo-deadline"].parse().unwrap())
        .collect();
    assert_eq!(deadlines.len(), 40);
    assert!(deadlines.is_sorted(), "not by deadline: {deadlines:?}");
}

#[tokio::test]
async fn held_request_gets_504_once_it_cannot_finish() {
    let (scene, running) = busy(json!({})).await;
    let started = std::time::Instant::now();
    let seen = see(scene.infer_within(200)).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    // It could have begun until 10 ms, the predicted service time, before its deadline.
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(185), "after {waited:?}");
    assert!(String::from_utf8(seen.body).unwrap().contains("infeasible"));
    assert_eq!(running.await.unwrap().unwrap().status, 200);
    assert_eq!(
        scene.backends[0].executions().len(),
        1,
        "it reached the server"
    );
    assert_eq!(
        scene.metric(Metric::Refused, "infeasible").await.unwrap(),
        1
    );
}

#[tokio::test]
async fn full_queue_sheds_with_429_and_retry_after() {
    let (scene, running) = busy(json!({ "queue": { "max_requests": 3 } })).await;
    let held: Vec<_> = (0..3)
        .map(|_| Scene::spawn(scene.infer_within(8000)))
        .collect();
    scene.until(Metric::HeldRequests, "", 3).await.unwrap();
    let seen = see(scene.infer_within(8000)).await.unwrap();
    assert_eq!(seen.refusal(), (429, "queue-full"));
    assert_eq!(seen.header("retry-after"), "1");
    for answer in held.into_iter().chain([running]) {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
    assert_eq!(
        see(scene.infer_within(8000)).await.unwrap().status,
        200,
        "room again"
    );
}

/// All waiting requests have enough time, and wait for a variant other than the new request's.
#[tokio::test]
async fn a_full_queue_evicts_the_least_urgent_request_of_any_variant() {
    let accurate = Variant {
        name: "accurate",
        share: 0.0,
        ..SLOT
    };
    let scene = Scene::start(&[SLOT, accurate], 1, |bootstrap, plugin| {
        plugin["queue"] = json!({ "max_requests": 2 });
        plugin["plan"]["variants"][1]["accuracy"] = json!(80.0);
        bootstrap
    })
    .await
    .unwrap();
    let patient = |budget_ms| {
        let request = scene.infer_within(budget_ms);
        request.header("x-slo-min-accuracy", 78)
    };
    for backend in &scene.backends {
        backend.slow_by(SLOW).unwrap();
    }
    let mut served = vec![
        Scene::spawn(scene.infer_within(9000)),
        Scene::spawn(patient(9000)),
    ];
    for backend in &scene.backends {
        wait::until("an execution", Duration::from_secs(10), || {
            backend.load().1 == 1
        })
        .await
        .unwrap();
        backend.slow_by(1.0).unwrap();
    }
    served.push(Scene::spawn(patient(9000)));
    let min = Scene::spawn(patient(9500));
    scene.until(Metric::HeldRequests, "", 2).await.unwrap();
    served.push(Scene::spawn(scene.infer_within(8000)));
    let seen = min.await.unwrap().unwrap();
    assert_eq!(seen.refusal(), (429, "queue-full"));
    assert_eq!(seen.header("retry-after"), "1");
    for answer in served {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
}

#[tokio::test]
async fn client_disconnect_while_held_frees_its_place() {
    let (scene, running) = busy(json!({ "queue": { "max_requests": 2 } })).await;
    let leaving = Scene::spawn(scene.infer_within(8000).header("x-request-id", "leaving"));
    let staying = Scene::spawn(scene.infer_within(8000).header("x-request-id", "staying"));
    scene.until(Metric::HeldRequests, "", 2).await.unwrap();
    leaving.abort();
    scene.until(Metric::ClientDisconnects, "", 1).await.unwrap();
    scene.until(Metric::HeldRequests, "", 1).await.unwrap();
    let next = Scene::spawn(scene.infer_within(8000).header("x-request-id", "next"));
    scene.until(Metric::HeldRequests, "", 2).await.unwrap();
    for answer in [running, staying, next] {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
    let executed: Vec<_> = scene.backends[0]
        .executions()
        .into_iter()
        .map(|e| e.request_id)
        .collect();
    assert_eq!(executed, ["first", "staying", "next"]);
}

/// One slot, and an execution long enough to be abandoned.
async fn slow_scene() -> Scene {
    let slow = Variant {
        service_ms: 600.0,
        ..SLOT
    };
    Scene::start(&[slow], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap()
}

/// Over HTTP/2 only the stream is reset and the connection stays. That is no failure of the server.
#[tokio::test]
async fn stream_reset_counts_as_client_disconnect_not_as_failure() {
    let scene = slow_scene().await;
    let client = reqwest::Client::builder()
        .http2_prior_knowledge()
        .no_proxy()
        .build()
        .unwrap();
    let listener = scene.envoy.listener("weir").unwrap();
    let url = format!("http://{listener}/v2/models/small/infer");
    let infer = || client.post(&url).body("{}").header("x-slo-ms", "5000");
    let leaving = Scene::spawn(infer());
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    leaving.abort();
    scene.until(Metric::ClientDisconnects, "", 1).await.unwrap();
    assert_eq!(see(infer()).await.unwrap().status, 200);
    let failed = scene.metric(Metric::Refused, "no-backend").await.unwrap();
    assert_eq!(failed, 0);
    let resets = scene
        .envoy
        .counter("envoy_http_downstream_rq_rx_reset")
        .await;
    assert_eq!(resets.unwrap(), 1, "it was a reset that Envoy saw");
}

/// An abandoned execution that the server continues still takes its slot while it runs.
#[tokio::test]
async fn abandoned_execution_keeps_its_slot() {
    let scene = slow_scene().await;
    let leaving = Scene::spawn(scene.infer_within(5000));
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    leaving.abort();
    scene.until(Metric::ClientDisconnects, "", 1).await.unwrap();
    assert_eq!(see(scene.infer_within(5000)).await.unwrap().status, 200);
    let executions = scene.backends[0].executions();
    assert_eq!(executions.len(), 2);
    assert!(
        // The orphaned slot's end is predicted from the forwarding time, so it is early by the network
        // latency to the server.
        executions[1].started_ms + 100.0 >= executions[0].ended_ms,
        "{executions:?}"
    );
}

/// Held requests leave nothing behind: slots, gauges and queue places are as before.
#[tokio::test]
async fn overload_leaves_no_state_behind() {
    let busy = Variant {
        slots: 4,
        service_ms: 20.0,
        ..SLOT
    };
    let scene = Scene::start(&[busy], 2, |bootstrap, plugin| {
        plugin["queue"] = json!({ "max_requests": 50 });
        bootstrap
    })
    .await
    .unwrap();
    let answers: Vec<_> = (0..400)
        .map(|i| Scene::spawn(scene.infer_within(100 + i)))
        .collect();
    let (mut answered, mut refused) = (0, 0);
    for seen in answers {
        let seen = seen.await.unwrap().unwrap();
        match seen.refusal() {
            (200, "") => answered += 1,
            (504, "expired" | "infeasible") | (429, "queue-full") => refused += 1,
            other => panic!("{other:?} {seen:?}"),
        }
    }
    assert_eq!(answered + refused, 400);
    assert!(
        answered > 0 && refused > 0,
        "{answered} answered, {refused} refused"
    );
    scene.until(Metric::SlotsInUse, "small", 0).await.unwrap();
    scene.until(Metric::HeldRequests, "", 0).await.unwrap();
    assert_eq!(scene.metric(Metric::Arrivals, "").await.unwrap(), 400);
    assert_eq!(see(scene.infer_within(5000)).await.unwrap().status, 200);
}
