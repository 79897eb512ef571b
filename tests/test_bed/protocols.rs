//! The variant emulator's other protocols (gRPC, TF Serving, plain, events), its batches and its next stage,
//! without an Envoy: it answers correctly and refuses malformed input.

use std::num::NonZeroU32;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use weir_bed::emulator::{Door, InferAnswer};
use weir_bed::oip::{self, Client as Grpc, ModelInferRequest};

use crate::small::{emulator, infer, status};

#[tokio::test]
async fn grpc_is_answered_and_refused_with_grpc_statuses() {
    let emulator = emulator(|_| {}).await.unwrap();
    let grpc = Grpc::of(emulator.addr()).unwrap();
    let live = grpc.call("ServerLive", oip::ServerLiveRequest {}, &[]);
    let live: oip::ServerLiveResponse = live.await.unwrap().into_inner();
    assert!(live.live);
    for (model, ready) in [("small", Ok(true)), ("other", Err(tonic::Code::NotFound))] {
        let request = oip::ModelRequest {
            name: model.to_owned(),
            ..Default::default()
        };
        let answer = grpc.call("ModelReady", request, &[]).await;
        let answer = answer.map(|answer| answer.into_inner());
        let answer = answer.map(|answer: oip::ModelReadyResponse| answer.ready);
        assert_eq!(answer.map_err(|status| status.code()), ready, "{model}");
    }
    let infer = async |model: &str| {
        let request = ModelInferRequest::of(model, &[1, 2, 3]);
        let headers = [
            ("x-slo-ms", "80".to_owned()),
            ("x-request-id", "r1".to_owned()),
        ];
        let answer = grpc.infer(request, &headers).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| status.code())
    };
    emulator.fail_next(1);
    assert_eq!(infer("other").await, Err(tonic::Code::NotFound));
    assert_eq!(infer("small").await, Err(tonic::Code::Internal));
    let answer = infer("small").await.unwrap();
    assert_eq!(
        (answer.output("bytes"), answer.id.as_str()),
        (Some(3), "r1")
    );
    let done = emulator.executions();
    assert_eq!((done.len(), done[0].door), (1, Door::OipGrpc));
    assert_eq!(done[0].headers["x-slo-ms"], "80");
}

#[tokio::test]
async fn other_protocols_refuse_malformed_input() {
    let emulator = emulator(|_| {}).await.unwrap();
    let client = Client::new();
    let url = |path: &str| format!("{}{path}", emulator.url());
    for (path, body, expected) in [
        ("/v1/models/small:predict", r#"{"inputs": {"x": 1}}"#, 200),
        (
            "/v1/models/small:predict",
            r#"{"inputs": 1, "instances": []}"#,
            400,
        ),
        ("/v1/models/small:predict", "no JSON", 400),
        ("/v1/models/small:classify", "{}", 404),
        ("/v1/models/other:predict", "{}", 404),
        ("/v1/stream?events=0", "", 400),
        ("/v1/stream?events=1", "", 200),
        ("/predict", "", 200),
    ] {
        let answer = client.post(url(path)).body(body).send().await.unwrap();
        assert_eq!(answer.status(), expected, "{path} {body}");
        assert_eq!(answer.headers()["x-emulated"], "small");
    }
    let doors: Vec<_> = emulator.executions().iter().map(|d| d.door).collect();
    assert_eq!(doors, [Door::TfServing, Door::Events, Door::Plain]);
    for (path, expected) in [("/v1/models/small", 200), ("/v1/models/other", 404)] {
        assert_eq!(status(&emulator, path).await.unwrap(), expected, "{path}");
    }
    let head = client.head(url("/predict")).send().await.unwrap();
    assert_eq!(head.status(), 200);
    let options = reqwest::Method::OPTIONS;
    let options = client.request(options, url("/predict")).send().await;
    assert_eq!(
        options.unwrap().headers()["allow"],
        "GET, HEAD, POST, OPTIONS"
    );
}

/// The journal records the size of each batch.
#[tokio::test]
async fn full_batch_starts_at_once_and_partial_batch_waits() {
    let emulator = emulator(|config| {
        config.batch_max = NonZeroU32::new(3).unwrap();
        config.batch_delay = Duration::from_secs(1);
    })
    .await
    .unwrap();
    let requests: Vec<_> = (0..4).map(|_| infer(&emulator, Vec::new())).collect();
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    let done = emulator.executions();
    let batches: Vec<_> = done.iter().map(|d| d.batch).collect();
    assert_eq!(batches, [3, 3, 3, 1]);
    // The journal's times are exact; their difference as floats is not.
    let waited_ms = |n: usize| done[n].started_ms - done[n].arrived_ms;
    assert!(waited_ms(0) < 999.0);
    assert!((waited_ms(3) - 1000.0).abs() < 1e-3, "{}", waited_ms(3));
}

#[tokio::test]
async fn next_stage_is_called_and_its_refusal_passed_on() {
    let detector = emulator(|_| {}).await.unwrap();
    let classifier = emulator(|_| {}).await.unwrap();
    let next = format!("{}/emulator/next", detector.url());
    let url = format!("{}/v2/models/small/infer", classifier.url());
    let change = async |url: Value| {
        let body = json!({"url": url});
        let answer = Client::new().put(&next).json(&body).send().await.unwrap();
        answer.status().as_u16()
    };
    assert_eq!(change(json!("no url")).await, 400);
    assert_eq!(change(json!(url)).await, 200);
    let answer = infer(&detector, b"image".to_vec()).await.unwrap();
    let answer: InferAnswer = answer.json().await.unwrap();
    let bytes = answer.parameters["next"].pointer("/outputs/0/data/0");
    assert_eq!(bytes, Some(&json!(5)));
    assert_eq!(classifier.executions()[0].request_id, "r1");
    let (first, second) = (&detector.executions()[0], &classifier.executions()[0]);
    assert!(first.door == second.door && first.headers == second.headers);

    classifier.fail_next(1);
    assert_eq!(infer(&detector, Vec::new()).await.unwrap().status(), 500);
    assert_eq!(detector.executions().len(), 2);
    drop(classifier);
    assert_eq!(infer(&detector, Vec::new()).await.unwrap().status(), 502);
    assert_eq!(change(Value::Null).await, 200);
    assert_eq!(infer(&detector, Vec::new()).await.unwrap().status(), 200);
}
