//! Event streams and websockets through the filter.

use super::*;

/// Only a configured path makes a stream, whatever the client's `accept` header contains.
#[tokio::test]
async fn unconfigured_event_stream_ends_with_the_budget() {
    let scene = with_streams(json!([])).await;
    let answer = long_stream(&scene, "/v1/stream?events=15").await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.bytes().await.is_err(), "it was not cut");
}

/// Until its first byte, a stream is subject to its deadline.
#[tokio::test]
async fn stream_without_first_byte_ends_at_its_deadline() {
    let scene = with_streams(json!(["/v2/models/*"])).await;
    scene.backends[0].slow_by(10_000.0).unwrap();
    let silent = scene.infer().header("accept", "text/event-stream");
    let seen = see(silent.header("x-slo-ms", "700")).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
}

/// The deadline applies to the first event: a stream that has begun may go on past it.
#[tokio::test]
async fn started_event_stream_is_not_cut_by_the_budget() {
    let scene = with_streams(json!(["/v1/stream"])).await;
    // Fifteen times as long as planned, and twice as long as the budget.
    scene.backends[0].slow_by(15.0).unwrap();
    let events = scene.client.post(url(&scene, "/v1/stream?events=15"));
    let events = events.header("x-slo-ms", "700");
    let seen = see(events).await.unwrap();
    let text = String::from_utf8_lossy(&seen.body);
    assert_eq!(seen.status, 200);
    assert_eq!(text.matches("data: ").count(), 16, "{text}");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let headers = scene.backends[0].executions().pop().unwrap().headers;
    assert!(number(&headers, "x-slo-remaining-ms") <= 700);
    // The timeout that this Envoy's router would have applied, until the first byte.
    assert!(number(&headers, "x-envoy-expected-rq-timeout-ms") <= 700);
}

/// As clients of language models want it: the time to the first token, on a path that needs no configuration.
#[tokio::test]
async fn streams_are_on_time_with_their_first_byte() {
    let slow = Variant {
        slots: 2,
        service_ms: 300.0,
        ..ONE
    };
    let scene = Scene::start(&[slow], 1, |bootstrap, plugin| {
        // The first of twenty events comes after 15 ms.
        plugin["plan"]["variants"][0]["service_ms"] = json!(15);
        bootstrap
    })
    .await
    .unwrap();
    const PAIRS: u64 = 20;
    for _ in 0..PAIRS {
        let pair = [0, 1].map(|_| {
            let request = scene
                .client
                .post(url(&scene, "/v1/chat/completions?events=20"));
            Scene::spawn(request.header("x-slo-ttft-ms", 150).body("{}"))
        });
        for one in pair {
            let seen = one.await.unwrap().unwrap();
            assert_eq!(seen.refusal(), (200, ""));
            let text = String::from_utf8_lossy(&seen.body).into_owned();
            assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
        }
    }
    scene
        .until(Metric::OnTime, ONE.name, 2 * PAIRS)
        .await
        .unwrap();
    assert_eq!(scene.metric(Metric::Late, ONE.name).await.unwrap(), 0);
    let all_at_once = scene.backends[0].executions();
    assert_eq!(all_at_once.len() as u64, 2 * PAIRS);
}

/// A server that sends its headers at once has not begun to answer.
#[tokio::test]
async fn headers_without_a_byte_are_refused_at_the_deadline() {
    let scene = with_streams(json!(["/v1/stream"])).await;
    scene.backends[0].slow_by(100.0).unwrap();
    let events = scene.client.post(url(&scene, "/v1/stream?events=2"));
    let seen = see(events.header("x-slo-ms", "700")).await.unwrap();
    assert_eq!(seen.refusal(), (504, "expired"));
    scene.until(Metric::SlotsInUse, "small", 0).await.unwrap();
}

/// With all slots taken and a full queue, requests that need no slot do not wait.
#[tokio::test]
async fn bypassed_requests_pass_with_every_slot_taken() {
    let slow = Variant {
        slots: 1,
        service_ms: 5000.0,
        ..ONE
    };
    let scene = scene_http2(slow).await;
    let running = Scene::spawn(scene.infer_within(30_000));
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    for (method, path, expected) in [
        ("HEAD", "/predict", 200),
        ("OPTIONS", "/predict", 204),
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/ready?verbose=1", 200),
        ("GET", "/v2/models/model/ready", 200),
        ("GET", "/v2", 200),
        ("GET", "/v2/models/model", 200),
        ("GET", "/v1/models/model", 200),
    ] {
        let method: reqwest::Method = method.parse().unwrap();
        let request = scene.client.request(method.clone(), url(&scene, path));
        let short = request.header("x-slo-ms", "1000");
        let seen = see(short).await.unwrap();
        assert_eq!(seen.status, expected, "{method} {path}");
        assert_eq!(seen.header("x-emulated"), "small", "{method} {path}");
        assert_eq!(seen.header("x-slo-variant"), "", "{method} {path}");
    }
    let head = [
        "--head",
        "--http2-prior-knowledge",
        &url(&scene, "/predict"),
    ];
    assert_eq!(curl(&head).await.unwrap().status, 200);
    let client = client(&scene);
    let ready = client.call("ServerReady", ServerReadyRequest {}, &[]);
    let ready: ServerReadyResponse = ready.await.unwrap().into_inner();
    assert!(ready.ready);
    assert_eq!(scene.backends[0].load(), (0, 1));
    running.abort();
}

/// With Envoy configured to send websockets through the filter too.
#[tokio::test]
async fn websockets_through_the_filter_are_unchanged() {
    const MANAGER: &str =
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/upgrade_configs";
    let slow = Variant {
        slots: 1,
        service_ms: 5000.0,
        ..ONE
    };
    let scene = Scene::start(&[slow], 1, |bootstrap, _| {
        bootstrap.amend(MANAGER, json!([{ "upgrade_type": "websocket" }]))
    })
    .await
    .unwrap();
    let running = Scene::spawn(scene.infer_within(20_000));
    scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
    echo(&scene).await;
    running.abort();
}
