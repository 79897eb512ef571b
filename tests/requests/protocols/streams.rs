//! Event streams and websockets through the filter.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_bed::scene::Seen;

use super::*;

/// A server whose execution takes that long, and is planned with less.
async fn planned_with(service_ms: f64, planned_ms: u64, slots: u32) -> Scene {
    let slow = Variant {
        slots,
        service_ms,
        ..ONE
    };
    Scene::start(&[slow], 1, |bootstrap, plugin| {
        plugin["plan"]["variants"][0]["service_ms"] = json!(planned_ms);
        bootstrap
    })
    .await
    .unwrap()
}

fn is_whole(seen: &Seen, events: usize) -> bool {
    let text = String::from_utf8_lossy(&seen.body);
    text.matches("\"index\"").count() == events && text.ends_with("data: [DONE]\n\n")
}

/// What the server says makes a stream: 15 s of events with a budget of one, on a path that nothing lists.
#[tokio::test]
async fn long_event_stream_is_whole_whatever_its_path() {
    let scene = planned_with(15_000.0, 500, 1).await;
    let events = scene.client.post(url(&scene, "/v1/stream?events=30"));
    let seen = see(events.header("x-slo-ms", 1000)).await.unwrap();
    assert_eq!(seen.refusal(), (200, ""));
    assert!(is_whole(&seen, 30));
    scene.until(Metric::OnTime, ONE.name, 1).await.unwrap();
    scene.until(Metric::SlotsInUse, ONE.name, 0).await.unwrap();
}

/// What a client says makes none.
#[tokio::test]
async fn clients_accept_header_makes_no_stream() {
    let address = plain_server_that_hangs().await;
    let variants = json!([{
        "name": "small", "cluster": "small", "share": 1, "slots": 1, "service_ms": 50, "accuracy": 70,
    }]);
    let scene = Scene::start_with(Vec::new(), &variants, 1, |bootstrap, plugin| {
        plugin["deadline"]["finish_ms"] = json!(300);
        bootstrap.backend("small", address).fallback("small")
    });
    let scene = scene.await.unwrap();
    for accept in ["text/event-stream", "application/json"] {
        let request = scene.infer_within(700).header("accept", accept);
        let begun = std::time::Instant::now();
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.bytes().await.is_err(), "it was not cut");
        assert!(begun.elapsed().as_millis() >= 1000);
        scene.until(Metric::SlotsInUse, ONE.name, 0).await.unwrap();
    }
    let cut = scene.metric(Metric::Refused, "expired").await.unwrap();
    assert_eq!(cut, 2);
}

/// Starts a server that answers with headers and a part of a body, and then with nothing.
async fn plain_server_that_hangs() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let mut head = [0; 4096];
                let _ = read.read(&mut head).await;
                let text = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
                let _ = write.write_all(text).await;
                while matches!(read.read(&mut head).await, Ok(1..)) {}
            });
        }
    });
    address
}

/// 40 streams of 20 tokens, first token after 0.1 s, at two slots: the first token is what the objective is for.
#[tokio::test]
async fn first_tokens_of_queued_streams_are_on_time() {
    const STREAMS: u64 = 40;
    let scene = planned_with(400.0, 20, 2).await;
    let mut running = Vec::new();
    for _ in 0..STREAMS / 2 {
        for _ in 0..2 {
            let events = scene.client.post(url(&scene, "/v1/stream?events=20"));
            running.push(Scene::spawn(events.header("x-slo-ttft-ms", 800).body("{}")));
        }
        scene
            .until_metric(Metric::HeldRequests, "", "few wait", |held| held < 2)
            .await
            .unwrap();
    }
    for one in running {
        let seen = one.await.unwrap().unwrap();
        assert_eq!(seen.refusal(), (200, ""));
        assert!(is_whole(&seen, 20));
    }
    let (_, most) = scene.backends[0].load();
    assert!(most <= 2, "{most} at once");
    scene
        .until(Metric::OnTime, ONE.name, STREAMS)
        .await
        .unwrap();
    assert_eq!(scene.metric(Metric::Late, ONE.name).await.unwrap(), 0);
    scene.until(Metric::SlotsInUse, ONE.name, 0).await.unwrap();
}

/// A client that vanishes in the middle of a long stream frees its slot for the next, which would be too late otherwise.
#[tokio::test]
async fn vanished_client_of_a_stream_frees_its_slot() {
    let scene = planned_with(20_000.0, 200, 1).await;
    for _ in 0..3 {
        let events = scene.client.post(url(&scene, "/v1/stream?events=100"));
        let mut answer = events.header("x-slo-ttft-ms", 1500).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        for _ in 0..15 {
            assert!(answer.chunk().await.unwrap().is_some());
        }
        drop(answer);
    }
    scene.until(Metric::SlotsInUse, ONE.name, 0).await.unwrap();
    scene.until(Metric::ClientDisconnects, "", 3).await.unwrap();
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
