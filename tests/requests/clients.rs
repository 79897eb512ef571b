//! Existing clients through a real Envoy with the filter: curl, h2load, tonic and tritonclient work
//! unchanged. Their answers are tagged, and they understand refusals.

use std::collections::BTreeMap;

use futures_util::stream;
use serde_json::json;
use weir_bed::clients::{TritonOptions, curl, h2load, triton};
use weir_bed::emulator::Door;
use weir_bed::oip::{Client, ModelInferRequest};
use weir_bed::scene::{Scene, Variant, epoch_ms};

/// Its service time is more than four times [`TOO_SHORT`], so that no request is tried on the plan's word.
const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 8,
    service_ms: 100.0,
};
const TOO_SHORT: &str = "x-slo-ms: 20";
const LONG: &str = "x-slo-ms: 10000";

async fn one() -> Scene {
    Scene::start(&[ONE], 2, |bootstrap, _| bootstrap)
        .await
        .unwrap()
}

/// Starts a server that speaks HTTP/2, like gRPC servers.
async fn one_http2() -> Scene {
    Scene::start(&[ONE], 2, |bootstrap, _| bootstrap.http2_backends())
        .await
        .unwrap()
}

fn url(scene: &Scene) -> String {
    let address = scene.envoy.listener("weir").unwrap();
    format!("http://{address}/v2/models/model/infer")
}

#[tokio::test]
async fn curl_is_answered_and_refused_over_http1_and_http2() {
    let scene = one().await;
    let url = url(&scene);
    let long_ago = format!("x-slo-start: {}", epoch_ms() - 15_000);
    for (flag, version) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        let send = async |more: &[&str]| {
            let arguments = [&[flag, "--request", "POST", &url], more].concat();
            curl(&arguments).await.unwrap()
        };
        let heard = send(&["--header", LONG, "--data", "{}"]).await;
        assert_eq!((heard.version.as_str(), heard.status), (version, 200));
        assert_eq!(heard.header("x-slo-variant"), "small");
        assert_eq!(heard.header("x-emulated"), "small");
        let left_ms: u64 = heard.header("x-slo-remaining-ms").parse().unwrap();
        assert!(left_ms <= 9950, "{left_ms}");
        // Without bodies: Envoy resets an HTTP/2 request that it answers before the body is complete. curl
        // 7.88 reports that as an error although the answer was complete.
        for (headers, reason) in [
            (vec!["--header", TOO_SHORT], "infeasible"),
            (vec!["--header", LONG, "--header", &long_ago], "expired"),
        ] {
            let heard = send(&headers).await;
            assert_eq!(heard.status, 504, "{reason} {version}");
            assert_eq!(heard.header("x-slo-dropped-reason"), reason);
            assert!(String::from_utf8(heard.body).unwrap().contains(reason));
        }
    }
    assert_eq!(scene.backends[0].executions().len(), 2);
}

/// More concurrent requests than slots: all are answered, and the server never executes more than its slots.
#[tokio::test]
async fn h2load_is_held_and_answered_or_refused_completely() {
    let scene = one().await;
    let url = url(&scene);
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, "{}").unwrap();
    let load = async |budget: &str| {
        let many = ["-n", "200", "-c", "2", "-m", "16", "--no-tls-proto=h2c"];
        let what = ["-H", budget, "-d", body.to_str().unwrap(), &url];
        h2load(&[many.as_slice(), &what].concat()).await.unwrap()
    };
    let loaded = load(LONG).await;
    assert_eq!((loaded.total, loaded.succeeded, loaded.ok), (200, 200, 200));
    assert_eq!((loaded.failed, loaded.errored), (0, 0));
    let done = scene.backends[0].executions();
    assert_eq!(done.len(), 200);
    assert!(done.iter().all(|d| d.headers["x-slo-variant"] == "small"));
    let at_once = |at: f64| {
        let runs = |d: &&_| covers(d, at);
        done.iter().filter(runs).count()
    };
    let most = done.iter().map(|d| at_once(d.started_ms)).max().unwrap();
    assert!(most <= ONE.slots as usize, "{most} at once");

    let refused = load(TOO_SHORT).await;
    assert_eq!((refused.failed, refused.server_errors), (200, 200));
    assert_eq!(refused.errored, 0, "each got its answer");
    // One may be tried at the idle server: what it does alone is known of the first request only.
    let done = scene.backends[0].executions().len();
    assert!((200..=201).contains(&done), "{done}");
}

fn covers(execution: &weir_bed::emulator::Execution, at: f64) -> bool {
    execution.started_ms <= at && at < execution.ended_ms
}

