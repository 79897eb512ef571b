//! Ordered fallback: the first variant of a request's list that can answer in time serves it, at once or after a
//! wait, and the answer says why the ones before it did not.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::emulator::{LatencyModel, ServerConfig};
use weir_bed::scene::{PATIENCE, Scene, Seen, see};
use weir_bed::wait;

/// A server with a constant service time, whatever the number of concurrent requests.
fn server(name: &str, service_ms: f64) -> ServerConfig {
    let mut server = ServerConfig::new(name, LatencyModel::constant(service_ms));
    server.cores = 1000.0;
    server
}

/// An accurate variant with one slot, and two faster ones, of which the last has the whole share.
async fn three() -> Scene {
    let servers = [("large", 600.0), ("medium", 50.0), ("small", 5.0)];
    let servers = servers.map(|(name, service_ms)| server(name, service_ms));
    let variants = json!([
        { "name": "large", "cluster": "large", "share": 0.0, "slots": 1, "service_ms": 600.0, "accuracy": 80.0 },
        { "name": "medium", "cluster": "medium", "share": 0.0, "slots": 20, "service_ms": 50.0, "accuracy": 75.0 },
        { "name": "small", "cluster": "small", "share": 1.0, "slots": 20, "service_ms": 5.0, "accuracy": 70.0 },
    ]);
    Scene::start_with(servers.into(), &variants, 1, |bootstrap, _| bootstrap)
        .await
        .unwrap()
}

fn listed(scene: &Scene, budget_ms: u64, list: &str) -> reqwest::RequestBuilder {
    scene.infer_within(budget_ms).header("x-slo-variants", list)
}

/// Variant that answered and the list on the answer.
fn served(seen: &Seen) -> (&str, &str) {
    assert_eq!(seen.refusal(), (200, ""));
    (seen.header("x-slo-variant"), seen.header("x-slo-variants"))
}

#[tokio::test]
async fn first_listed_variant_that_can_answer_in_time_serves() {
    let scene = three().await;
    let seen = see(listed(&scene, 5000, "large;within=3000, small")).await;
    assert_eq!(served(&seen.unwrap()), ("large", "large"));
    let headers = scene.backends[0].executions().pop().unwrap().headers;
    assert_eq!(headers["x-slo-variant"], "large");
    assert!(!headers.contains_key("x-slo-variants"), "{headers:?}");

    let skipped = "large;skipped=infeasible, medium";
    for (budget_ms, list) in [(500, "large, medium"), (5000, "large;within=500, medium")] {
        let seen = see(listed(&scene, budget_ms, list)).await.unwrap();
        assert_eq!(served(&seen), ("medium", skipped), "{list}");
    }
    // Less than a quarter of the planned time: with more it would be tried, for one execution says little.
    let seen = see(listed(&scene, 140, "large")).await.unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert_eq!(seen.header("x-slo-variants"), "large;skipped=infeasible");
    let seen = see(listed(&scene, 500, "large, *")).await.unwrap();
    assert_eq!(served(&seen), ("small", "large;skipped=infeasible, *"));

    // The large variant's only slot is taken for 4.2 s.
    scene.backends[0].slow_by(7.0).unwrap();
    let running = Scene::spawn(scene.infer_within(9000).header("x-slo-variants", "large"));
    let runs = || scene.backends[0].load().1 == 1;
    wait::until("the first execution", PATIENCE, runs)
        .await
        .unwrap();
    let sent = Instant::now();
    let waits = Scene::spawn(listed(&scene, 9000, "large;within=2000, medium, small"));
    let refused = Scene::spawn(listed(&scene, 9000, "large;within=2000"));
    let seen = waits.await.unwrap().unwrap();
    let after = sent.elapsed();
    assert_eq!(served(&seen), ("medium", skipped));
    // Not earlier than necessary: until 600 ms before its time the large variant might have become free.
    assert!(after >= Duration::from_millis(1390), "after {after:?}");
    let seen = refused.await.unwrap().unwrap();
    assert_eq!(seen.refusal(), (504, "infeasible"));
    assert!(seen.header("x-slo-variants").starts_with("large;skipped="));
    let seen = running.await.unwrap().unwrap();
    assert_eq!(served(&seen), ("large", "large"));
    scene.until(Metric::Fallbacks, "large", 4).await.unwrap();
    assert_eq!(scene.metric(Metric::Requests, "small").await.unwrap(), 1);
}

#[tokio::test]
async fn wrong_list_is_refused_with_what_would_be_right() {
    let scene = three().await;
    let table = [
        (
            "large, tiny",
            "this service has no 'tiny', but 'large', 'medium', 'small'",
        ),
        ("large, large", "'large' stands twice"),
        (
            "large;within=soon",
            "within='soon' must be a number of milliseconds greater than 0",
        ),
    ];
    for (list, text) in table {
        let text = format!("refused by weir: invalid-variants: x-slo-variants: {text}");
        let seen = see(listed(&scene, 5000, list)).await.unwrap();
        assert_eq!(seen.refusal(), (400, "invalid-variants"), "{list}");
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!(body["error"], text);

        let request = listed(&scene, 5000, list).header("content-type", "application/grpc");
        let seen = see(request).await.unwrap();
        assert_eq!(seen.refusal(), (200, "invalid-variants"), "{list}");
        assert_eq!(seen.header("grpc-status"), "3");
        assert_eq!(seen.header("grpc-message"), text);
    }
    scene
        .until(Metric::Refused, "invalid-variants", 6)
        .await
        .unwrap();
    scene
        .until(Metric::InvalidHeaders, "x-slo-variants", 6)
        .await
        .unwrap();
    for backend in &scene.backends {
        assert_eq!(backend.executions().len(), 0);
    }
}