#[tokio::test]
async fn tonic_unary_and_streaming_calls_are_answered() {
    let scene = one_http2().await;
    let client = Client::of(scene.envoy.listener("weir").unwrap()).unwrap();
    let bytes = [7; 1000];
    let request = ModelInferRequest::of("model", &bytes);
    let within = [("grpc-timeout", "2S".to_owned())];
    let answer = client.infer(request.clone(), &within).await.unwrap();
    assert_eq!(answer.metadata().get("x-slo-variant").unwrap(), "small");
    assert_eq!(answer.get_ref().model_name, "small");
    assert_eq!(answer.get_ref().output("bytes"), Some(1000));
    let crc32 = u64::from(crc32fast::hash(&bytes));
    assert_eq!(answer.get_ref().output("crc32"), Some(crc32));
    let execution = scene.backends[0].executions().pop().unwrap();
    assert_eq!(execution.door, Door::OipGrpc);
    let left_ms = execution.headers["grpc-timeout"].strip_suffix('m').unwrap();
    assert!(
        (1..=2000).contains(&left_ms.parse::<u32>().unwrap()),
        "{left_ms}"
    );

    let all = stream::iter(vec![request; 3]);
    let answer = client.stream(all, &within).await.unwrap();
    assert_eq!(answer.metadata().get("x-slo-variant").unwrap(), "small");
    let mut answers = answer.into_inner();
    let mut orders = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        assert_eq!(answer.error_message, "");
        orders.push(answer.infer_response.unwrap().output("bytes"));
    }
    assert_eq!(orders, [Some(1000); 3]);
    let done = scene.backends[0].executions();
    let doors: Vec<_> = done.iter().map(|d| d.door).collect();
    assert_eq!(doors[1..], [Door::OipGrpcStream; 3]);
}

fn options(header: Option<(&str, String)>) -> TritonOptions {
    let header = header.map(|(name, value)| (name.to_owned(), value));
    TritonOptions {
        headers: header.into_iter().collect::<BTreeMap<_, _>>(),
        timeout_s: None,
        bytes: 5000,
        requests: 1,
    }
}

#[tokio::test]
async fn tritonclient_is_answered_over_http_and_grpc() {
    let scene = one_http2().await;
    let address = scene.envoy.listener("weir").unwrap();
    let tensor: Vec<u8> = (0..5000u32).map(|i| (i % 251) as u8).collect();
    let crc32 = u64::from(crc32fast::hash(&tensor));
    for (protocol, door) in [("http", Door::OipHttp), ("grpc", Door::OipGrpc)] {
        let options = options(Some(("x-slo-ms", "5000".to_owned())));
        let results = triton(protocol, address, "model", &options).await.unwrap();
        assert_eq!(
            (results.status.as_str(), results.message.as_str()),
            ("", "")
        );
        assert!(results.live && results.ready, "{protocol}");
        assert_eq!(results.server, "weir-variant-emulator");
        assert_eq!(results.platform, "emulated");
        assert_eq!(
            (results.model.as_str(), results.id.as_str()),
            ("small", "mine")
        );
        if door == Door::OipGrpc {
            assert_eq!((results.bytes, results.crc32), (vec![5000], vec![crc32]));
        } else {
            // The body: a JSON part, then the tensor's bytes.
            assert!(results.bytes[0] > 5000, "{:?}", results.bytes);
        }
        let execution = scene.backends[0].executions().pop().unwrap();
        assert_eq!(execution.door, door);
        assert_eq!(execution.headers["x-slo-variant"], "small");
    }
}

/// Triton's client keeps the stream of its requests open, so the service must name it as one.
#[tokio::test]
async fn tritonclients_stream_is_answered() {
    let scene = Scene::start(&[ONE], 2, |bootstrap, plugin| {
        let path = format!("/{}/ModelStreamInfer", weir_bed::oip::SERVICE);
        plugin["streams"] = json!({ "requests": [path] });
        bootstrap.http2_backends()
    });
    let scene = scene.await.unwrap();
    let address = scene.envoy.listener("weir").unwrap();
    let options = TritonOptions {
        requests: 4,
        ..options(None)
    };
    let results = triton("grpc", address, "model", &options).await.unwrap();
    assert_eq!(
        (results.bytes, results.status),
        (vec![5000; 4], String::new())
    );
    let last = scene.backends[0].executions().pop().unwrap();
    assert_eq!(last.door, Door::OipGrpcStream);
}

#[tokio::test]
async fn tritonclient_gets_the_refusal_reason_over_http() {
    let scene = one().await;
    let address = scene.envoy.listener("weir").unwrap();
    let options = options(Some(("x-slo-ms", "20".to_owned())));
    let results = triton("http", address, "model", &options).await.unwrap();
    assert!(results.message.contains("infeasible"), "{results:?}");
    assert_eq!(results.bytes, Vec::<u64>::new());
    assert_eq!(scene.backends[0].executions(), []);
}

/// The client's own timeout is sent as `grpc-timeout`.
#[tokio::test]
async fn tritonclients_timeout_is_the_budget() {
    let scene = one_http2().await;
    let address = scene.envoy.listener("weir").unwrap();
    let within = |timeout_s| TritonOptions {
        timeout_s: Some(timeout_s),
        ..options(None)
    };
    let results = triton("grpc", address, "model", &within(5.0))
        .await
        .unwrap();
    assert_eq!((results.status.as_str(), results.bytes.len()), ("", 1));
    let headers = scene.backends[0].executions().pop().unwrap().headers;
    let left_ms: u64 = headers["x-slo-remaining-ms"].parse().unwrap();
    // The gRPC library rounds up to three digits.
    assert!((1001..=5100).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn tritonclient_gets_deadline_exceeded_over_grpc() {
    let scene = one_http2().await;
    let address = scene.envoy.listener("weir").unwrap();
    let options = options(Some(("x-slo-ms", "20".to_owned())));
    let results = triton("grpc", address, "model", &options).await.unwrap();
    assert_eq!(results.status, "StatusCode.DEADLINE_EXCEEDED");
    assert!(results.message.contains("infeasible"), "{results:?}");
    assert_eq!(scene.backends[0].executions(), []);
}
